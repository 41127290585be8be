/* Inline execution. If running a handler costs less than handing a record to another core, the publisher takes idle strands by their
 * publish locks and handles the records itself. It handles a copy, if another thread could change the records. Order holds: a strand is
 * handled inline only when nothing of it is queued or owned by a worker, and it stays owned until all its records of the run are done. */
#include "publish/inline.h"

#include "base/clock.h"
#include "blocks/blocks.h"
#include "numbering/failure.h"
#include "numbering/watermark.h"
#include "publish/cost_model.h"
#include "publish/numbers.h"
#include "worker/accounting.h"
#include "worker/call.h"
#include "worker/worker.h"

#if defined(SD_MODEL_SCHEDULER)
enum {
  SLICE = 2,
  SHORT_SLICE = 1,
  UNGROUPED_SLICE = 1,
  DEAR_NS = 5,
  PIECE_MIN = 2,
  PIECE_MAX = 4,
  PIECE_NS = 300,
  RUN_NS = 1000,
  SETTLE_NS = 20,
  LONG_CALL = 4,
  A_STRAND = 1,
  A_SYMBOL_NS = 0,
  LONG_RUN_NS = 2000,
  SEEN_RUN_NS = 1500,
};
#elif defined(SD_STRESS)
/* For the stress test: takes every way, and changes ways, within a few thousand records. */
enum {
  SLICE = 4,
  SHORT_SLICE = 2,
  UNGROUPED_SLICE = 2,
  DEAR_NS = 50,
  PIECE_MIN = 4,
  PIECE_MAX = 64,
  PIECE_NS = 20000,
  RUN_NS = 1000000,
  SETTLE_NS = 50000,
  LONG_CALL = 128,
  A_STRAND = 1,
  A_SYMBOL_NS = 0,
  LONG_RUN_NS = 2000000,
  SEEN_RUN_NS = 1000000,
};
#else
enum {
  SLICE = SD_SLICE, /* records owned and handled in one call: many, so that a handler may prefetch */
  SHORT_SLICE = 32, /* but few if they are cheap, so that counting waits for memory while the slice before is handled */
  UNGROUPED_SLICE = 16, /* the same where all strands are owned: a loop of so many turns ends as a core guesses */
  DEAR_NS = 50,         /* per record: a handler that takes less is cheap */
  PIECE_MIN = 64,       /* records handled between two readings of the clock */
  PIECE_MAX = 1024,
  PIECE_NS = 20000,   /* more of them, as long as they take less than this */
  RUN_NS = 1000000,   /* how long one run may last */
  SETTLE_NS = 500000, /* how long to wait for strands to become idle */
  LONG_CALL = 32768,  /* records left in a call from which on all strands are owned at once, ... */
  A_STRAND =
      32, /* ... if they are so many per strand: to own a strand, and to let it go, costs as much as some 15 cheap records */
  A_SYMBOL_NS = 200,      /* by how much longer a trial of it lasts for each symbol */
  LONG_RUN_NS = 20000000, /* how long such a run may last, ... */
  SEEN_RUN_NS = 3000000   /* ... if others may look at the rows from outside */
};
#endif

/* How many records, and strands, ahead of their turn a prefetch asks for; and records where all strands are owned. */
enum { RECORDS_AHEAD = 32, STRANDS_AHEAD = 8, OWNED_AHEAD = 16, UNGROUPED_AHEAD = 128 };

/* Whether a strand is busy with a task. One that is held would stay so. P7: relaxed; a hint. */
static int has_task(sd_dispatcher *d, uint32_t strand) {
  sd_strand *s = &d->strands[strand];
  return sd_strand_tasks(s) && sd_load(&s->pending, relaxed, P7) && !sd_load(&s->control, relaxed, P4);
}

/* Helps, and waits, until the strands that workers still have are idle again: those with records, and the one that the publisher found
 * busy, if that has a task. */
