/* What the benchmarks measure latency with: a handler around a handler, the same for every way of routing.
 *
 * A tick is due at its ts_recv, in ns after the first tick's. The probe runs the inner handler over a few ticks at a time. For each tick
 * it records the time from when the tick was due to when its handler was done. So a publisher or a queue that falls behind shows in full,
 * however late the tick was really sent. */
#pragma once

#include "memory/counters.h"
#include "sd_handler.h"

/* cffi: begin */
typedef struct sd_bench_probe sd_bench_probe;

/* `participants`: threads that may run handlers, publishers included. `group_of`: of each symbol, below `groups`; each group has a
 * histogram. NULL: there is one group. `params` and `group_of` must outlive the probe. Returns NULL where there is no memory. */
sd_bench_probe *sd_bench_probe_create(sd_handler_fn fn, const void *params, uint32_t participants,
                                      const uint8_t *group_of, uint32_t groups);
void sd_bench_probe_destroy(sd_bench_probe *probe);
/* Adds up the participants' histograms of a group, in clock counts: SD_BUCKETS values. Only while no participant runs. */
void sd_bench_probe_sum(const sd_bench_probe *probe, uint32_t group, uint64_t *counts);

/* The handler; its params are the address of the probe (a pointer to it, so that they can be copied). */
int64_t sd_bench_handle_probed(void *rows, const sd_tick *ticks, int64_t n, sd_context *ctx);
/* cffi: end */

/* When ticks are due. */
typedef struct sd_bench_pace {
  uint64_t start;    /* clock counts: when the first tick is due */
  uint64_t first_ns; /* its ts_recv */
  double counts_a_ns;
} sd_bench_pace;

/* Starts the probe's clock, before the first tick is published. */
sd_bench_pace sd_bench_probe_start(sd_bench_probe *probe, const sd_tick *first);

static inline uint64_t sd_bench_due(const sd_bench_pace *pace, const sd_tick *tick) {
  return pace->start + (uint64_t)((double)(tick->ts_recv - pace->first_ns) * pace->counts_a_ns);
}

/* Spins until the first of n ticks (n > 0) is due; returns how many are by then. */
int64_t sd_bench_await_due(const sd_bench_pace *pace, const sd_tick *ticks, int64_t n);
