/* Timers that no record fires, see worker/alarm.h. */
#ifndef SD_OVERDUE_OVERDUE_H
#define SD_OVERDUE_OVERDUE_H

#include "worker/alarm.h"

/* sd_overdue_sweep puts an overdue alarm on each strand with an alarm that the feed's time has passed, and returns how many strands that
 * is true of, those included where one is on its way, but for strands that are set aside. From any thread.
 * sd_overdue_scan does so for who publishes and for the merger, who comes back. Where there is a merger, strands with
 * records are left to its next look: most of these fire by themselves before, at a record. */
uint32_t sd_overdue_sweep(sd_dispatcher *d);
void sd_overdue_scan(sd_dispatcher *d);
/* The same where it may be worth while. */
static inline void sd_overdue_scan_where_due(sd_dispatcher *d, uint64_t time, int merges) {
  if (SD_LIKELY(!sd_timed(d))) return;
  /* K5: relaxed; a look that comes too early is made up for by the next one. */
  if (sd_load(&d->arena->next_alarm, relaxed, K5) > time) {
    /* K8 */
    if (!merges || !sd_load(&d->arena->overdue_later, relaxed, K8)) return;
  }
  sd_overdue_scan(d);
}

#endif