static void settle(sd_dispatcher *d, uint32_t participant, const sd_publisher *p) {
  uint64_t start = sd_now(), maximum = sd_clock_counts(SETTLE_NS);
  while (sd_help(d, participant) || sd_in_flight(d) || has_task(d, p->busy)) {
    if (sd_now() - start > maximum) break;
    if (p->one_core) sd_yield();
    sd_pause();
  }
  sd_bump(&d->participants[participant].counters.waited, sd_now() - start);
}

static inline void prefetch_strand(sd_dispatcher *d, uint32_t strand) {
  prefetch_publisher_line(d, strand);
  prefetch_token_line(d, strand);
}

/* Owns the idle strands of groups from + 1 .. n_groups, all or none. */
static int own_groups(sd_dispatcher *d, uint32_t participant, sd_publisher *p, uint32_t from) {
  const uint32_t n_groups = p->n_groups;
  for (uint32_t i = from + 1; i <= n_groups; i++) {
    if (i + STRANDS_AHEAD <= n_groups) prefetch_strand(d, p->groups[i + STRANDS_AHEAD].strand);
    if (SD_LIKELY(sd_strand_own_idle(&d->strands[p->groups[i].strand], participant))) continue;
    p->busy = p->groups[i].strand;
    for (uint32_t j = from + 1; j < i; j++) sd_strand_disown(&d->strands[p->groups[j].strand]);
    return 0;
  }
  return 1;
}

static uint32_t strand_of(const sd_dispatcher *d, const unsigned char *record) { return d->map[sd_key_of(d, record)]; }

/* Counts records by strand, in group_of, lists the strands that are new in groups[], and asks for the records' rows. Copies the records
 * to p->copy, unless p->own. Returns the position of the first key that is out of range, else n. `left`: how many records the call has
 * from the first one on; size: of a record; cache_cold: d->cache_cold; own: p->own. */
static inline int64_t count_records(sd_dispatcher *d, sd_publisher *p, const unsigned char *records, int64_t n,
                                    int64_t left, const size_t size, const int cache_cold, const int own) {
  const uint32_t *map = d->map, symbols = d->arena->n_symbols;
  const size_t key_offset = d->arena->key_offset, stride = d->arena->row_stride;
  uint32_t *counts = p->group_of, n_groups = p->n_groups;
  const unsigned char *at = records + key_offset;
  unsigned char *to = p->copy;
  int64_t i;
  for (i = 0; i < n; i++, at += size, to += size) {
    const uint32_t key = sd_key_at(at);
    if (SD_UNLIKELY(key >= symbols)) break;
    sd_prefetch(at + RECORDS_AHEAD * size);
    if (!own) {
      sd_copy(to, at - key_offset, size);
      memcpy(to + key_offset, &key, sizeof key);
    }
    sd_prefetch_write(d->rows + key * stride);
    if (cache_cold) prefetch_lookups(d, p, at, left - i);
    const uint32_t strand = map[key];
    if (SD_LIKELY(counts[strand]++ != 0)) continue;
    p->groups[++n_groups].strand = strand;
    if (cache_cold) prefetch_strand(d, strand);
  }
  p->n_groups = n_groups;
  return i;
}

/* The same for ticks. */
static inline int64_t count_ticks(sd_dispatcher *d, sd_publisher *p, const unsigned char *records, int64_t n,
                                  int64_t left, const int own) {
  return d->cache_cold ? count_records(d, p, records, n, left, 64, 1, own)
                       : count_records(d, p, records, n, left, 64, 0, own);
}

/* Subtracts the last n records of the slice from their counts again. */
static void uncount(const sd_dispatcher *d, const sd_publisher *p, int64_t from, int64_t n) {
  const unsigned char *records = p->slice + (size_t)from * d->pool.record_size;
  for (int64_t i = 0; i < n; i++) p->group_of[strand_of(d, records + (size_t)i * d->pool.record_size)]--;
}

