/* Runs a strand's tasks in their turn, for the owner of the strand. strand/tasks.h keeps their chains. */
#include "worker/task.h"

#include "base/clock.h"
#include "worker/accounting.h"
#include "worker/alarm.h"
#include "worker/call.h"
#include "worker/visit.h"

/* Ends the first task of an owned strand, and the visit with it. The caller holds the publish lock; this releases it. */
static void end_locked(sd_dispatcher *d, uint32_t participant, uint32_t index) {
  sd_strand *s = &d->strands[index];
  uint32_t task = sd_task_unlink(&d->tasks, s);
  sd_unlock(&s->publish_lock);
  sd_task_free(&d->tasks, task);
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

int sd_take_task(sd_dispatcher *d, uint32_t participant, uint32_t index, sd_py_batch *batch, uint64_t *ahead) {
  sd_strand *s = &d->strands[index];
  if (!sd_try_lock(&s->publish_lock)) return come_back(d, participant, index);
  sd_task *t = &d->tasks.tasks[sd_strand_tasks(s) - 1];
  int found = TASK_LATER;
  uint64_t tag = t->tag;
  *ahead = sd_task_ahead(&d->tasks, s);
  if (*ahead == 0) {
    found = t->state == SD_TASK_CANCELLED ? TASK_GONE : batch ? TASK_TAKEN : TASK_LEFT;
    /* From here on nobody can give the task up or use it again. */
    if (found == TASK_TAKEN || found == TASK_GONE) t->state = SD_TASK_RUNS;
  }
  sd_unlock(&s->publish_lock);
  if ((tag & SD_TASK_OVERDUE) && (found == TASK_TAKEN || (found == TASK_LEFT && d->handlers[s->handler].fn)))
    return run_overdue(d, participant, index, tag & ~SD_TASK_OVERDUE, batch);
  if (found == TASK_TAKEN) {
    *batch = (sd_py_batch){.strand = index, .handler = s->handler, .start = sd_now(), .task = tag};
    sd_charge_begin(d, participant, batch->start, 1);
  } else if (found == TASK_GONE) {
    end_task(d, participant, index);
  } else if (found == TASK_LEFT) {
    /* Only a publisher leaves a task to a worker, and sd_list_again wakes one. */
    if (sd_strand_release(s, 0)) sd_list_again(d, participant, index, SD_NOT_VISITED);
  }
  return found;
}

void sd_worker_task_done(sd_dispatcher *d, uint32_t participant, const sd_py_batch *batch) {
  sd_charge_end(d, participant, batch->strand, sd_now());
  end_task(d, participant, batch->strand);
}
