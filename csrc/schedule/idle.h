/* Sleeping without losing a wake-up, and waking one worker at a time.
 *
 * `state` counts sleepers and has one bit, "a wake-up is under way". A worker that finds nothing registers (I1), looks at every list once
 * more with the list's lock held (I2), and only then waits on `epoch`. A thread that pushes to a list loads `state` afterwards (I3). A
 * relaxed load is enough, because the lock orders the push and the sleeper's look. If the push comes first, the look sees it. If the look
 * comes first, the pusher's lock acquires what the sleeper did before, so the load sees it registered. So a push costs no
 * read-modify-write of a line that all share.
 *
 * Wake-ups follow one another. A push that finds the bit set wakes nobody, because a worker is on its way: it clears the bit (I4), then
 * looks at the lists, and cannot sleep again without a look under their locks. (A worker that leaves without having slept clears the bit
 * too, so for a moment two may be on their way. There is never one too few.) This loses no work, but does not spread it. So a worker that
 * takes work after waking wakes the next one when more is listed. It has to look under the locks to know (sd_list_length_locked), because
 * otherwise it may not see the pusher that counted on it.
 *
 * A policy may hold back what is listed until some time. One worker then sleeps until that time with the bit set (sd_idle_sleep_for): it
 * is the worker on its way, and it comes late. So pushes wake nobody to whom the policy would give nothing, and the other workers sleep
 * without a time-out. When the time has come that worker clears the bit and looks, as after any wake-up. */
#pragma once

#include "base/atomic.h"

/* cffi: begin */
/* Sleeping is parking without looks before it, as for workers without ticks: to look longer delays the thread that waits for the task that
 * has just ended, if it has the same core. */
enum { SD_IDLE_SPIN = 0, SD_IDLE_BACKOFF = 1, SD_IDLE_PARK = 2, SD_IDLE_SLEEP = 3 };
/* cffi: end */

#define SD_WAKING 0x80000000u

typedef struct sd_idle {
  sd_a32 state; /* sleepers | SD_WAKING */
  sd_a32 epoch; /* the futex: changes with each wake-up */
  uint32_t unused[SD_LINE / 4 - 2];
} sd_idle;

#if defined(SD_MODEL_RELACY) || defined(SD_MODEL_SCHEDULER)
void sd_futex_wait(sd_a32 *word, uint32_t seen);
/* The same, for at most that long. */
void sd_futex_wait_for(sd_a32 *word, uint32_t seen, uint64_t ns);
void sd_futex_wake(sd_a32 *word, uint32_t n);
#else
#include <linux/futex.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>
static inline void sd_futex_wait(sd_a32 *word, uint32_t seen) {
  syscall(SYS_futex, word, FUTEX_WAIT_PRIVATE, seen, NULL, NULL, 0);
}
static inline void sd_futex_wait_for(sd_a32 *word, uint32_t seen, uint64_t ns) {
  const struct timespec most = {(time_t)(ns / 1000000000u), (long)(ns % 1000000000u)};
  syscall(SYS_futex, word, FUTEX_WAIT_PRIVATE, seen, &most, NULL, 0);
}
static inline void sd_futex_wake(sd_a32 *word, uint32_t n) {
  syscall(SYS_futex, word, FUTEX_WAKE_PRIVATE, n, NULL, NULL, 0);
}
#endif

/* Registers a sleeper; returns the epoch to wait on. The caller then looks at all lists under their locks, and at what else could end the
 * wait. It sleeps when there is nothing, and calls sd_idle_leave in either case. */
static inline uint32_t sd_idle_enter(sd_idle *idle) {
  /* I5: acquire; pairs with I7: a thread that reads the epoch of a stop also sees the reason, and does not sleep on that epoch. Sequenced
   * before I1, so a waker that counted this sleeper changes the epoch after this read. */
  uint32_t epoch = sd_load(&idle->epoch, acquire, I5);
  /* I1: acq_rel. Release pairs with I8 of a waker: its change of the epoch comes after the read above. */
  sd_fetch_add(&idle->state, 1u, acq_rel, I1);
  return epoch;
}

/* Returns when the futex returns, whatever the reason. A futex may wake any sleeper; if it picks one that came after the epoch changed,
 * that sleeper has to take the wake-up over. If it waited again, the sleeper for which the wake-up was meant would sleep on with the bit
 * set, and nobody would be woken any more. */
static inline void sd_idle_sleep(sd_idle *idle, uint32_t epoch) {
  /* I6: acquire; pairs with I7: the sleeper sees at once what the waker pushed, before it takes the list's lock. */
  if (sd_load(&idle->epoch, acquire, I6) == epoch) sd_futex_wait(&idle->epoch, epoch);
}

/* As sd_idle_sleep, for a sleeper that found only what is held back for so long. If another worker is on its way already, that one looks,
 * and this one sleeps without a time-out. */
static inline void sd_idle_sleep_for(sd_idle *idle, uint32_t epoch, uint64_t ns) {
  /* I9: acq_rel, so that nothing relies on release sequences. A pusher that sees the bit wakes nobody; this thread looks under the lists'
   * locks when its time has come. */
  if (sd_fetch_or(&idle->state, SD_WAKING, acq_rel, I9) & SD_WAKING) {
    sd_idle_sleep(idle, epoch);
    return;
  }
  /* I6 */
  if (sd_load(&idle->epoch, acquire, I6) == epoch) sd_futex_wait_for(&idle->epoch, epoch, ns);
}

static inline void sd_idle_leave(sd_idle *idle) {
  /* I4: acq_rel; the count first, then the bit. The other way round, a waker could count on this worker once more between the two, and
   * set a bit that nobody clears. */
  sd_fetch_sub(&idle->state, 1u, acq_rel, I4);
  sd_fetch_and(&idle->state, ~SD_WAKING, acq_rel, I4);
}

/* After pushing to a list, or when a worker leaves work behind: wakes one sleeper unless a wake-up is under way.
 * Nonzero: it did. */
static inline int sd_idle_wake_one(sd_idle *idle) {
  /* I3: relaxed; ordered by the list's lock, see above. */
  uint32_t seen = sd_load(&idle->state, relaxed, I3);
  while (seen && !(seen & SD_WAKING)) {
    /* I8: acq_rel; pairs with I1. */
    if (sd_cas(&idle->state, &seen, seen | SD_WAKING, acq_rel, I8)) {
      /* I7: acq_rel; release pairs with I5 and I6, acquire with the I7 before it. So each change passes on what the earlier ones said (a
       * stop), and nothing relies on release sequences. */
      sd_fetch_add(&idle->epoch, 1u, acq_rel, I7);
      sd_futex_wake(&idle->epoch, 1);
      return 1;
    }
  }
  return 0;
}

/* To stop: wakes every sleeper, even when a wake-up is under way. */
static inline void sd_idle_wake_all(sd_idle *idle) {
  sd_fetch_add(&idle->epoch, 1u, acq_rel, I7);
  sd_futex_wake(&idle->epoch, INT32_MAX);
}
