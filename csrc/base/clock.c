#include "base/clock.h"

#include <pthread.h>
#include <stdlib.h>

#if defined(__x86_64__)
#include <cpuid.h>
#endif

sd_clock sd_the_clock = {0, 1.0};

static int counter_is_constant(void) {
#if defined(__x86_64__)
  unsigned a, b, c, d;
  /* "Invariant TSC": the same rate in every power state, on every core. */
  return __get_cpuid(0x80000007u, &a, &b, &c, &d) && (d & (1u << 8));
#else
  return 1;
#endif
}

#if !defined(__aarch64__)
enum { TRIES = 8, MEASURED_NS = 2000000 };

/* A reading of both clocks at one moment. */
typedef struct reading {
  uint64_t ns, count;
} reading;

/* Returns the closest of a few readings: an interrupt between reading the two clocks would make them disagree. */
static reading read_both(void) {
  reading best = {0, 0};
  uint64_t shortest = UINT64_MAX;
  for (int i = 0; i < TRIES; i++) {
    const uint64_t before = sd_now(), ns = sd_monotonic_ns(), took = sd_now() - before;
    if (took >= shortest) continue;
    shortest = took;
    best = (reading){ns, before + took / 2};
  }
  return best;
}
#endif

static void measure(void) {
  if (!counter_is_constant()) return;
#if defined(__aarch64__)
  uint64_t hertz;
  __asm__ __volatile__("mrs %0, cntfrq_el0" : "=r"(hertz));
  sd_the_clock = (sd_clock){1, 1e9 / (double)hertz};
#else
  sd_the_clock.use_counter = 1;
  /* This errs by some ten ns in two milliseconds, which is less than the noise of what is timed here. */
  const reading start = read_both();
  reading end;
  do end = read_both();
  while (end.ns - start.ns < MEASURED_NS);
  sd_the_clock.ns_per_count = (double)(end.ns - start.ns) / (double)(end.count - start.count);
#endif
}

void sd_clock_init(void) {
  static pthread_once_t once = PTHREAD_ONCE_INIT;
  pthread_once(&once, measure);
}

static int by_size(const void *a, const void *b) {
  const uint64_t x = *(const uint64_t *)a, y = *(const uint64_t *)b;
  return (x > y) - (x < y);
}

double sd_clock_resolution_ns(void) {
  enum { READINGS = 1001 };
  uint64_t took[READINGS];
  sd_clock_init();
  uint64_t before = sd_now();
  for (int i = 0; i < READINGS; i++) {
    const uint64_t now = sd_now();
    took[i] = now > before ? now - before : 0;
    before = now;
  }
  qsort(took, READINGS, sizeof *took, by_size);
  uint64_t resolved = took[READINGS / 2];
  while (!resolved) {
    const uint64_t now = sd_now();
    resolved = now > before ? now - before : 0;
    before = now;
  }
  return (double)resolved * sd_the_clock.ns_per_count;
}
