/* Routing without strands, made as fast as it can be: the dispatcher is compared with it.
 *
 *   sd_bench_serial   one core: the handler over the whole tape, one batch per call
 *   sd_bench_static   every symbol belongs to one worker, known in advance; one single-producer single-consumer ring per worker. Symbols
 *                     may belong to the publisher too, which handles their ticks between two looks at the others
 *
 * Both call the engine's own handlers (sd_handler_fn). The caller's thread publishes; the caller pins it, and checks keys. */
#pragma once

#include "lab/bench/engine.h"
#include "lab/bench/probe.h"

/* cffi: begin */
enum {
  SD_BENCH_RING = 1 << 14, /* ticks per ring */
  SD_BENCH_PUBLISH = 256,  /* ticks copied in before the rings' ends are published */
  SD_BENCH_TAKE = 512,     /* the most ticks that a worker takes before it frees their slots */
  SD_BENCH_SERIAL = 4096,  /* ticks per call of the plain loop */
  SD_BENCH_MAX_WORKERS = 255
};

typedef struct sd_bench_run {
  sd_handler_fn fn;
  const void *params;
  void *rows; /* zeroed by the caller */
  uint64_t row_stride;
  uint64_t n_rows;
  const sd_tick *ticks;
  int64_t n;
  sd_bench_probe *
      probe; /* NULL: publish as fast as possible. Otherwise fn is sd_bench_handle_probed, and ticks are sent when due */
  /* static only */
  const uint8_t *home;  /* per symbol: its worker; `workers`: the publisher */
  const int32_t *cores; /* per worker: its core; negative: not pinned */
  uint32_t workers;
  /* out */
  double seconds;    /* from the first tick published to the last one handled, without starting and ending threads */
  double publish_ns; /* static: per tick, without handling, and waiting for a free slot and for ticks to be due */
} sd_bench_run;

/* SD_OK; SD_E_HANDLER when a handler did not take all ticks; SD_E_ARGUMENT, SD_E_NO_MEMORY. */
int sd_bench_serial(sd_bench_run *run);
int sd_bench_static(sd_bench_run *run);

/* Publishes ticks to a dispatcher when they are due: all that are due at a time, but at most `batch`. */
int sd_bench_publish_paced(const sd_bench_engine *engine, struct sd_dispatcher *d, uint32_t participant,
                           const sd_tick *ticks, int64_t n, int64_t batch, sd_bench_probe *probe);

/* A neighbour: a thread that only keeps a core busy. It ends when it is told to, and by itself after `max_ns`. */
typedef struct sd_bench_neighbour sd_bench_neighbour;
sd_bench_neighbour *sd_bench_neighbour_start(int32_t core, uint64_t max_ns);
void sd_bench_neighbour_stop(sd_bench_neighbour *neighbour);
/* cffi: end */
