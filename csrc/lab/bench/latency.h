/* One tick, from a publisher's thread to a handler on another core. */
#pragma once

#include <stdint.h>

#include "lab/bench/engine.h"

/* cffi: begin */
typedef struct sd_bench_ping {
  int32_t idle;           /* SD_IDLE_* of the worker */
  int32_t publisher_core; /* negative: not pinned */
  int32_t worker_core;
  uint64_t gap_ns; /* from a tick's handling to the next publish; if 100 us or more, the publisher sleeps */
  int64_t n;
  uint64_t *latency_ns;   /* out: n values, from before the publish to the handler's first look at the clock */
  uint64_t wall_ns;       /* out: from the first publish to the last handling */
  uint64_t worker_cpu_ns; /* out: the worker's CPU time in that span */
  uint64_t quiet_ns;      /* how long to leave the worker alone after the last tick; out: how long that was */
  uint64_t quiet_cpu_ns;  /* out: the worker's CPU time meanwhile */
  uint64_t parks;         /* out: how often the worker went to sleep */
} sd_bench_ping;

/* Runs in threads of its own. SD_OK, SD_E_ARGUMENT for a core that cannot be used, or what the engine answers. */
int sd_bench_ping_run(sd_bench_ping *ping, const sd_bench_engine *engine);
/* cffi: end */
