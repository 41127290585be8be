#include "worker/waiting.h"

#include "base/clock.h"
#include "numbering/failure.h"
#include "worker/permit.h"

#if defined(SD_MODEL_SCHEDULER)
enum { BACKOFF_TURNS = 3, YIELD_TURNS = 1, PARK_TURNS = 1, EAGER_TURNS = 1, PAUSES = 1, MORE_PAUSES = 2 };
#else
enum {
  BACKOFF_TURNS = 4064,
  YIELD_TURNS = 16, /* looks before the worker yields its core to the merger; to others after EAGER_TURNS */
  PARK_TURNS = 64,
  /* Looks before the worker pauses longer between them, which a neighbour on the same core can use. */
  EAGER_TURNS = 256,
  PAUSES = 8,
  MORE_PAUSES = 32
};
#endif

int sd_anything_ready(sd_dispatcher *d) {
  for (uint32_t i = 0; i < d->n_workers; i++)
    if (sd_list_length_locked(&d->ready.lists[i])) return 1;
  return sd_deferred_may_run(d);
}

/* Sleeps unless there is something to do. `until`: if the policy holds back all that there is, until when; 0: it does not. Nonzero: a
 * wake-up may have counted on this worker. */
static int park(sd_dispatcher *d, uint32_t participant, uint64_t until) {
  sd_idle *idle = &d->arena->idle;
  uint32_t epoch = sd_idle_enter(idle);
  if (!sd_dispatcher_stopping(d) && !sd_anything_ready(d) && !sd_join_blocks(d, participant, 1)) {
    sd_bump(&d->participants[participant].counters.parks, 1);
    sd_idle_sleep(idle, epoch);
  } else if (until && !sd_dispatcher_stopping(d)) {
    const uint64_t now = sd_now();
    if (now < until) {
      sd_bump(&d->participants[participant].counters.parks, 1);
      sd_idle_sleep_for(idle, epoch, sd_clock_ns(until - now) + 1);
    }
  }
  sd_idle_leave(idle);
  return 1;
}

int sd_be_idle(sd_dispatcher *d, uint32_t participant, uint32_t turn) {
  const uint64_t due = d->policy->due ? d->policy->due(&d->ready, sd_now()) : 0;
  if (due && due != UINT64_MAX) return park(d, participant, due);
  const int how = due ? SD_IDLE_PARK : d->config.idle;
  if (how == SD_IDLE_SLEEP || (how == SD_IDLE_PARK && turn >= PARK_TURNS) ||
      (how == SD_IDLE_BACKOFF && turn >= BACKOFF_TURNS))
    return park(d, participant, 0);
  /* A thread that reads or inflates a file, or the merger, may find no free core, or only the publisher's core, and would then keep the
   * publisher waiting. */
  if (how == SD_IDLE_BACKOFF && turn >= (d->outputs ? YIELD_TURNS : EAGER_TURNS)) {
    sd_yield();
    return 0;
  }
  const int pauses = turn < EAGER_TURNS ? PAUSES : MORE_PAUSES;
  for (int i = 0; i < pauses; i++) sd_pause();
  return 0;
}

void sd_rest(sd_dispatcher *d, uint32_t participant) {
  sd_idle *resting = &d->arena->resting;
  if (sd_anything_ready(d) && sd_idle_wake_one(&d->arena->idle))
    sd_bump(&d->participants[participant].counters.wakes, 1);
  const uint32_t epoch = sd_idle_enter(resting);
  if (!sd_dispatcher_stopping(d) && participant >= sd_active_workers(d)) {
    sd_bump(&d->participants[participant].counters.parks, 1);
    sd_idle_sleep(resting, epoch);
  }
  sd_idle_leave(resting);
}
