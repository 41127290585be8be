/* Permits: how many workers may run Python's tasks at a time, where that is bounded, so that records keep a worker. A task or call of
 * Python's needs one from its start, or from where it goes on, until it ends or gives its participant back. Tick handlers of Python and
 * their timers need none.
 *
 * A worker that has taken such a task and finds no permit defers it: it lists the task, or the strand whose first it is, on the deferred
 * list, and goes on. Nobody looks at that list without a permit. So what stands behind Python's tasks is reached, and workers sleep when
 * only such tasks are left.
 *
 * No deferred task is forgotten: schedule/permits.h argues that. A worker that gives its permit back and does not take what is deferred,
 * as it has something else or leaves, wakes another one (sd_permit_pass). */
#pragma once

#include "state/state.h"

/* Whether something is deferred, as far as can be seen. */
static inline int sd_any_deferred(sd_dispatcher *d) { return sd_list_length(&d->ready.lists[d->n_workers]) != 0; }
static inline int sd_has_permit(const sd_dispatcher *d, uint32_t participant) {
  return d->participants[participant].permit != 0;
}

/* By a worker. Nonzero: it holds a permit, or permits are not bounded. */
int sd_permit_take(sd_dispatcher *d, uint32_t participant);
/* Whether a permit is free, and something deferred. For a worker that is about to sleep. */
int sd_deferred_may_run(sd_dispatcher *d);
/* Lists what the worker took for a task of Python's, and whose token it has, until there is a permit. */
void sd_defer(sd_dispatcher *d, uint32_t entry);

void sd_permit_give(sd_dispatcher *d, uint32_t participant, int pass);
/* Gives the worker's permit back, if it holds one. The worker looks for its next strand right after this. */
static inline void sd_permit_drop(sd_dispatcher *d, uint32_t participant) {
  if (SD_UNLIKELY(sd_has_permit(d, participant))) sd_permit_give(d, participant, 0);
}
/* The same, for a worker that has something else to do, or leaves: it wakes another one for what is deferred. */
static inline void sd_permit_pass(sd_dispatcher *d, uint32_t participant) {
  if (SD_UNLIKELY(sd_has_permit(d, participant))) sd_permit_give(d, participant, 1);
}
