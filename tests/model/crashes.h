/* A program of seeds says with which one it crashed, or had no end: a wrong engine may go round a list that it has damaged, and the
 * scheduler, which counts steps, sees none. */
#pragma once

#include <signal.h>
#include <stdint.h>
#include <stdio.h>
#include <sys/time.h>
#include <unistd.h>

/* Of a processor's time; a seed takes a few ms. */
enum { SEED_SECONDS = 30 };

static uint64_t seed_at_work;

static void begin_seed(uint64_t seed) {
  const struct itimerval limit = {.it_value.tv_sec = SEED_SECONDS};
  seed_at_work = seed;
  setitimer(ITIMER_PROF, &limit, NULL);
}

static void crashed(int number) {
  printf("seed %llu: it ended by signal %d\n", (unsigned long long)seed_at_work, number);
  fflush(stdout);
  _exit(1);
}

static void tell_crashes(void) {
  for (int i = 0; i < 5; i++) signal((int[]){SIGSEGV, SIGBUS, SIGABRT, SIGFPE, SIGPROF}[i], crashed);
}
