/* Timers: what handlers ask for by wake_at, in the feed's time.
 *
 * A symbol has one alarm at most, in its strand's tree (alarms/tree.h), written by the strand's owner alone. It is fired
 *   - by the owner, before the strand's first record whose position is at or after it, with all others that are due there: the run
 *     is split at that record. All records of the symbol that come before it have been handled, being of the same strand;
 *   - else by an overdue alarm (strand/tasks.h) that is put on the strand when the feed's time has passed it. All records of an earlier
 *     time are linked by then, and those linked later have their position at or after it.
 * So a timer has the same place among its symbol's records in all cases, and results do not hang on which it was.
 *
 * An alarm lies after the time of the record that asked for it (or of the timer): one that does not is moved to the next ns. What a
 * timer emits counts before its alarm is taken back: who finds no alarm after it read the watermark, finds what it emitted.
 *
 * next_alarm says when to look: no root that an overdue alarm still has to be queued for is earlier. Who changes a root stores it and
 * then changes next_alarm by a read-modify-write (K5); who looks exchanges next_alarm and then reads the roots: of the two changes
 * one comes first, and the second party sees what the first one did.
 */
#ifndef SD_WORKER_ALARM_H
#define SD_WORKER_ALARM_H

#include "state/state.h"

/* Tags of overdue alarms: with this bit the other ones are the time up to which alarms are fired. */
#define SD_TASK_OVERDUE (UINT64_C(1) << 63)

/* For handlers: the alarm of a record's symbol, or of the one whose timer runs. */
void sd_wake_at(sd_context *ctx, uint32_t key, int64_t ns);

/* Of n records of an owned strand those before the first one that a timer comes before. */
int64_t sd_timer_cut(const sd_dispatcher *d, uint32_t strand, const sd_position *positions, int64_t n);
/* A symbol of the strand whose alarm is at or before `time`, the earliest one first; SD_NONE: there is none. */
uint32_t sd_timer_due(sd_dispatcher *d, uint32_t strand, uint64_t time, uint64_t *alarm);
/* The overdue alarm of an owned strand has fired all that it was there for, and ends. */
void sd_overdue_done(sd_dispatcher *d, uint32_t strand);
/* A symbol's next alarm, by the strand's owner; 0: it has none any more. */
void sd_arm(sd_dispatcher *d, uint32_t key, uint64_t alarm);
/* The same where its leaf is known. */
void sd_arm_leaf(sd_dispatcher *d, const sd_alarm_tree *t, uint32_t leaf, uint64_t ns);
/* A root says `ns`: next_alarm is no later. */
void sd_lower_next_alarm(sd_dispatcher *d, uint64_t ns);
/* A timer's context. */
void sd_timer_context(sd_context *ctx, uint32_t key, uint64_t time);

/* Whether there are timers. Who merges asks before the handlers are set. */
static inline int sd_timed(sd_dispatcher *d) {
  /* K7: acquire; pairs with the release of sd_timers_connect: the trees are there. */
  return sd_load(&d->arena->timed, acquire, K7) != 0;
}

/* The earliest alarm there is, but for strands that are quarantined; UINT64_MAX: there is none. */
uint64_t sd_earliest_alarm(sd_dispatcher *d);

/* After the handlers are set. */
int sd_timers_connect(sd_dispatcher *d);

#endif