/* Counts the next records, a slice, and owns the strands that are new. Returns how many may be handled; 0: none. */
static inline int64_t own_slice(sd_dispatcher *d, uint32_t participant, sd_publisher *p, const unsigned char *records,
                                int64_t n) {
  const uint32_t known = p->n_groups;
  const size_t size = d->pool.record_size;
  if (p->max_groups < d->arena->n_strands && p->max_groups - known < (uint64_t)n) return 0;
  p->slice = p->own ? records : p->copy;
  /* After a bad key: handle what comes before it. The next turn finds it at the front. */
  const int64_t left = d->cache_cold ? p->n - (records - p->records) / (int64_t)size : 0;
  if (SD_UNLIKELY(size != 64)) n = count_records(d, p, records, n, left, size, d->cache_cold, p->own);
  else if (p->own) n = count_ticks(d, p, records, n, left, 1);
  else n = count_ticks(d, p, records, n, left, 0);
  if (SD_LIKELY(p->n_groups == known) || own_groups(d, participant, p, known)) return n;
  uncount(d, p, 0, n);
  p->n_groups = known;
  return 0;
}

/* Gives back the numbers of the last n records of a slice of `all`, so that these records get them again. Does nothing if other
 * publishers are at work, because their lower bounds may be higher. `time`: what the feed's time, and this publisher's bound, become.
 * Timers up to it have fired, so it cannot be earlier. If it were later, the records would get a later time than their own: they do only
 * where sd_publish_time has moved the feed's time on. */
static void unnumber(sd_dispatcher *d, uint32_t participant, sd_publisher *p, uint32_t n, uint32_t all, uint64_t time) {
  sd_arena *a = d->arena;
  uint64_t next = p->number + all + d->config.sizes.counters_start;
  p->numbered = all - n;
  p->end_time = time;
  sd_lock(&a->numbering);
  sd_lock(&a->number_lock);
  if (sd_publishes_alone(d, participant) && sd_load(&a->next_sequence, relaxed, N1) == next) {
    sd_fetch_sub(&a->next_sequence, (uint64_t)n, acq_rel, M4);
    const uint64_t moved_to = sd_load(&a->moved_to, relaxed, N1);
    sd_store(&a->feed_time, moved_to > time ? moved_to : time, relaxed, N1);
    /* N3: relaxed; the M1 that moves this publisher's bound on, or ends its call, makes it visible. */
    sd_store(&a->given_back, sd_load(&a->given_back, relaxed, N3) + 1, relaxed, N3);
  }
  sd_unlock(&a->number_lock);
  sd_unlock(&a->numbering);
}

/* Records a failure on the record after `done` of a slice of n. */
static void fail_slice(sd_dispatcher *d, uint32_t participant, sd_publisher *p, int64_t n, int64_t done,
                       const sd_context *ctx) {
  const unsigned char *bad = p->slice + (size_t)done * d->pool.record_size;
  const uint32_t strand = strand_of(d, bad);
  sd_strand *s = &d->strands[strand];
  uncount(d, p, done, n - done);
  sd_fail(d, participant, strand, bad, p->group_of[strand], ctx->error_code, ctx->message);
  sd_bump(&s->accepted, 1);
  sd_account_failure(s);
}

/* Owns strands and handles up to n records, slice by slice. Returns how many are finished; *failed: the handler failed on the last of
 * them. */
static int64_t run_piece(sd_dispatcher *d, uint32_t participant, sd_publisher *p, const sd_handler *handler,
                         sd_context *ctx, const unsigned char *records, int64_t n, int *failed, int *stopped) {
  const size_t size = d->pool.record_size;
  int64_t at = 0;
  while (at < n) {
    const unsigned char *from = records + (size_t)at * size;
    /* With positions, each slice takes the lock of the numbers once. */
    const int64_t maximum = p->cheap && !p->positions ? SHORT_SLICE : SLICE;
    int64_t slice = own_slice(d, participant, p, from, n - at < maximum ? n - at : maximum);
    if (slice == 0) break;
    if (p->positions) {
      sd_number_records(d, p, p->slice, (uint32_t)slice);
      p->numbered = (uint64_t)slice;
    }
    int64_t done = sd_run_handler(d, handler, SD_NONE, p->slice, p->positions, slice, ctx);
    if (SD_UNLIKELY(ctx->stopped)) {
      /* A timer failed, or timers took too long: the record that they precede still has to be handled. */
      unnumber(d, participant, p, (uint32_t)(slice - done), (uint32_t)slice, p->positions[done].time);
      uncount(d, p, done, slice - done);
      *stopped = 1;
      return at + done;
    }
    if (SD_UNLIKELY(done < slice)) {
      if (p->positions)
        unnumber(d, participant, p, (uint32_t)(slice - done - 1), (uint32_t)slice, p->positions[done].time);
      fail_slice(d, participant, p, slice, done, ctx);
      *failed = 1;
      return at + done + 1;
    }
    at += slice;
  }
  return at;
}

