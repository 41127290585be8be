#include "sd_clock.h"

#include <pthread.h>
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

static void measure(void) {
  if (!counter_is_constant()) return;
#if defined(__aarch64__)
  uint64_t hertz;
  __asm__ __volatile__("mrs %0, cntfrq_el0" : "=r"(hertz));
  sd_the_clock = (sd_clock){1, 1e9 / (double)hertz};
#else
  sd_the_clock.use_counter = 1;
  uint64_t start_ns = sd_monotonic_ns(), start = sd_now(), end_ns, end;
  do {
    end_ns = sd_monotonic_ns();
    end = sd_now();
  } while (end_ns - start_ns < 10000000u);
  sd_the_clock.ns_per_count = (double)(end_ns - start_ns) / (double)(end - start);
#endif
}

void sd_clock_init(void) {
  static pthread_once_t once = PTHREAD_ONCE_INIT;
  pthread_once(&once, measure);
}
