/* Running tasks. A free task needs no owner word and no count of what is pending: the lock of its list gives it to one thread, and the
 * thread that ran it gives the entry back. */
#include "worker/free_task.h"

#include "base/clock.h"
#include "worker/accounting.h"
#include "worker/permit.h"
#include "worker/submit.h"
#include "worker/yield.h"

static sd_task_counts *counts_of(sd_dispatcher *d, uint32_t participant) { return &d->participants[participant].tasks; }

int sd_task_why(sd_dispatcher *d, uint32_t participant, const sd_task *t, uint32_t state, uint64_t now) {
  if (SD_UNLIKELY(state == SD_TASK_GIVEN_UP)) {
    sd_bump(&counts_of(d, participant)->cancelled, 1);
    return SD_TASK_CANCELLED;
  }
  if (SD_UNLIKELY(t->deadline < now)) {
    sd_bump(&counts_of(d, participant)->expired, 1);
    return SD_TASK_EXPIRED;
  }
  return SD_TASK_RUN;
}

/* Nonzero: it asks for another turn. */
static int call_function(sd_dispatcher *d, uint32_t participant, sd_task *t, uint32_t entry, int why) {
  sd_task_context ctx = {.engine = d,
                         .rows = d->rows,
                         .row_stride = d->arena->row_stride,
                         .participant = participant,
                         .entry = entry,
                         .submit = sd_submit_from_task,
                         .should_yield = sd_should_yield_in_task};
  void *argument = t->argument;
  if (!(sd_task_word(t) & SD_TASK_COPIED)) memcpy(&argument, t->argument, sizeof argument);
  ((sd_task_fn)(uintptr_t)t->call)(&ctx, argument, why);
  return why == SD_TASK_RUN && ctx.again;
}

int sd_call_task(sd_dispatcher *d, uint32_t participant, sd_task *t, uint32_t entry, int why) {
  const uint64_t start = sd_now();
  sd_charge_begin(d, participant, start, 0);
  const int again = call_function(d, participant, t, entry, why);
  const uint64_t end = sd_now();
  sd_charge_end(d, participant, entry, end);
  sd_account_turn(d, participant, start, end);
  if (SD_LIKELY(!again)) return 0;
  /* It has begun, so it does not expire any more. */
  t->deadline = UINT64_MAX;
  if (sd_task_pause(t, SD_TASK_WAITS)) return 1;
  call_function(d, participant, t, entry, SD_TASK_STOPPED);
  return 0;
}

void sd_task_over(sd_dispatcher *d, uint32_t participant, uint32_t index, int kind) {
  const int overdue = (sd_task_word(&d->tasks.tasks[index]) & SD_TASK_OVERDUE) != 0;
  sd_task_end(&d->tasks.tasks[index]);
  if (SD_UNLIKELY(overdue)) {
    sd_guest_gives(&d->tasks, index, kind, 1);
    return;
  }
  sd_tasks_count_ended(counts_of(d, participant), kind);
  sd_tasks_put(&d->tasks, &d->participants[participant].task_cache, index);
}

void sd_end_free_task(sd_dispatcher *d, uint32_t participant, uint32_t entry) {
  if (SD_UNLIKELY(d->policy->over != NULL)) d->policy->over(&d->ready, entry);
  sd_task_over(d, participant, entry - d->ready.n_strands, SD_FREE_TASKS);
}

void sd_list_task_again(sd_dispatcher *d, uint32_t participant, uint32_t entry) {
  sd_make_ready(d, participant % d->n_workers, &entry, 1, SD_VISITED, sd_now());
  /* A worker comes back to its own list by itself. */
  if (participant >= d->n_workers && sd_idle_wake_one(&d->arena->idle))
    sd_bump(&d->participants[participant].counters.wakes, 1);
}