/* ---- all strands at once
 *
 * Of a long call, the publisher owns all strands from the start. So no record asks whether its strand is owned already, and no strand is
 * let go and owned again in the middle. Records are counted by key, but neither grouped nor listed. */

#if defined(__x86_64__) && !defined(SD_MODEL_RELACY)
#define WIDE __attribute__((target("avx512f")))
#define has_wide() __builtin_cpu_supports("avx512f")
#else
#define WIDE
#define has_wide() 0
#endif

/* A tick as one value: a compiler copies it by the widest stores that it may use. */
typedef unsigned char whole_tick __attribute__((vector_size(64), aligned(1), may_alias));

/* Counts n records by key, asks for their rows, and copies them to p->copy, unless `own`. Nonzero: a key is out of range; a record of such
 * a key counts as one of key 0. Without a branch that depends on a record. */
static inline __attribute__((always_inline)) int count_ungrouped(sd_dispatcher *d, sd_publisher *p,
                                                                 const unsigned char *records, int64_t n,
                                                                 const size_t size, const int own) {
  const uint32_t symbols = d->arena->n_symbols;
  const size_t key_offset = d->arena->key_offset, stride = d->arena->row_stride;
  uint32_t *counts = p->of_key;
  unsigned char *rows = d->rows, *to = p->copy;
  int bad = 0;
  for (int64_t i = 0; i < n; i++, records += size, to += size) {
    const uint32_t key = sd_key_at(records + key_offset), known = key < symbols ? key : 0;
    bad |= key >= symbols;
    sd_prefetch(records + UNGROUPED_AHEAD * size);
    sd_prefetch_write(rows + known * stride);
    if (!own) {
      if (size == sizeof(whole_tick)) *(whole_tick *)to = *(const whole_tick *)records;
      else sd_copy(to, records, size);
      memcpy(to + key_offset, &key, sizeof key);
    }
    counts[known]++;
  }
  return bad;
}

/* Takes the records of a slice whose keys are not all known out of the counts again, but for those before the first such key. Returns how
 * many these are. */
static SD_NOINLINE int64_t uncount_bad(const sd_dispatcher *d, sd_publisher *p, int64_t n) {
  int64_t good = n;
  for (int64_t i = n - 1; i >= 0; i--) {
    const uint32_t key = sd_key_of(d, p->slice + (size_t)i * d->pool.record_size);
    const int is_bad = key >= d->arena->n_symbols;
    p->of_key[is_bad ? 0 : key]--;
    if (is_bad) good = i;
  }
  for (int64_t i = 0; i < good; i++) p->of_key[sd_key_of(d, p->slice + (size_t)i * d->pool.record_size)]++;
  return good;
}

/* Adds what was counted by key to the counts by strand. */
static void fold(const sd_dispatcher *d, sd_publisher *p) {
  for (uint32_t key = 0; key < d->arena->n_symbols; key++) {
    p->group_of[d->map[key]] += p->of_key[key];
    p->of_key[key] = 0;
  }
}

