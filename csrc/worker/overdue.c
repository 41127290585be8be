/* Timers that no record fires: finds those that the feed's time has passed, and enqueues an overdue alarm for each strand that has one. */
#include "worker/overdue.h"

#include "sd_error.h"
#include "worker/submit.h"

/* Enqueues an overdue alarm for `time` on a strand that has none: nonzero. Otherwise *until says up to when another sweep's overdue alarm
 * fires, or 0: there are too many tasks. */
static int enqueue_overdue(sd_dispatcher *d, uint32_t strand, uint64_t time, uint64_t *until) {
  /* K6: relaxed; only one of two sweeps finds 0, and the strand's owner sees it by P2. */
  if (!sd_cas(&d->overdue_until[strand], until, time, relaxed, K6)) return 0;
  /* This waits for publishers that hold the strand's lock, so the caller may hold no lock here. */
  if (sd_enqueue_overdue(d, strand, time) == SD_OK) return 1;
  sd_store(&d->overdue_until[strand], 0, relaxed, K6);
  return 0;
}

/* `leaves`: leaves strands with records to the merger's next look. *again: whoever looked meanwhile found next_alarm taken away, and alarms
 * may be due by now that were not before. From any thread, and several at a time. */
static uint32_t sweep_once(sd_dispatcher *d, int leaves, int *again) {
  uint64_t time, now, earliest = UINT64_MAX;
  uint32_t due = 0, later = 0;
  sd_lowest_unpublished(d, &time);
  /* K5: acq_rel; see worker/alarm.h. */
  sd_exchange(&d->arena->next_alarm, UINT64_MAX, acq_rel, K5);
  /* K8: acquire; pairs with the release below: this sweep sees the strands as the earlier one did, which left them. */
  if (sd_load(&d->arena->overdue_later, relaxed, K8)) sd_exchange(&d->arena->overdue_later, 0u, acquire, K8);
  for (uint32_t strand = 0; strand < d->arena->n_strands; strand++) {
    /* K4: acquire; if this sees an alarm, it also sees the overdue alarm that came before it. */
    uint64_t alarm = sd_load(&sd_alarm_tree_of(&d->alarms, strand).node[1], acquire, K4);
    if (alarm == SD_NEVER) continue;
    if (alarm <= time) {
      uint64_t until = sd_load(&d->overdue_until[strand], acquire, K6);
      /* P4: a task that is set aside with its strand would make callers wait for ever, so it does not count. */
      if (!until || !(sd_load(&d->strands[strand].control, relaxed, P4) & SD_SET_ASIDE)) due++;
      /* A1 */
      if (leaves && !until && sd_load(&d->strands[strand].pending, acquire, A1) > 0) {
        later = 1;
        continue;
      }
      if (!until && enqueue_overdue(d, strand, time, &until)) continue;
      /* When the overdue alarm ends, the strand's owner lowers next_alarm to the alarms behind it. */
      if (until) continue;
    }
    if (alarm < earliest) earliest = alarm;
  }
  *again = 0;
  if (earliest != UINT64_MAX) {
    sd_lower_next_alarm(d, earliest);
    sd_lowest_unpublished(d, &now);
    *again = !leaves && earliest > time && earliest <= now;
  }
  /* K8: release; a sweep that takes this back looks at the strands only afterwards. */
  if (later) sd_store(&d->arena->overdue_later, 1u, release, K8);
  return due;
}

static uint32_t sweep(sd_dispatcher *d, int leaves) {
  int again;
  uint32_t due;
  do due = sweep_once(d, leaves, &again);
  while (again);
  return due;
}

uint32_t sd_overdue_sweep(sd_dispatcher *d) { return sweep(d, 0); }

void sd_overdue_scan(sd_dispatcher *d) { sweep(d, d->outputs != NULL); }
