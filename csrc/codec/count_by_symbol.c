#include "codec/count_by_symbol.h"

#include "base/atomic.h"

/* One word counts ticks of three kinds: each kind has this many bits, and the ticks of a stretch cannot overflow them. */
enum { BITS = 21, STRETCH = (1 << BITS) - 1 };
/* Counts of so many symbols do not stay in a core's caches. */
enum { MANY = 1 << 16, AHEAD = 16 };
static const uint64_t count_of_kind[256] = {
    [SD_KIND_ORDER] = 1, [SD_KIND_TRADE] = UINT64_C(1) << BITS, [SD_KIND_QUOTE] = UINT64_C(1) << 2 * BITS};

/* Notes a tick, the i-th of a stretch, with a time before `latest`. */
static SD_NOINLINE void behind(sd_seen *seen, const sd_tick *t, int64_t latest, uint64_t i) {
  if (t->ts_recv < 0) return;
  seen->behind++;
  if (latest - t->ts_recv <= seen->furthest_ns) return;
  seen->furthest_ns = latest - t->ts_recv;
  seen->furthest_at = seen->ticks + (int64_t)i;
  seen->furthest_symbol = t->instrument_id;
}

/* `ahead`: 0, or how many ticks ahead of its turn a tick's count is asked for. */
SD_INLINE void stretch(const sd_tick *ticks, uint64_t n, int64_t *counts, uint64_t n_counts, sd_seen *seen,
                       const uint64_t ahead) {
  int64_t latest = seen->latest;
  uint64_t kinds = 0;
  int64_t zero_sizes = 0;
  for (uint64_t i = 0; i < n; i++) {
    const sd_tick *t = &ticks[i];
    if (ahead && SD_LIKELY(i + ahead < n)) sd_prefetch_write(&counts[t[ahead].instrument_id]);
    if (SD_LIKELY(t->instrument_id < n_counts)) counts[t->instrument_id]++;
    kinds += count_of_kind[t->kind];
    zero_sizes += t->size == 0 && t->kind == SD_KIND_TRADE;
    if (SD_LIKELY(t->ts_recv >= latest)) latest = t->ts_recv;
    else behind(seen, t, latest, i);
  }
  seen->latest = latest;
  seen->zero_sizes += zero_sizes;
  seen->orders += (int64_t)(kinds & STRETCH);
  seen->trades += (int64_t)(kinds >> BITS & STRETCH);
  seen->quotes += (int64_t)(kinds >> 2 * BITS & STRETCH);
  seen->ticks += (int64_t)n;
}

void sd_count_by_symbol(const sd_tick *ticks, uint64_t n, int64_t *counts, uint64_t n_counts, sd_seen *seen) {
  sd_seen none = {0};
  if (!seen) seen = &none;
  for (uint64_t i = 0; i < n; i += STRETCH) {
    const uint64_t some = n - i < STRETCH ? n - i : STRETCH;
    if (n_counts < MANY) stretch(ticks + i, some, counts, n_counts, seen, 0);
    else stretch(ticks + i, some, counts, n_counts, seen, AHEAD);
  }
}