/* Owns all strands, if the call is long. Zero: none is owned. */
static int own_all(sd_dispatcher *d, uint32_t participant, sd_publisher *p) {
  const uint64_t left = (uint64_t)(p->n - p->at);
  const uint32_t n = d->arena->n_strands;
  if (p->positions || left < LONG_CALL || left < (uint64_t)A_STRAND * n || left < d->arena->n_symbols) return 0;
  /* The strand that was busy last is asked first: with many strands, one that is paused would make each try dear. P4, P7: relaxed; hints. */
  sd_strand *busy = &d->strands[p->busy];
  if (sd_load(&busy->control, relaxed, P4) || sd_load(&busy->pending, relaxed, P7)) return 0;
  for (uint32_t i = 0; i < n; i++) {
    if (i + OWNED_AHEAD < n) prefetch_strand(d, i + OWNED_AHEAD);
    if (SD_LIKELY(sd_strand_own_idle(&d->strands[i], participant))) continue;
    p->busy = i;
    for (uint32_t j = 0; j < i; j++) sd_strand_disown(&d->strands[j]);
    return 0;
  }
  return 1;
}

/* How long a run that owns all strands may last. One that is tried is short, but its end looks at each symbol. */
static uint64_t all_run_ns(const sd_dispatcher *d, const sd_publisher *p) {
  const uint64_t most = d->arena->description ? SEEN_RUN_NS : LONG_RUN_NS;
  const uint64_t tried = RUN_NS + (uint64_t)A_SYMBOL_NS * d->arena->n_symbols;
  return p->on_trial && tried < most ? tried : most;
}

/* Handles n records, slice by slice, of strands that are all owned. Returns how many are finished; *failed: the handler failed on the last of
 * them. */
static inline __attribute__((always_inline)) int64_t run_slices(sd_dispatcher *d, uint32_t participant, sd_publisher *p,
                                                                const sd_handler *handler, sd_context *ctx,
                                                                const unsigned char *records, int64_t n,
                                                                const size_t size, const int own, int *failed) {
  const int64_t maximum = p->cheap ? UNGROUPED_SLICE : SLICE;
  p->slice = p->copy;
  for (int64_t at = 0, slice; at < n; at += slice) {
    const unsigned char *from = records + (size_t)at * size;
    slice = n - at < maximum ? n - at : maximum;
    if (own) p->slice = from;
    if (SD_UNLIKELY(count_ungrouped(d, p, from, slice, size, own))) {
      /* What comes before the bad key is handled. The next turn finds it at the front. */
      slice = uncount_bad(d, p, slice);
      n = at + slice;
    }
    const int64_t done = slice ? sd_run_plain(d, handler, p->slice, slice, ctx) : 0;
    if (SD_LIKELY(done == slice)) continue;
    fold(d, p);
    fail_slice(d, participant, p, slice, done, ctx);
    *failed = 1;
    return at + done + 1;
  }
  return n;
}

WIDE static int64_t run_wide(sd_dispatcher *d, uint32_t participant, sd_publisher *p, const sd_handler *handler,
                             sd_context *ctx, const unsigned char *records, int64_t n, int *failed) {
  return run_slices(d, participant, p, handler, ctx, records, n, 64, 0, failed);
}

/* As run_piece, after own_all. */
static int64_t run_ungrouped(sd_dispatcher *d, uint32_t participant, sd_publisher *p, const sd_handler *handler,
                             sd_context *ctx, const unsigned char *records, int64_t n, int *failed) {
  const size_t size = d->pool.record_size;
  if (SD_UNLIKELY(size != 64)) return run_slices(d, participant, p, handler, ctx, records, n, size, p->own, failed);
  if (p->own) return run_slices(d, participant, p, handler, ctx, records, n, 64, 1, failed);
  if (has_wide()) return run_wide(d, participant, p, handler, ctx, records, n, failed);
  return run_slices(d, participant, p, handler, ctx, records, n, 64, 0, failed);
}

/* Lets all strands go. */
static void let_all_go(sd_dispatcher *d, uint32_t participant, sd_publisher *p) {
  fold(d, p);
  for (uint32_t i = 0; i < d->arena->n_strands; i++) {
    if (i + OWNED_AHEAD < d->arena->n_strands) prefetch_strand(d, i + OWNED_AHEAD);
    const uint32_t n = p->group_of[i];
    sd_strand *s = &d->strands[i];
    if (n) {
      sd_bump(&s->accepted, n);
      sd_account_strand(sd_counts_at(d, participant, 0), s, n);
      p->group_of[i] = 0;
    }
    sd_strand_disown(s);
  }
}

