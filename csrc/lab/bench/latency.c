#define _GNU_SOURCE /* CPU sets */
#include "lab/bench/latency.h"

#include "base/clock.h"
#include "engine/api.h"
#include "lab/bench/thread.h"
#include "sd_error.h"

#include <stdlib.h>
#include <string.h>

enum { SLEEP_FROM_NS = 100000, SLICE_NS = 20000000, WARM = 64, SETTLE_NS = 20000000 };

typedef struct game {
  sd_dispatcher *d;
  const sd_bench_engine *engine;
  sd_bench_ping *ping;
  uint32_t participant;
  int worker_code, publisher_code;
  int64_t warm;          /* ticks sent before the measured ones */
  uint64_t cpu_start_ns; /* worker: its CPU time when the first measured tick arrived */
  uint64_t cpu_end_ns;
  SD_ALIGNED(128) sd_a64 arrived; /* ticks handled */
  SD_ALIGNED(128) sd_a32 up;      /* the worker is pinned, or has failed */
} game;

static int64_t arrive(void *rows, const sd_tick *ticks, int64_t n, sd_context *ctx) {
  game *const *address = ctx->params;
  game *g = *address;
  (void)rows;
  for (int64_t i = 0; i < n; i++) {
    uint64_t now = sd_now(), sent = ticks[i].ts_recv;
    int64_t at = sd_sequence(&ticks[i]) - g->warm;
    if (at == 0) g->cpu_start_ns = sd_bench_thread_cpu_ns();
    if (at >= 0) g->ping->latency_ns[at] = now > sent ? sd_clock_ns(now - sent) : 0;
    if (at == g->ping->n - 1) g->cpu_end_ns = sd_bench_thread_cpu_ns();
    /* BL1: release; pairs with BL2: what is above is written. */
    sd_store(&g->arrived, (uint64_t)sd_sequence(&ticks[i]) + 1, release, BL1);
  }
  return n;
}

static void *work(void *argument) {
  game *g = argument;
  sd_py_worker hand = {.d = g->d};
  g->worker_code = sd_bench_pin(g->ping->worker_core) ? SD_E_ARGUMENT : SD_OK;
  /* BL3: release; pairs with BL4: the worker's code is written. */
  sd_store(&g->up, 1u, release, BL3);
  if (!g->worker_code) SD_OF_ENGINE(g->engine, py_worker_next)(&hand);
  return NULL;
}

static void rest(uint64_t ns) {
  if (ns >= SLEEP_FROM_NS) {
    nanosleep(&(struct timespec){(time_t)(ns / 1000000000u), (long)(ns % 1000000000u)}, NULL);
    return;
  }
  uint64_t start = sd_now(), counts = sd_clock_counts(ns);
  while (sd_now() - start < counts) sd_pause();
}

static int send_all(game *g) {
  sd_tick tick;
  uint64_t start_ns = 0;
  memset(&tick, 0, sizeof tick);
  for (int64_t i = 0; i < g->warm + g->ping->n; i++) {
    rest(g->ping->gap_ns);
    if (i == g->warm) start_ns = sd_monotonic_ns();
    sd_set_sequence(&tick, (uint64_t)i);
    tick.ts_recv = sd_now();
    int code = SD_OF_ENGINE(g->engine, publish)(g->d, g->participant, &tick, 1, SLICE_NS);
    if (code) return code;
    /* BL2: acquire; pairs with BL1. */
    while (sd_load(&g->arrived, acquire, BL2) != (uint64_t)i + 1) sd_pause();
  }
  g->ping->wall_ns = sd_monotonic_ns() - start_ns;
  return SD_OK;
}

static void *publish(void *argument) {
  game *g = argument;
  g->publisher_code = sd_bench_pin(g->ping->publisher_core) ? SD_E_ARGUMENT : send_all(g);
  return NULL;
}

static uint64_t cpu_ns_of(pthread_t thread) {
  clockid_t clock;
  struct timespec t = {0, 0};
  if (!pthread_getcpuclockid(thread, &clock)) clock_gettime(clock, &t);
  return (uint64_t)t.tv_sec * 1000000000u + (uint64_t)t.tv_nsec;
}

