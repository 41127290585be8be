/* Timers that no record fires, see worker/alarm.h. */
#pragma once

#include "numbering/watermark.h"
#include "worker/alarm.h"

/* cffi: begin */
/* sd_overdue_sweep enqueues an overdue alarm on each strand with an alarm that the feed's time has passed. It returns how many such
 * strands there are, including those whose overdue alarm was enqueued before, but not those that are set aside. From any thread.
 *
 * sd_overdue_scan does the same for publishers and the merger, which call it again and again. If there is a merger, strands with records
 * are left to its next look, because most of these alarms fire earlier, at a record. */
uint32_t sd_overdue_sweep(sd_dispatcher *d);
/* cffi: end */
void sd_overdue_scan(sd_dispatcher *d);
/* The same, if it may be worthwhile. */
static inline void sd_overdue_scan_where_due(sd_dispatcher *d, uint64_t time, int merges) {
  if (SD_LIKELY(!sd_timed(d))) return;
  /* K5: relaxed; if this look comes too early, the next one makes up for it. */
  if (sd_load(&d->arena->next_alarm, relaxed, K5) > time) {
    /* K8 */
    if (!merges || !sd_load(&d->arena->overdue_later, relaxed, K8)) return;
  }
  sd_overdue_scan(d);
}

/* The same after the feed's time, or a publisher's bound, has moved on; it does not come too early. */
static inline void sd_overdue_scan_after(sd_dispatcher *d) {
  if (SD_LIKELY(!sd_timed(d))) return;
  /* K5: a read-modify-write that changes nothing. Who changes next_alarm behind it sees what this thread did before; this thread sees a
   * change that came first. */
  sd_lower_next_alarm(d, UINT64_MAX);
  sd_overdue_scan_where_due(d, sd_feed_time(d), 0);
}
