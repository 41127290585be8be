/* Runs a strand's tasks in their turn, for the owner of the strand. strand/tasks.h keeps their chains. */
#include "worker/task.h"

#include "base/clock.h"
#include "worker/accounting.h"
#include "worker/alarm.h"
#include "worker/call.h"
#include "worker/free_task.h"
#include "worker/permit.h"
#include "worker/visit.h"

/* Ends the first task of an owned strand, and the visit with it. The caller holds the publish lock; this releases it. */
static void end_locked(sd_dispatcher *d, uint32_t participant, uint32_t index) {
  sd_strand *s = &d->strands[index];
  const uint32_t task = sd_task_unlink(d->tasks.tasks, s);
  sd_unlock(&s->publish_lock);
  sd_task_over(d, participant, task - 1, SD_STRAND_TASKS);
  sd_strand_drained_by(d, s, participant);
  if (sd_strand_release(s, 1)) sd_list_again(d, participant, index, SD_VISITED);
}

static void end_task(sd_dispatcher *d, uint32_t participant, uint32_t index) {
  sd_lock(&d->strands[index].publish_lock);
  end_locked(d, participant, index);
}

/* For an owned strand with a task, whose publish lock is in use. A publisher holds the lock while it copies a whole chunk, and there are
 * other strands to handle meanwhile. */
static int come_back(sd_dispatcher *d, uint32_t participant, uint32_t index) {
  sd_strand *s = &d->strands[index];
  sd_strand_drained_by(d, s, participant);
  if (sd_strand_release(s, 0)) sd_list_again(d, participant, index, SD_NOT_VISITED);
  return TASK_BUSY;
}

/* Runs an overdue alarm in its turn: fires timers, or leaves the next one to Python. While timers are left, the overdue alarm stays on
 * the strand and sweeps know of it, so they do not enqueue another one. */
static int run_overdue(sd_dispatcher *d, uint32_t participant, uint32_t index, uint64_t time, sd_py_batch *batch) {
  sd_strand *s = &d->strands[index];
  const sd_handler *handler = &d->handlers[s->handler];
  if (handler->fn) {
    sd_context ctx;
    sd_context_of(d, participant, handler, &ctx);
    const uint64_t start = sd_now();
    ctx.until = start + d->budget_counts;
    sd_charge_begin(d, participant, start, 0);
    const int left = sd_timers_fire(d, handler, &ctx, index, time);
    sd_charge_end(d, participant, index, sd_now());
    if (left) {
      /* A timer failed, and the others fire after the strand has been let go. Or the timers took a whole budget, and the other strands
       * have their turn. */
      sd_strand_drained_by(d, s, participant);
      if (sd_strand_release(s, 0)) sd_list_again(d, participant, index, SD_VISITED);
      return TASK_GONE;
    }
    /* If the lock is in use the task stays. It has another turn, at which nothing is due any more. */
    if (!sd_try_lock(&s->publish_lock)) return come_back(d, participant, index);
    sd_overdue_done(d, index);
    end_locked(d, participant, index);
    return TASK_GONE;
  }
  *batch = (sd_py_batch){.strand = index, .handler = s->handler, .start = sd_now()};
  batch->wake_key = sd_timer_due(d, index, time, &batch->wake_time);
  if (batch->wake_key != SD_NONE) {
    sd_charge_begin(d, participant, batch->start, 1);
    return TASK_WAKES;
  }
  sd_overdue_done(d, index);
  end_task(d, participant, index);
  return TASK_GONE;
}

/* The first task of an owned strand, whose turn it is. */
static int take_turn(sd_dispatcher *d, uint32_t participant, uint32_t index, sd_task *t, sd_py_batch *batch) {
  sd_strand *s = &d->strands[index];
  const uint64_t word = sd_task_word(t);
  const int pythons = word & SD_TASK_OVERDUE ? !d->handlers[s->handler].fn : !(word & SD_TASK_IN_C);
  if (pythons && !batch && sd_task_state(word) != SD_TASK_GIVEN_UP) {
    sd_unlock(&s->publish_lock);
    /* Only a publisher leaves a task to a worker, and sd_list_again wakes one. */
    if (sd_strand_release(s, 0)) sd_list_again(d, participant, index, SD_NOT_VISITED);
    return TASK_LEFT;
  }
  if (batch && sd_needs_permit(word) && !sd_permit_take(d, participant)) {
    sd_unlock(&s->publish_lock);
    if (sd_strand_release(s, 0)) sd_defer(d, index);
    return TASK_GONE;
  }
  /* From here on nobody can give the task up or use it again. An overdue alarm whose timers take turns has been started before. */
  const uint32_t state = sd_task_start(t);
  const uint64_t call = t->call;
  sd_unlock(&s->publish_lock);
  /* Tasks in C and timers may take a while, and need none. */
  if (!sd_needs_permit(word)) sd_permit_pass(d, participant);
  if (word & SD_TASK_OVERDUE) return run_overdue(d, participant, index, call, batch);
  if (SD_UNLIKELY(!sd_task_may_start(state))) {
    if (sd_strand_release(s, 0)) sd_list_again(d, participant, index, SD_NOT_VISITED);
    return TASK_LEFT;
  }
  const uint64_t now = sd_now();
  const int why = sd_task_why(d, participant, t, state, now);
  if (word & SD_TASK_IN_C) {
    if (sd_call_task(d, participant, t, index, why)) {
      sd_strand_drained_by(d, s, participant);
      if (sd_strand_release(s, 0)) sd_list_again(d, participant, index, SD_VISITED);
      return TASK_GONE;
    }
  } else if (why == SD_TASK_RUN) {
    *batch = (sd_py_batch){.strand = index, .handler = s->handler, .start = now, .task = call};
    if (state == SD_TASK_SUSPENDED) return TASK_RESUMES;
    sd_charge_begin(d, participant, now, 1);
    return TASK_TAKEN;
  }
  end_task(d, participant, index);
  return TASK_GONE;
}

int sd_take_task(sd_dispatcher *d, uint32_t participant, uint32_t index, sd_py_batch *batch, uint64_t *ahead) {
  sd_strand *s = &d->strands[index];
  if (!sd_try_lock(&s->publish_lock)) return come_back(d, participant, index);
  *ahead = sd_task_ahead(d->tasks.tasks, s);
  if (*ahead == 0)
    return take_turn(d, participant, index, &d->tasks.tasks[sd_first_task(d->tasks.tasks, s) - 1], batch);
  sd_unlock(&s->publish_lock);
  return TASK_LATER;
}

void sd_worker_task_done(sd_dispatcher *d, uint32_t participant, const sd_py_batch *batch) {
  const uint64_t now = sd_now();
  sd_charge_end(d, participant, batch->strand, now);
  sd_account_turn(d, participant, batch->start, now);
  if (sd_is_task(d, batch->strand)) sd_end_free_task(d, participant, batch->strand);
  else end_task(d, participant, batch->strand);
  sd_permit_drop(d, participant);
}
