/* A program of seeds says with which one it crashed. */
#ifndef SD_MODEL_CRASHES_H
#define SD_MODEL_CRASHES_H

#include <signal.h>
#include <stdint.h>
#include <stdio.h>
#include <unistd.h>

static uint64_t seed_at_work;

static void crashed(int number) {
  printf("seed %llu: it ended by signal %d\n", (unsigned long long)seed_at_work, number);
  fflush(stdout);
  _exit(1);
}

static void tell_crashes(void) {
  for (int i = 0; i < 4; i++) signal((int[]){SIGSEGV, SIGBUS, SIGABRT, SIGFPE}[i], crashed);
}

#endif
