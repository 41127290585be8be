/* Timers: handlers ask for them with wake_at, in the feed's time.
 *
 * A symbol has at most one alarm, in its strand's tree (alarms/tree.h). Only the strand's owner writes it. Its timer is fired in one of
 * two ways:
 *   - The owner fires it before the strand's first record whose position is at or after the alarm, with all others that are due there.
 *     It splits the run of records at that record. All earlier records of the symbol have been handled, because they are of the same
 *     strand.
 *   - Otherwise an overdue alarm (strand/tasks.h) fires it. It is put on the strand when the feed's time has passed the alarm. All
 *     records of an earlier time are linked by then, and those linked later have their position at or after it.
 * So a timer has the same place among its symbol's records in both cases, and results do not depend on which one it was.
 *
 * An alarm lies after the time of the record, or the timer, that asked for it; an earlier one is moved to the next ns. What a timer emits
 * counts before the owner removes its alarm. So a thread that read the watermark and then finds no alarm also finds what the timer
 * emitted.
 *
 * next_alarm says when to look: no root for which an overdue alarm still has to be enqueued is earlier. A thread that changes a root
 * stores it and then changes next_alarm by a read-modify-write (K5). A thread that looks exchanges next_alarm and then reads the roots.
 * One of the two changes comes first, and the second thread sees what the first one did. */
#pragma once

#include "state/state.h"

/* For handlers: sets the alarm of the symbol whose record or timer runs. */
void sd_wake_at(sd_context *ctx, uint32_t key, int64_t ns);

/* Returns how many of n records come before the first one that a timer of its strand precedes. `strand`: the strand of all these records,
 * which are then not read, or SD_NONE if they are of several. The caller owns their strands. */
int64_t sd_timer_cut(const sd_dispatcher *d, uint32_t strand, const unsigned char *records,
                     const sd_position *positions, int64_t n);
/* A symbol of the strand whose alarm is at or before `time`, the earliest one first; SD_NONE: there is none. */
uint32_t sd_timer_due(sd_dispatcher *d, uint32_t strand, uint64_t time, uint64_t *alarm);
/* By the owner, when the overdue alarm of its strand has fired all that it was enqueued for: ends it. */
void sd_overdue_done(sd_dispatcher *d, uint32_t strand);
/* Sets a symbol's next alarm; 0: it has none any more. By the strand's owner. */
void sd_arm(sd_dispatcher *d, uint32_t key, uint64_t alarm);
/* The same for a caller that knows the leaf. */
void sd_arm_leaf(sd_dispatcher *d, const sd_alarm_tree *t, uint32_t leaf, uint64_t ns);
/* Lowers next_alarm to `ns`, the new time of a root, if it is later. */
void sd_lower_next_alarm(sd_dispatcher *d, uint64_t ns);
/* A timer's context. */
void sd_timer_context(sd_context *ctx, uint32_t key, uint64_t time);

/* Whether there are timers. The merger asks even before the handlers are set. */
static inline int sd_timed(sd_dispatcher *d) {
  /* K7: acquire; pairs with the release of sd_timers_connect: the caller sees the trees. */
  return sd_load(&d->arena->timed, acquire, K7) != 0;
}

/* The earliest alarm of all strands that are not quarantined; UINT64_MAX: there is none. */
uint64_t sd_earliest_alarm(sd_dispatcher *d);

/* After the handlers are set. */
int sd_timers_connect(sd_dispatcher *d);
