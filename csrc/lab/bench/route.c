#define _GNU_SOURCE /* CPU sets */
#include "lab/bench/route.h"

#include "base/clock.h"
#include "engine/api.h"
#include "lab/bench/thread.h"
#include "sd_error.h"

#include <stdlib.h>
#include <string.h>

enum { RING = SD_BENCH_RING, MASK = SD_BENCH_RING - 1, WRITE_AHEAD = 4 };

/* ---- one core */

static void context_of(const sd_bench_run *run, uint32_t participant, sd_context *ctx) {
  memset(ctx, 0, sizeof *ctx);
  ctx->params = run->params;
  ctx->row_stride = run->row_stride;
  ctx->n_rows = run->n_rows;
  ctx->record_size = sizeof(sd_tick);
  ctx->participant = participant;
}

int sd_bench_serial(sd_bench_run *run) {
  sd_context ctx = {0};
  sd_bench_pace pace;
  sd_clock_init();
  context_of(run, 0, &ctx);
  uint64_t start = sd_monotonic_ns();
  if (run->probe && run->n) pace = sd_bench_probe_start(run->probe, run->ticks);
  for (int64_t at = 0; at < run->n;) {
    int64_t left = run->n - at, n = left < SD_BENCH_SERIAL ? left : SD_BENCH_SERIAL;
    if (run->probe) n = sd_bench_await_due(&pace, run->ticks + at, n);
    if (run->fn(run->rows, run->ticks + at, n, &ctx) != n) return SD_E_HANDLER;
    at += n;
  }
  run->seconds = (double)(sd_monotonic_ns() - start) * 1e-9;
  run->publish_ns = 0;
  return SD_OK;
}

/* ---- one ring per worker */

typedef struct ring {
  SD_ALIGNED(128) sd_a64 tail;    /* publisher: ticks put in */
  SD_ALIGNED(128) sd_a64 head;    /* worker: ticks handled */
  SD_ALIGNED(128) sd_tick *slots; /* RING of them */
} ring;

typedef struct crew crew;

typedef struct worker {
  crew *crew;
  ring *ring;
  uint32_t participant;
  int32_t core;
  int failed;
  pthread_t thread;
} worker;

struct crew {
  const sd_bench_run *run;
  SD_ALIGNED(128) sd_a32 ready;
  SD_ALIGNED(128) sd_a32 closed;
  worker *workers;
  ring *rings;
};

static void *serve(void *argument) {
  worker *me = argument;
  const sd_bench_run *run = me->crew->run;
  ring *r = me->ring;
  sd_tick *slots = r->slots;
  sd_context ctx = {0};
  uint64_t head = 0;
  context_of(run, me->participant, &ctx);
  me->failed = sd_bench_pin(me->core) ? SD_E_ARGUMENT : SD_OK;
  /* BR1: release; pairs with BR2: all threads of a complete crew are pinned. */
  sd_fetch_add(&me->crew->ready, 1u, release, BR1);
  for (;;) {
    /* BR3: acquire; pairs with BR4: the ticks below the tail are there. */
    uint64_t tail = sd_load(&r->tail, acquire, BR3);
    if (tail == head) {
      /* BR7: acquire; pairs with BR8: a tail that is read after it is the last one. */
      if (sd_load(&me->crew->closed, acquire, BR7) && sd_load(&r->tail, acquire, BR3) == head) return NULL;
      sd_pause();
      continue;
    }
    if (tail - head > SD_BENCH_TAKE) tail = head + SD_BENCH_TAKE;
    while (head != tail) {
      uint64_t at = head & MASK, n = tail - head < RING - at ? tail - head : RING - at;
      if (SD_UNLIKELY(run->fn(run->rows, slots + at, (int64_t)n, &ctx) != (int64_t)n)) me->failed = SD_E_HANDLER;
      head += n;
    }
    /* BR5: release; pairs with BR6: the slots are free, and the rows of their ticks are written. */
    sd_store(&r->head, head, release, BR5);
  }
}

/* The publisher's end of a ring: its copies of the shared words, which it touches once per SD_BENCH_PUBLISH ticks, or when the ring looks
 * full. */
