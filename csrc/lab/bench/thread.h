/* Pinned threads for the benchmarks' own loops. Needs _GNU_SOURCE. */
#pragma once

#include <errno.h>
#include <pthread.h>
#include <sched.h>
#include <stdint.h>
#include <time.h>

/* Pins the calling thread; a negative core leaves it where it is. Nonzero: this process may not use that core. */
static inline int sd_bench_pin(int32_t core) {
  if (core < 0) return 0;
  if (core >= CPU_SETSIZE) return EINVAL;
  cpu_set_t set;
  CPU_ZERO(&set);
  CPU_SET(core, &set);
  return pthread_setaffinity_np(pthread_self(), sizeof set, &set);
}

static inline uint64_t sd_bench_thread_cpu_ns(void) {
  struct timespec t;
  clock_gettime(CLOCK_THREAD_CPUTIME_ID, &t);
  return (uint64_t)t.tv_sec * 1000000000u + (uint64_t)t.tv_nsec;
}
