#include "lab/bench/probe.h"

#include "base/clock.h"

#include <stdlib.h>
#include <string.h>

/* Ticks between two readings of the clock: few enough to be fair to the first of them, and enough to make the reading cheap. */
enum { PIECE = 16 };

struct sd_bench_probe {
  sd_handler_fn fn;
  const void *params;
  uint32_t participants, groups;
  const uint8_t *group_of; /* by symbol; NULL: all are of group 0 */
  sd_bench_pace pace;
  sd_histogram *histograms; /* a participant's groups next to each other */
};

sd_bench_probe *sd_bench_probe_create(sd_handler_fn fn, const void *params, uint32_t participants,
                                      const uint8_t *group_of, uint32_t groups) {
  sd_clock_init();
  sd_bench_probe *probe = calloc(1, sizeof *probe);
  if (!probe) return NULL;
  size_t bytes = (size_t)participants * groups * sizeof *probe->histograms;
  probe->histograms = aligned_alloc(SD_LINE, (bytes + SD_LINE - 1) / SD_LINE * SD_LINE);
  if (!probe->histograms) {
    free(probe);
    return NULL;
  }
  memset(probe->histograms, 0, bytes);
  probe->fn = fn;
  probe->params = params;
  probe->participants = participants;
  probe->group_of = group_of;
  probe->groups = groups;
  return probe;
}

void sd_bench_probe_destroy(sd_bench_probe *probe) {
  if (!probe) return;
  free(probe->histograms);
  free(probe);
}

void sd_bench_probe_sum(const sd_bench_probe *probe, uint32_t group, uint64_t *counts) {
  memset(counts, 0, SD_BUCKETS * sizeof *counts);
  for (uint32_t i = 0; i < probe->participants; i++)
    for (int b = 0; b < SD_BUCKETS; b++) counts[b] += sd_peek(&probe->histograms[i * probe->groups + group].bucket[b]);
}

sd_bench_pace sd_bench_probe_start(sd_bench_probe *probe, const sd_tick *first) {
  probe->pace = (sd_bench_pace){sd_now(), first->ts_recv, 1.0 / sd_the_clock.ns_per_count};
  return probe->pace;
}

int64_t sd_bench_await_due(const sd_bench_pace *pace, const sd_tick *ticks, int64_t n) {
  uint64_t first = sd_bench_due(pace, ticks), now = sd_now();
  while ((int64_t)(now - first) < 0) {
    sd_pause();
    now = sd_now();
  }
  int64_t due = 1;
  while (due < n && (int64_t)(now - sd_bench_due(pace, &ticks[due])) >= 0) due++;
  return due;
}

int64_t sd_bench_handle_probed(void *rows, const sd_tick *ticks, int64_t n, sd_context *ctx) {
  sd_bench_probe *const *address = ctx->params;
  sd_bench_probe *probe = *address;
  if (ctx->participant >= probe->participants) {
    ctx->error_code = 1;
    return 0;
  }
  sd_histogram *histograms = &probe->histograms[ctx->participant * probe->groups];
  int64_t done = 0;
  ctx->params = probe->params;
  while (done < n) {
    int64_t piece = n - done < PIECE ? n - done : PIECE, ran = probe->fn(rows, ticks + done, piece, ctx);
    uint64_t now = sd_now();
    for (int64_t i = 0; i < ran; i++) {
      uint64_t due = sd_bench_due(&probe->pace, &ticks[done + i]);
      const uint32_t group = probe->group_of ? probe->group_of[ticks[done + i].instrument_id] : 0;
      /* The counters of two cores may differ by a little. */
      sd_record(&histograms[group], (int64_t)(now - due) > 0 ? now - due : 0, 1);
    }
    done += ran;
    if (ran < piece) break;
  }
  ctx->params = address;
  return done;
}