typedef struct ring_end {
  sd_tick *slots;
  uint64_t tail, head, published;
} ring_end;

typedef struct publisher {
  crew *crew;
  uint32_t workers;
  uint64_t waited;
  ring_end ends[SD_BENCH_MAX_WORKERS];
  /* its own share */
  sd_tick own[SD_BENCH_PUBLISH];
  uint32_t n_own;
  int failed;
  sd_context ctx;
} publisher;

/* Handles the publisher's own share of what was put last. */
static void handle_own(publisher *p) {
  const sd_bench_run *run = p->crew->run;
  if (!p->n_own) return;
  const uint64_t start = sd_now();
  if (SD_UNLIKELY(run->fn(run->rows, p->own, p->n_own, &p->ctx) != p->n_own)) p->failed = SD_E_HANDLER;
  p->n_own = 0;
  p->waited += sd_now() - start;
}

static inline void publish_ring(publisher *p, uint32_t w) {
  ring_end *end = &p->ends[w];
  if (end->published == end->tail) return;
  end->published = end->tail;
  /* BR4: release; pairs with BR3. */
  sd_store(&p->crew->rings[w].tail, end->tail, release, BR4);
}

static void publish_rings(publisher *p) {
  for (uint32_t w = 0; w < p->workers; w++) publish_ring(p, w);
}

static void __attribute__((noinline)) wait_for_space(publisher *p, uint32_t w) {
  ring_end *end = &p->ends[w];
  uint64_t start = sd_now();
  publish_ring(p, w);
  for (;;) {
    /* BR6: acquire; pairs with BR5: what the publisher now overwrites has been handled. */
    end->head = sd_load(&p->crew->rings[w].head, acquire, BR6);
    if (end->tail - end->head < RING) break;
    sd_pause();
  }
  p->waited += sd_now() - start;
}

static void put(publisher *p, const sd_tick *ticks, int64_t n, const uint8_t *home) {
  for (int64_t i = 0; i < n; i++) {
    uint32_t w = home[ticks[i].instrument_id];
    if (w == p->workers) {
      p->own[p->n_own++] = ticks[i];
      continue;
    }
    ring_end *end = &p->ends[w];
    if (SD_UNLIKELY(end->tail - end->head >= RING)) wait_for_space(p, w);
    sd_tick *to = &end->slots[end->tail++ & MASK];
    sd_prefetch_write(&end->slots[(end->tail + WRITE_AHEAD) & MASK]);
    *to = ticks[i];
  }
}

static void publish_all(publisher *p, const sd_bench_run *run) {
  sd_bench_pace pace;
  if (run->probe && run->n) pace = sd_bench_probe_start(run->probe, run->ticks);
  for (int64_t at = 0; at < run->n;) {
    int64_t left = run->n - at, n = left < SD_BENCH_PUBLISH ? left : SD_BENCH_PUBLISH;
    if (run->probe) n = sd_bench_await_due(&pace, run->ticks + at, n);
    put(p, run->ticks + at, n, run->home);
    publish_rings(p);
    handle_own(p);
    at += n;
  }
}

static void await_handled(publisher *p) {
  for (uint32_t w = 0; w < p->workers; w++)
    while (sd_load(&p->crew->rings[w].head, acquire, BR6) != p->ends[w].tail) sd_pause();
}

/* This is zeroed, so that no page fault happens while the clock runs. */
static void *zeroed(size_t bytes) {
  bytes = (bytes + 127) / 128 * 128;
  void *memory = aligned_alloc(128, bytes);
  if (memory) memset(memory, 0, bytes);
  return memory;
}

static void dismiss(crew *c, uint32_t started) {
  /* BR8: release; pairs with BR7. */
  sd_store(&c->closed, 1u, release, BR8);
  for (uint32_t w = 0; w < started; w++) pthread_join(c->workers[w].thread, NULL);
}

