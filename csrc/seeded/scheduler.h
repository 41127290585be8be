/* A deterministic scheduler: it runs the core's real code on one thread, with fibers for threads, and draws every switch from a seed.
 *
 * Each atomic operation of a SD_MODEL_SCHEDULER build is a point at which another fiber may run. A futex wakes any sleeper, and the clock
 * counts steps, and goes on to the first time-out when all sleep, or all but a caller that pauses. It cannot show weak memory; Relacy does that (relacy_atomic.hpp). */
#pragma once

#include <stdint.h>

enum { SD_FIBERS = 17 };
enum { SD_RAN = 0, SD_DEADLOCK = 1, SD_NO_END = 2, SD_FAILED = 3 };

typedef void (*sd_fiber_fn)(void *argument, unsigned index);

/* Forgets the last run. Same seed, same run. */
void sd_scheduler_start(uint64_t seed);
void sd_scheduler_add(sd_fiber_fn fn, void *argument);
/* Runs all fibers to their ends: SD_RAN; SD_DEADLOCK when all that are left sleep; SD_NO_END after `maximum` steps; SD_FAILED when a
 * fiber called sd_scheduler_fail. */
int sd_scheduler_run(uint64_t maximum);
/* Used instead of sd_scheduler_run: makes the caller a fiber too, and the others run while it is at a point. This lasts until
 * sd_scheduler_leave, which it calls when all others have ended. */
void sd_scheduler_enter(void);
void sd_scheduler_leave(void);
/* From any fiber: until sd_scheduler_let_go with what this returned, nothing is a point, and no step counts. */
int sd_scheduler_hold(void);
void sd_scheduler_let_go(int was);
/* From a fiber: the others run until one of them calls sd_scheduler_wake for it, or until the time of sd_scheduler_wake_at comes. */
void sd_scheduler_wait(const char *label);
void sd_scheduler_wake(unsigned index);
void sd_scheduler_wake_at(unsigned index, uint64_t time);
/* From a fiber: the others run until that time, or until one of them calls sd_scheduler_wake for it. */
void sd_scheduler_sleep(uint64_t until);
/* From the caller of sd_scheduler_enter: it runs for that fiber from now on, and its on-CPU time is read. */
void sd_scheduler_act_for(unsigned index);
/* From the caller: the fiber for which it runs was on its core for so long, beside its steps. */
void sd_scheduler_act(uint64_t ns);
/* From a fiber: ends the run. After a run: only records what failed. */
void sd_scheduler_fail(const char *what);
const char *sd_scheduler_failure(void);
uint64_t sd_scheduler_steps(void);
/* How many fibers sleep on a futex. */
unsigned sd_scheduler_asleep(void);
/* Prints the fibers and where they stand. */
void sd_scheduler_print(void);

/* A number below n, drawn from the seed, for the scenario. */
uint32_t sd_scheduler_random(uint32_t n);

void sd_schedule_point(const char *label);