/* ---- runs */

/* No list had the strands: they have no level. `all`: the publisher owned all strands. */
static void account_piece(sd_dispatcher *d, uint32_t participant, int64_t n, int failed, int all, uint64_t took) {
  sd_counters *c = &d->participants[participant].counters;
  const uint64_t handled = (uint64_t)(n - failed);
  sd_bump(&c->accepted, (uint64_t)n);
  sd_bump(&c->handled_inline, handled);
  if (all) sd_bump(&c->handled_ungrouped, handled);
  sd_account_records(c, sd_counts_at(d, participant, 0), handled, (uint64_t)failed, 0, took);
}

/* Lets the strands go. `stopped`: the run ended at the timers before a record. They have fired up to its time, so no record may follow
 * with a lower number and that time. */
static void end_run(sd_dispatcher *d, uint32_t participant, sd_publisher *p, int stopped) {
  for (uint32_t i = 1; i <= p->n_groups; i++) {
    if (i + OWNED_AHEAD <= p->n_groups) {
      const uint32_t next = p->groups[i + OWNED_AHEAD].strand;
      prefetch_strand(d, next);
      sd_prefetch_write(p->group_of + next);
    }
    const uint32_t strand = p->groups[i].strand, n = p->group_of[strand];
    sd_strand *s = &d->strands[strand];
    sd_bump(&s->accepted, n);
    sd_account_strand(sd_counts_at(d, participant, 0), s, n);
    if (p->positions) d->last_number[strand] = p->number + p->numbered - !stopped;
    sd_strand_disown(s);
  }
  sd_forget_groups(p);
}

int64_t sd_publish_inline(sd_dispatcher *d, uint32_t participant, sd_publisher *p, int64_t maximum) {
  uint64_t start = sd_now(), now = start;
  const int all = own_all(d, participant, p);
  const uint64_t piece_counts = sd_clock_counts(PIECE_NS), least_counts = sd_clock_counts(RUN_NS);
  const uint64_t run_counts = all ? sd_clock_counts(all_run_ns(d, p)) : least_counts;
  const uint64_t dear_counts = sd_clock_counts(DEAR_NS);
  /* Inline execution needs the same handler on all strands. */
  const sd_handler *handler = &d->handlers[d->strands[0].handler];
  sd_context ctx;
  sd_context_of(d, participant, handler, &ctx);
  int64_t at = 0, piece = PIECE_MIN;
  int settled = all, failed = 0, stopped = 0;
  if (all) maximum = p->n - p->at;
  while (at < maximum && !failed && !stopped && now - start < run_counts && !sd_dispatcher_stopping(d)) {
    /* H10: relaxed; a hint. */
    if (all && now - start >= least_counts && sd_load(&d->waiting, relaxed, H10)) break;
    const unsigned char *records = p->records + (size_t)(p->at + at) * d->pool.record_size;
    int64_t asked = piece < maximum - at ? piece : maximum - at;
    ctx.until = now + run_counts;
    int64_t n = all ? run_ungrouped(d, participant, p, handler, &ctx, records, asked, &failed)
                    : run_piece(d, participant, p, handler, &ctx, records, asked, &failed, &stopped);
    uint64_t before = now;
    now = sd_now();
    if (n) {
      account_piece(d, participant, n, failed, all, now - before);
      p->cheap = now - before < (uint64_t)n * dear_counts;
    }
    at += n;
    if (n < asked) {
      if (at || settled || stopped) break;
      settled = 1;
      settle(d, participant, p);
      start = now = sd_now();
    } else if (now - before > piece_counts) {
      piece = piece > 2 * PIECE_MIN ? piece / 2 : PIECE_MIN;
    } else if (piece < PIECE_MAX) {
      piece *= 2;
    }
  }
  if (all) let_all_go(d, participant, p);
  else end_run(d, participant, p, stopped);
  sd_learn_inline(p, sd_now() - start, at);
  if (all) sd_give_way(d, participant);
  return at;
}
