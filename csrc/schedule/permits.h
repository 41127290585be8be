/* Permits, of which there are fewer than workers, and the list of what waits for one: how both are counted so that nothing waits beside a
 * free permit while all sleep. worker/permit.h says what permits are for.
 *
 * A worker that gets no permit for what it took puts that on the deferred list, passes through the lock of permits, and looks for its next
 * strand. A worker that gives a permit back looks at the list's length under the same lock. So of the two the second one sees what the
 * first one did. A worker that goes to sleep registers (schedule/idle.h), looks at the list under the list's lock, and then at the permits
 * under theirs: if a permit comes back after that, whoever gives it back finds the sleeper. */
#pragma once

#include "schedule/list.h"

typedef struct sd_permits {
  sd_a32 lock;
  sd_a32 held; /* how many workers have one; changes under the lock */
  uint32_t unused[2 * SD_LINE / 4 - 2];
} sd_permits;

/* J8: relaxed; it changes under the lock. Without it a hint, which for a worker that deferred is as new as its pass through the lock. */
static inline uint32_t sd_permits_held(sd_permits *permits) { return sd_load(&permits->held, relaxed, J8); }

/* Takes one of `bound` permits. Zero: none is free. */
static inline int sd_permits_take(sd_permits *permits, uint32_t bound) {
  /* Workers that drain records ask again and again while something is deferred, and must not meet at the lock. */
  if (sd_permits_held(permits) >= bound) return 0;
  sd_lock(&permits->lock);
  const uint32_t held = sd_permits_held(permits);
  /* J8 */
  if (held < bound) sd_store(&permits->held, held + 1, relaxed, J8);
  sd_unlock(&permits->lock);
  return held < bound;
}

/* Gives one back. Nonzero: something is deferred, and the caller takes it or wakes a worker. */
static inline int sd_permits_give(sd_permits *permits, sd_list *deferred) {
  sd_lock(&permits->lock);
  /* J8 */
  sd_store(&permits->held, sd_permits_held(permits) - 1, relaxed, J8);
  /* J9: relaxed; the lock shows what was deferred by workers that passed through it, and others pass after this. `head` first: what is
   * listed and taken in between does not make the list look empty. */
  const uint32_t head = sd_load(&deferred->head, relaxed, J9), tail = sd_load(&deferred->tail, relaxed, J9);
  sd_unlock(&permits->lock);
  return tail != head;
}

/* By a worker that has deferred something, before it looks for its next strand. */
static inline void sd_permits_pass_through(sd_permits *permits) {
  sd_lock(&permits->lock);
  sd_unlock(&permits->lock);
}

/* Whether something is deferred that may run, as a sleeper has to see it before it sleeps. */
static inline int sd_permits_wanted(sd_permits *permits, sd_list *deferred, uint32_t bound) {
  if (!sd_list_length_locked(deferred)) return 0;
  sd_lock(&permits->lock);
  const uint32_t held = sd_permits_held(permits);
  sd_unlock(&permits->lock);
  return held < bound;
}