/* Measures what a worker uses while nothing at all comes. */
static void look_at_rest(game *g, pthread_t worker) {
  rest(SETTLE_NS);
  uint64_t start = sd_monotonic_ns(), cpu = cpu_ns_of(worker);
  rest(g->ping->quiet_ns);
  g->ping->quiet_cpu_ns = cpu_ns_of(worker) - cpu;
  g->ping->quiet_ns = sd_monotonic_ns() - start;
}

static int play(game *g) {
  pthread_t worker, publisher;
  if (pthread_create(&worker, NULL, work, g)) return SD_E_NO_MEMORY;
  /* BL4: acquire; pairs with BL3. */
  while (!sd_load(&g->up, acquire, BL4)) sd_yield();
  int code = g->worker_code;
  if (!code) {
    if (pthread_create(&publisher, NULL, publish, g)) code = SD_E_NO_MEMORY;
    else pthread_join(publisher, NULL);
  }
  if (!code && !g->publisher_code) look_at_rest(g, worker);
  SD_OF_ENGINE(g->engine, dispatcher_stop)(g->d);
  pthread_join(worker, NULL);
  return code ? code : g->publisher_code;
}

/* One symbol, one strand, one worker. The publisher never handles a tick itself. */
static sd_config config_of(const sd_bench_ping *ping) {
  sd_config c;
  memset(&c, 0, sizeof c);
  c.sizes.n_symbols = c.sizes.n_strands = c.sizes.n_workers = c.sizes.n_publishers = 1;
  c.sizes.record_size = sizeof(sd_tick);
  c.sizes.key_offset = offsetof(sd_tick, instrument_id);
  c.sizes.sequence_offset = offsetof(sd_tick, sequence_low);
  c.sizes.sequence_high = offsetof(sd_tick, sequence_high);
  c.sizes.row_bytes = 64;
  c.sizes.n_segments = 1024;
  c.idle = ping->idle;
  c.on_error = SD_ON_ERROR_STOP;
  c.on_full = SD_BLOCK;
  c.capacity = 1024;
  c.budget_records = c.batch_records = c.ahead_records = 64;
  c.budget_ns = 1000000;
  return c;
}

int sd_bench_ping_run(sd_bench_ping *ping, const sd_bench_engine *engine) {
  if (ping->n <= 0 || !ping->latency_ns) return SD_E_ARGUMENT;
  const sd_config config = config_of(ping);
  uint32_t strand = 0;
  uint16_t first = 0;
  game *g = aligned_alloc(128, (sizeof *g + 127) / 128 * 128);
  if (!g) return SD_E_NO_MEMORY;
  memset(g, 0, sizeof *g);
  sd_clock_init();
  g->engine = engine;
  g->ping = ping;
  g->warm = WARM;
  sd_space *space = NULL;
  int code = SD_OF_ENGINE(engine, space_create)(0, 0, &space);
  if (!code) code = SD_OF_ENGINE(engine, dispatcher_create)(space, &config, &g->d);
  if (!code) {
    sd_handler handler = {.fn = arrive, .params = &g};
    code = SD_OF_ENGINE(engine, dispatcher_route)(g->d, &strand, &first);
    if (!code) code = SD_OF_ENGINE(engine, dispatcher_handlers)(g->d, &handler, 1);
    g->participant = (uint32_t)SD_OF_ENGINE(engine, publisher_enter)(g->d);
    if (!code) code = play(g);
    if (!code) {
      uint64_t counters[SD_COUNTER_FIELDS];
      SD_OF_ENGINE(engine, participant_counters)(g->d, 0, counters);
      ping->parks = counters[SD_COUNTER_PARKS];
      ping->worker_cpu_ns = g->cpu_end_ns - g->cpu_start_ns;
    }
    SD_OF_ENGINE(engine, dispatcher_destroy)(g->d);
  }
  SD_OF_ENGINE(engine, space_destroy)(space);
  free(g);
  return code;
}