int sd_run_free_task(sd_dispatcher *d, uint32_t participant, uint32_t entry, sd_py_batch *batch) {
  sd_task *t = sd_task_of(d, entry);
  if (sd_needs_permit(sd_task_word(t)) && !sd_permit_take(d, participant)) {
    sd_defer(d, entry);
    return 0;
  }
  const uint64_t now = sd_now();
  const uint32_t state = sd_task_start(t);
  if (SD_UNLIKELY(!sd_task_may_start(state))) return 0;
  const int why = sd_task_why(d, participant, t, state, now);
  if (!sd_is_pythons(t)) {
    if (sd_call_task(d, participant, t, entry, why)) {
      sd_list_task_again(d, participant, entry);
      return 0;
    }
  } else if (why == SD_TASK_RUN) {
    *batch = (sd_py_batch){.strand = entry, .start = now, .task = t->call};
    if (state == SD_TASK_SUSPENDED) return SD_PY_RESUME;
    if (d->policy->rose) batch->rose = d->policy->rose(&d->ready, entry, 1);
    sd_charge_begin(d, participant, now, 1);
    return SD_PY_TASK;
  }
  sd_end_free_task(d, participant, entry);
  return 0;
}

/* ---- counting ---- */

/* Participants, and then guests. */
static sd_task_counts *counts_at(sd_dispatcher *d, uint32_t i) {
  return i < d->n_participants ? counts_of(d, i) : &d->tasks.list->counts;
}

/* All ends are read before what was submitted, and nothing ends that was not submitted before. So if the sums are the same, no free task was
 * there when the last end was read. */
int sd_free_tasks_over(sd_dispatcher *d, uint64_t *submitted) {
  uint64_t ended = 0, of_kind[SD_TASK_KINDS] = {0};
  /* J5: acquire; pairs with the release of sd_tasks_count_ended: what those that ended did, and submitted, is seen. */
  for (uint32_t i = 0; i <= d->n_participants; i++)
    ended += sd_load(&counts_at(d, i)->ended[SD_FREE_TASKS], acquire, J5);
  for (uint32_t i = 0; i <= d->n_participants; i++)
    for (int kind = 0; kind < SD_TASK_KINDS; kind++)
      of_kind[kind] += sd_load(&counts_at(d, i)->submitted[kind], relaxed, J4);
  *submitted = of_kind[SD_FREE_TASKS] + of_kind[SD_STRAND_TASKS];
  return ended == of_kind[SD_FREE_TASKS];
}

void sd_tasks_total(sd_dispatcher *d, int on_strands, sd_task_totals *out) {
  *out = (sd_task_totals){0};
  for (uint32_t i = 0; i <= d->n_participants; i++) {
    sd_task_counts *c = counts_at(d, i);
    out->ended += sd_load(&c->ended[on_strands], acquire, J5);
    out->cancelled += sd_peek(&c->cancelled);
    out->expired += sd_peek(&c->expired);
    out->suspended += sd_peek(&c->suspended);
  }
  for (uint32_t i = 0; i <= d->n_participants; i++)
    out->submitted += sd_load(&counts_at(d, i)->submitted[on_strands], relaxed, J4);
}

/* ---- the end ---- */

void sd_tasks_stop(sd_dispatcher *d) {
  const uint32_t used = sd_tasks_close(&d->tasks);
  for (uint32_t i = 0; i < used; i++) {
    sd_task *t = &d->tasks.tasks[i];
    const uint32_t state = sd_task_stop(t);
    const uint64_t word = sd_task_word(t);
    /* An overdue alarm whose timers took turns has been started before. */
    if (state == SD_TASK_FREE || (state == SD_TASK_RUNS && !(word & SD_TASK_OVERDUE))) continue;
    if (word & SD_TASK_IN_C)
      call_function(d, 0, t, d->ready.n_strands + i, state == SD_TASK_GIVEN_UP ? SD_TASK_CANCELLED : SD_TASK_STOPPED);
    sd_task_end(t);
    sd_lock(&d->tasks.list->lock);
    if (state == SD_TASK_GIVEN_UP) sd_bump(&d->tasks.list->counts.cancelled, 1);
    sd_tasks_count_ended(&d->tasks.list->counts, word & SD_TASK_ON_STRAND ? SD_STRAND_TASKS : SD_FREE_TASKS);
    sd_unlock(&d->tasks.list->lock);
  }
}
