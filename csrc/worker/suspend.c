/* Tasks that give their participant back before they are over. */
#include "worker/suspend.h"

#include "base/clock.h"
#include "sd_error.h"
#include "worker/accounting.h"
#include "worker/free_task.h"
#include "worker/permit.h"
#include "worker/visit.h"

/* A free task, or the first one of an owned strand. */
static sd_task *task_at(sd_dispatcher *d, uint32_t entry) {
  if (sd_is_task(d, entry)) return sd_task_of(d, entry);
  sd_strand *s = &d->strands[entry];
  sd_lock(&s->publish_lock);
  sd_task *t = &d->tasks.tasks[sd_first_task(d->tasks.tasks, s) - 1];
  sd_unlock(&s->publish_lock);
  return t;
}

int sd_task_suspend(sd_dispatcher *d, uint32_t participant, sd_py_batch *batch, int away) {
  const uint32_t entry = batch->strand;
  sd_participant *me = &d->participants[participant];
  const uint64_t now = sd_now();
  sd_charge_end(d, participant, entry, now);
  if (!sd_task_pause(task_at(d, entry), away ? SD_TASK_AWAY : SD_TASK_SUSPENDED)) return SD_E_STOPPED;
  sd_account_turn(d, participant, batch->start, now);
  batch->task = 0;
  sd_bump(&me->tasks.suspended, 1);
  sd_meter_forget(&me->meter);
  if (sd_is_task(d, entry)) {
    if (!away) sd_list_task_again(d, participant, entry);
    sd_permit_pass(d, participant);
    return SD_OK;
  }
  sd_strand *s = &d->strands[entry];
  sd_strand_drained_by(d, s, participant);
  /* The token stays with a task that is away. */
  if (away) sd_strand_end(s);
  else if (sd_strand_release(s, 0)) sd_list_again(d, participant, entry, SD_VISITED);
  sd_permit_pass(d, participant);
  return SD_OK;
}

int sd_task_return(sd_dispatcher *d, uint32_t participant, uint32_t entry) {
  if (!sd_task_come_back(task_at(d, entry))) return SD_E_STOPPED;
  sd_make_ready(d, participant % d->n_workers, &entry, 1, SD_VISITED, sd_now());
  sd_idle_wake_one(&d->arena->idle);
  return SD_OK;
}

int sd_task_end_away(sd_dispatcher *d, uint32_t entry) {
  if (d->policy->over) d->policy->over(&d->ready, entry);
  return sd_guest_ends(&d->tasks, entry - d->ready.n_strands, SD_FREE_TASKS) ? SD_OK : SD_E_STOPPED;
}

void sd_task_charge(sd_dispatcher *d, uint32_t entry, uint64_t on_cpu_ns) {
  if (d->policy->charge) d->policy->charge(&d->ready, entry, on_cpu_ns);
}

void sd_task_resumed(sd_dispatcher *d, uint32_t participant) { sd_charge_begin(d, participant, sd_now(), 1); }