static int muster(crew *c, uint32_t workers) {
  for (uint32_t w = 0; w < workers; w++) {
    worker *k = &c->workers[w];
    *k = (worker){.crew = c, .ring = &c->rings[w], .participant = w, .core = c->run->cores ? c->run->cores[w] : -1};
    if (pthread_create(&k->thread, NULL, serve, k)) {
      dismiss(c, w);
      return SD_E_NO_MEMORY;
    }
  }
  /* BR2: acquire; pairs with BR1. */
  while (sd_load(&c->ready, acquire, BR2) < workers) sd_yield();
  return SD_OK;
}

int sd_bench_static(sd_bench_run *run) {
  const uint32_t workers = run->workers;
  if (!workers || workers > SD_BENCH_MAX_WORKERS || !run->home) return SD_E_ARGUMENT;
  sd_clock_init();
  crew *c = zeroed(sizeof *c);
  ring *rings = zeroed(workers * sizeof *rings);
  worker *staff = zeroed(workers * sizeof *staff);
  sd_tick *slots = zeroed(workers * (size_t)RING * sizeof *slots);
  publisher *p = zeroed(sizeof *p);
  int code = c && rings && staff && slots && p ? SD_OK : SD_E_NO_MEMORY;
  if (!code) {
    c->run = run;
    c->rings = rings;
    c->workers = staff;
    p->crew = c;
    p->workers = workers;
    context_of(run, workers, &p->ctx);
    for (uint32_t w = 0; w < workers; w++) p->ends[w].slots = rings[w].slots = slots + (size_t)w * RING;
    code = muster(c, workers);
  }
  if (!code) {
    uint64_t start = sd_monotonic_ns(), counts = sd_now();
    publish_all(p, run);
    uint64_t publishing = sd_now() - counts - p->waited;
    await_handled(p);
    run->seconds = (double)(sd_monotonic_ns() - start) * 1e-9;
    run->publish_ns = run->probe || !run->n ? 0 : (double)sd_clock_ns(publishing) / (double)run->n;
    dismiss(c, workers);
    code = p->failed;
    for (uint32_t w = 0; w < workers; w++)
      if (staff[w].failed) code = staff[w].failed;
  }
  free(p);
  free(slots);
  free(staff);
  free(rings);
  free(c);
  return code;
}

/* ---- the dispatcher, paced */

int sd_bench_publish_paced(const sd_bench_engine *engine, sd_dispatcher *d, uint32_t participant, const sd_tick *ticks,
                           int64_t n, int64_t batch, sd_bench_probe *probe) {
  enum { SLICE_NS = 20000000 };
  if (n <= 0) return SD_OK;
  sd_bench_pace pace = sd_bench_probe_start(probe, ticks);
  for (int64_t at = 0; at < n;) {
    int64_t left = n - at, due = sd_bench_await_due(&pace, ticks + at, left < batch ? left : batch);
    int code = SD_OF_ENGINE(engine, publish)(d, participant, ticks + at, due, SLICE_NS);
    while (code == SD_AGAIN) code = SD_OF_ENGINE(engine, publish_more)(d, participant, SLICE_NS);
    if (code) return code;
    at += due;
  }
  return SD_OK;
}

/* ---- a busy neighbour */

struct sd_bench_neighbour {
  sd_a32 stop;
  int32_t core;
  uint64_t max_ns;
  pthread_t thread;
};

static void *be_busy(void *argument) {
  sd_bench_neighbour *me = argument;
  if (sd_bench_pin(me->core)) return NULL;
  uint64_t start = sd_now(), maximum = sd_clock_counts(me->max_ns);
  /* BN1: relaxed; only the moment of the end depends on it. */
  while (!sd_load(&me->stop, relaxed, BN1) && sd_now() - start < maximum) continue;
  return NULL;
}

sd_bench_neighbour *sd_bench_neighbour_start(int32_t core, uint64_t max_ns) {
  sd_clock_init();
  sd_bench_neighbour *me = calloc(1, sizeof *me);
  if (!me) return NULL;
  me->core = core;
  me->max_ns = max_ns;
  if (pthread_create(&me->thread, NULL, be_busy, me)) {
    free(me);
    return NULL;
  }
  return me;
}

void sd_bench_neighbour_stop(sd_bench_neighbour *me) {
  if (!me) return;
  sd_store(&me->stop, 1u, relaxed, BN1);
  pthread_join(me->thread, NULL);
  free(me);
}
