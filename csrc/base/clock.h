/* A clock for intervals: the processor's counter if it runs at a constant rate, otherwise CLOCK_MONOTONIC in ns. Only differences of
 * readings mean anything; sd_clock_ns() converts them to ns. */
#pragma once

#include <stdint.h>
#include <time.h>

typedef struct sd_clock {
  int use_counter;
  double ns_per_count;
} sd_clock;

extern sd_clock sd_the_clock;

/* Measures the counter's rate once per process, which takes 2 ms. Further calls do nothing. */
void sd_clock_init(void);

/* cffi: begin */
/* What the clock resolves, in ns: the median difference of two readings in a row, or one step of a clock that goes on in longer ones.
 * A shorter span is not known. */
double sd_clock_resolution_ns(void);
/* cffi: end */

static inline uint64_t sd_monotonic_ns(void) {
  struct timespec t;
  clock_gettime(CLOCK_MONOTONIC, &t);
  return (uint64_t)t.tv_sec * 1000000000u + (uint64_t)t.tv_nsec;
}

#if defined(SD_MODEL_SCHEDULER)
uint64_t sd_schedule_now(void);
uint64_t sd_schedule_on_cpu(void);
#endif

/* The on-CPU time of the calling thread, in ns. A read takes 0.2 to 0.6 us, because it is a system call. */
static inline uint64_t sd_thread_cpu_ns(void) {
#if defined(SD_MODEL_SCHEDULER)
  return sd_schedule_on_cpu();
#else
  struct timespec t;
  clock_gettime(CLOCK_THREAD_CPUTIME_ID, &t);
  return (uint64_t)t.tv_sec * 1000000000u + (uint64_t)t.tv_nsec;
#endif
}

static inline uint64_t sd_now(void) {
#if defined(SD_MODEL_SCHEDULER)
  return sd_schedule_now();
#elif defined(__x86_64__)
  if (sd_the_clock.use_counter) return __builtin_ia32_rdtsc();
#elif defined(__aarch64__)
  if (sd_the_clock.use_counter) {
    uint64_t count;
    __asm__ __volatile__("mrs %0, cntvct_el0" : "=r"(count));
    return count;
  }
#endif
  return sd_monotonic_ns();
}

static inline uint64_t sd_clock_ns(uint64_t counts) { return (uint64_t)((double)counts * sd_the_clock.ns_per_count); }
static inline uint64_t sd_clock_counts(uint64_t ns) { return (uint64_t)((double)ns / sd_the_clock.ns_per_count); }

/* A span in clock counts; of a very long one as many as can be added to a time and doubled, or multiplied by a rate. */
static inline uint64_t sd_clock_span(uint64_t ns) {
  const uint64_t longest = UINT64_C(1) << 61;
  return (double)ns / sd_the_clock.ns_per_count < (double)longest ? sd_clock_counts(ns) : longest;
}
