#include "worker/permit.h"

#include "base/clock.h"

static int is_bounded(const sd_dispatcher *d) { return d->config.python_workers != 0; }

/* Under the lock. */
static void add_held(sd_permits *permits, uint32_t n) {
  /* J8 */
  sd_store(&permits->held, sd_load(&permits->held, relaxed, J8) + n, relaxed, J8);
}

/* Under the lock, or as a hint. */
static int is_free(sd_dispatcher *d) {
  const uint32_t bound = d->config.python_workers, active = sd_active_workers(d);
  /* J8: relaxed; it changes under the lock. */
  return sd_load(&d->arena->permits.held, relaxed, J8) < (bound != SD_ALL_BUT_ONE ? bound
                                                          : active > 1            ? active - 1
                                                                                  : 1);
}

int sd_permit_take(sd_dispatcher *d, uint32_t participant) {
  sd_permits *permits = &d->arena->permits;
  sd_participant *me = &d->participants[participant];
  if (!is_bounded(d) || me->permit) return 1;
  /* Workers that drain records ask again and again while something is deferred, and must not meet at the lock. */
  if (!is_free(d)) return 0;
  sd_lock(&permits->lock);
  if (is_free(d)) {
    add_held(permits, 1);
    me->permit = 1;
  }
  sd_unlock(&permits->lock);
  return (int)me->permit;
}

void sd_permit_give(sd_dispatcher *d, uint32_t participant, int pass) {
  sd_permits *permits = &d->arena->permits;
  sd_participant *me = &d->participants[participant];
  sd_list *deferred = &d->ready.lists[d->n_workers];
  sd_lock(&permits->lock);
  add_held(permits, 0u - 1);
  /* J9: relaxed; L1 of this lock shows what was deferred by workers that passed through it, and others pass after this. `head` first: what
   * is listed and taken in between does not make the list look empty. */
  const uint32_t head = sd_load(&deferred->head, relaxed, J9), tail = sd_load(&deferred->tail, relaxed, J9);
  sd_unlock(&permits->lock);
  me->permit = 0;
  if (pass && tail != head && sd_idle_wake_one(&d->arena->idle)) sd_bump(&me->counters.wakes, 1);
}

int sd_deferred_may_run(sd_dispatcher *d) {
  /* I2: the list's lock orders this look and whoever lets strands go that are held back. */
  if (!is_bounded(d) || !sd_list_length_locked(&d->ready.lists[d->n_workers])) return 0;
  sd_lock(&d->arena->permits.lock);
  const int yes = is_free(d);
  sd_unlock(&d->arena->permits.lock);
  return yes;
}

void sd_defer(sd_dispatcher *d, uint32_t entry) {
  sd_make_ready(d, d->n_workers, &entry, 1, SD_DEFERRED, sd_now());
  /* L1, L3: whoever gives a permit back after this sees what is deferred. If it was before this, the worker's next look sees the permit. */
  sd_lock(&d->arena->permits.lock);
  sd_unlock(&d->arena->permits.lock);
}
