#include "worker/permit.h"

#include "base/clock.h"

static int is_bounded(const sd_dispatcher *d) { return d->config.python_workers != 0; }

static uint32_t bound_of(sd_dispatcher *d) {
  const uint32_t bound = d->config.python_workers, active = sd_active_workers(d);
  return bound != SD_ALL_BUT_ONE ? bound : active > 1 ? active - 1 : 1;
}

static sd_list *deferred_list(sd_dispatcher *d) { return &d->ready.lists[d->n_workers]; }

int sd_permit_take(sd_dispatcher *d, uint32_t participant) {
  sd_participant *me = &d->participants[participant];
  if (!is_bounded(d) || me->permit) return 1;
  me->permit = (uint32_t)sd_permits_take(&d->arena->permits, bound_of(d));
  return (int)me->permit;
}

void sd_permit_give(sd_dispatcher *d, uint32_t participant, int pass) {
  sd_participant *me = &d->participants[participant];
  me->permit = 0;
  if (sd_permits_give(&d->arena->permits, deferred_list(d)) && pass && sd_idle_wake_one(&d->arena->idle))
    sd_bump(&me->counters.wakes, 1);
}

int sd_deferred_may_run(sd_dispatcher *d) {
  return is_bounded(d) && sd_permits_wanted(&d->arena->permits, deferred_list(d), bound_of(d));
}

void sd_defer(sd_dispatcher *d, uint32_t entry) {
  sd_make_ready(d, d->n_workers, &entry, 1, SD_DEFERRED, sd_now());
  sd_permits_pass_through(&d->arena->permits);
}
