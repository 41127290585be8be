/* Workers: find a ready strand, drain it, and wait when there is none. A worker's loop is sd_worker_next, run by the one thread that is
 * worker `participant`. A publisher that helps to drain calls sd_help. */
#include "worker/worker.h"

#include "base/clock.h"
#include "numbering/failure.h"
#include "sd_error.h"
#include "worker/free_task.h"
#include "worker/overdue.h"
#include "worker/permit.h"
#include "worker/py_batch.h"
#include "worker/task.h"
#include "worker/visit.h"
#include "worker/waiting.h"

#if defined(SD_MODEL_SCHEDULER)
enum { STEAL_MAX = 32, STEAL_LENGTH = 2, STEAL_TURNS = 2, LOOK_ROUND = 3 };
#else
enum {
  STEAL_MAX = 32,
  STEAL_LENGTH = 8,
  STEAL_TURNS = 4,
  LOOK_ROUND = 64 /* strands taken off its own list between two looks at the other lists */
};
#endif

/* Strands found busy before the worker yields its core, perhaps to their owners. */
enum { BUSY_TURNS = 64 };

/* ---- finding a strand */

/* Prefetches the next entries of a list while the strand before them is drained: the header of the strand two places on, the first
 * records of the next one. */
static inline void prefetch_next(sd_dispatcher *d, uint32_t list, uint32_t length) {
  const uint32_t first = d->policy->peek(&d->ready, list, 0);
  if (SD_UNLIKELY(first == SD_NONE)) return;
  if (SD_UNLIKELY(sd_is_task(d, first))) {
    sd_prefetch_write(sd_task_of(d, first));
    return;
  }
  sd_strand *next = &d->strands[first];
  uint32_t head = sd_load(&next->head, relaxed, Q1), at = sd_load(&next->at, relaxed, Q2);
  if (head != SD_NONE) {
    if (at >= d->pool.records) at = 0;
    sd_prefetch(sd_segment_record(&d->pool, head, at));
    if (d->pool.positions_at) sd_prefetch(sd_segment_position(&d->pool, head, at));
  }
  const uint32_t second = length > 1 ? d->policy->peek(&d->ready, list, 1) : SD_NONE;
  if (second != SD_NONE && !sd_is_task(d, second)) sd_prefetch_write(&d->strands[second]);
}

/* The participant took a strand; others may be left on a list, for a policy that orders over all lists on its own one. */
static inline void look_behind(sd_dispatcher *d, uint32_t participant, uint32_t list) {
  uint32_t length = sd_list_length(&d->ready.lists[list]);
  if (!length) return;
  /* Other workers may want what stays behind while this one is busy. */
  if (sd_idle_wake_one(&d->arena->idle)) sd_bump(&d->participants[participant].counters.wakes, 1);
  prefetch_next(d, list, length);
}

/* The first strand of a worker's own list. SD_NONE: it is empty. */
static uint32_t first_of(sd_dispatcher *d, uint32_t participant, uint32_t list) {
  uint32_t got;
  if (!d->policy->pick(&d->ready, list, &got, 1, 4)) return SD_NONE;
  look_behind(d, participant, list);
  return got;
}

/* The strand that a policy with an order over all lists puts first. SD_NONE: none is ready, or `can` says no to it. */
static uint32_t next_of_all(sd_dispatcher *d, uint32_t participant, int deferred, uint64_t now, sd_can_use can) {
  const uint32_t list = participant % d->n_workers, got = d->policy->next(&d->ready, list, deferred, now, can, d);
  if (got == SD_NONE) return SD_NONE;
  /* The token is this participant's, and `last` with it. A publisher that helps steals nothing. */
  if (participant == list && !sd_is_task(d, got) && d->strands[got].last != list)
    sd_bump(&d->participants[participant].counters.stolen, 1);
  look_behind(d, participant, d->policy->one_list ? 0 : list);
  return got;
}

/* Whether to steal from a worker. If it finishes a short list by itself, stealing costs both more than it gains: the strands' lines move
 * over, and back with the next batch. */
static int worth_stealing(sd_dispatcher *d, uint32_t victim, sd_watch *w, int busy, uint64_t now) {
  uint32_t length = sd_list_length(&d->ready.lists[victim]);
  if (length == 0) {
    w->turns = 0;
    w->since = now;
    return 0;
  }
  /* A worker that rests finishes nothing, and publishers that help may take what is there and put it back. */
  if (victim >= sd_active_workers(d)) return 1;
  if (!busy && length >= STEAL_LENGTH) return 1;
  /* R2 */
  uint32_t head = sd_load(&d->ready.lists[victim].head, relaxed, R2);
  if (head != w->head) {
    w->head = head;
    w->turns = 0;
    w->since = now;
    return 0;
  }
  return ++w->turns >= STEAL_TURNS || (busy && now - w->since >= d->budget_counts);
}

/* Steals half of what is ready elsewhere: one strand to drain, the others for the thief's own list. SD_NONE: there is nothing to steal. A
 * worker that is `busy`, with strands on its own list, steals only from lists that nobody else takes from, because their workers may be in
 * endless visits. */
static uint32_t next_stolen(sd_dispatcher *d, uint32_t participant, sd_watch *watches, int busy, uint64_t now) {
  uint32_t got[STEAL_MAX];
  for (uint32_t i = 1; i < d->n_workers; i++) {
    uint32_t victim = participant + i < d->n_workers ? participant + i : participant + i - d->n_workers;
    if (!worth_stealing(d, victim, &watches[victim], busy, now)) continue;
    uint32_t n = d->policy->pick(&d->ready, victim, got, STEAL_MAX, 2);
    if (!n) continue;
    watches[victim].turns = 0;
    sd_bump(&d->participants[participant].counters.stolen, n);
    if (n > 1) {
      sd_make_ready(d, participant, got + 1, n - 1, SD_NOT_VISITED, now);
      if (sd_idle_wake_one(&d->arena->idle)) sd_bump(&d->participants[participant].counters.wakes, 1);
    }
    return got[0];
  }
  return SD_NONE;
}

/* Whether what a worker took may be a task of Python's, or have one first. */
static int may_need_permit(sd_dispatcher *d, uint32_t index) {
  return sd_is_task(d, index) ? sd_is_pythons(sd_task_of(d, index)) : sd_strand_tasks(&d->strands[index]) != 0;
}

/* As next_strand, while something is deferred. Where the order between lists does not matter it takes only that. The worker holds a permit
 * afterwards if it got one and may need it. */
static SD_NOINLINE uint32_t next_or_deferred(sd_dispatcher *d, uint32_t participant, uint64_t now) {
  const int takes = sd_permit_take(d, participant);
  uint32_t index = SD_NONE;
  if (d->policy->next) {
    index = next_of_all(d, participant, takes ? SD_TAKE_DEFERRED : SD_LEAVE_DEFERRED, now, NULL);
  } else if (takes && d->policy->pick(&d->ready, d->n_workers, &index, 1, 4)) {
    look_behind(d, participant, participant);
  }
  if (index == SD_NONE) sd_permit_drop(d, participant);
  else if (!may_need_permit(d, index)) sd_permit_pass(d, participant);
  return index;
}

/* The next strand for a worker: what sd_worker_task_next kept for it, or else one from a list. Its own list may never become empty, so it
 * looks at the other lists after every LOOK_ROUND strands, and after a budget, because visits may be long. */
static uint32_t next_strand(sd_dispatcher *d, uint32_t participant, uint64_t now) {
  sd_participant *me = &d->participants[participant];
  uint32_t index = me->kept;
  if (SD_UNLIKELY(index)) {
    me->kept = 0;
    return index - 1;
  }
  if (SD_UNLIKELY(sd_any_deferred(d))) {
    index = next_or_deferred(d, participant, now);
    if (index != SD_NONE || d->policy->next) return index;
  }
  if (d->policy->next) return next_of_all(d, participant, SD_NONE_DEFERRED, now, NULL);
  if (SD_UNLIKELY(me->own_turns == LOOK_ROUND || now - me->looked >= d->budget_counts)) {
    me->own_turns = 0;
    me->looked = now;
    index = next_stolen(d, participant, d->watches[participant], 1, now);
    if (index != SD_NONE) return index;
  }
  index = first_of(d, participant, participant);
  if (index == SD_NONE) return next_stolen(d, participant, d->watches[participant], 0, now);
  me->own_turns++;
  return index;
}

int sd_own(sd_dispatcher *d, uint32_t participant, uint32_t index) {
  sd_strand *s = &d->strands[index];
  if (SD_UNLIKELY(sd_load(&s->control, relaxed, S2)) && sd_strand_set_aside(s)) return 0;
  if (SD_LIKELY(sd_strand_take(s, participant))) return 1;
  sd_fail(d, participant, index, NULL, 0, SD_E_CORRUPT,
          "a strand was taken while another worker owned it: please report this");
  sd_dispatcher_stop(d);
  return 0;
}

/* ---- draining */

/* C1: relaxed; publishers read it to decide whether to wait. */
static void say_looking(sd_dispatcher *d, uint32_t participant, uint32_t yes) {
  sd_store(&d->participants[participant].looking, yes, relaxed, C1);
}

/* Visits a strand that was taken off a list at *now. Nonzero: it has something for Python, which is in *batch. *busy counts the strands whose
 * lock was in use. */
static int visit_taken(sd_dispatcher *d, uint32_t participant, uint32_t index, uint64_t *now, uint32_t *busy,
                       sd_py_batch *batch) {
  if (!sd_own(d, participant, index)) {
    sd_permit_drop(d, participant);
    return 0;
  }
  uint64_t ahead = SD_AHEAD_UNKNOWN;
  if (SD_UNLIKELY(sd_strand_tasks(&d->strands[index]))) {
    int turn_of = sd_take_task(d, participant, index, batch, &ahead);
    if (turn_of == TASK_TAKEN) return SD_PY_TASK;
    if (turn_of == TASK_RESUMES) return SD_PY_RESUME;
    sd_permit_pass(d, participant);
    if (turn_of == TASK_WAKES) return SD_PY_WAKE;
    if (turn_of == TASK_GONE) {
      /* Firing timers, or a task in C, may have taken a while. */
      *now = sd_now();
      return 0;
    }
    if (turn_of == TASK_BUSY || turn_of == TASK_LEFT) {
      /* There may be nothing else to do, and the publisher that holds the lock may have lost its core. */
      if (++*busy % BUSY_TURNS) sd_pause();
      else sd_yield();
      if (d->policy->next) *now = sd_now();
      return 0;
    }
  }
  if (!d->handlers[d->strands[index].handler].fn) return sd_to_python(d, participant, index, ahead, batch);
  *now = sd_visit(d, participant, index, *now, ahead);
  return 0;
}

/* Lists again what sd_worker_task_next kept, for other workers. */
static SD_NOINLINE void list_kept(sd_dispatcher *d, uint32_t participant) {
  sd_participant *me = &d->participants[participant];
  if (!me->kept) return;
  const uint32_t index = me->kept - 1;
  me->kept = 0;
  sd_permit_drop(d, participant);
  sd_make_ready(d, participant, &index, 1, SD_NOT_VISITED, sd_now());
}

int sd_worker_next(sd_dispatcher *d, uint32_t participant, sd_py_batch *batch) {
  uint32_t turn = 0, busy = 0;
  int woken = 0;
  uint64_t now = sd_now();
  for (;;) {
    if (sd_dispatcher_stopping(d)) {
      list_kept(d, participant);
      return SD_E_STOPPED;
    }
    if (SD_UNLIKELY(participant >= sd_active_workers(d))) {
      list_kept(d, participant);
      if (turn) say_looking(d, participant, 0);
      turn = 0;
      woken = 0;
      sd_rest(d, participant);
      now = sd_now();
      continue;
    }
    if (sd_join_blocks(d, participant, 0)) now = sd_now();
    uint32_t index = next_strand(d, participant, now);
    if (index == SD_NONE) {
      if (turn == 0) {
        say_looking(d, participant, 1);
        /* What it has handled may have set timers that are due by now. A merger looks again and again. */
        if (!d->outputs) sd_overdue_scan_where_due(d, sd_feed_time(d), 0);
      }
      woken |= sd_be_idle(d, participant, turn++);
      /* A policy that orders by waits has to know how late it is. */
      if (d->policy->next) now = sd_now();
      continue;
    }
    if (woken) {
      /* Pushes made while this worker was waking woke nobody else: the next one has to take what this one leaves. */
      woken = 0;
      if (sd_anything_ready(d) && sd_idle_wake_one(&d->arena->idle))
        sd_bump(&d->participants[participant].counters.wakes, 1);
    }
    if (turn) {
      say_looking(d, participant, 0);
      now = sd_now();
    }
    turn = 0;
    if (sd_is_task(d, index)) {
      const int given = sd_run_free_task(d, participant, index, batch);
      if (given) return given;
      sd_permit_drop(d, participant);
      now = sd_now();
      continue;
    }
    const int given = visit_taken(d, participant, index, &now, &busy, batch);
    if (given) return given;
  }
}

int sd_worker_task_next(sd_dispatcher *d, uint32_t participant, sd_py_batch *batch) {
  if (batch->task) sd_worker_task_done(d, participant, batch);
  batch->task = 0;
  for (;;) {
    if (sd_dispatcher_stopping(d) || participant >= sd_active_workers(d)) return 0;
    const uint32_t index = next_strand(d, participant, sd_now());
    if (index == SD_NONE) return 0;
    if (!sd_is_task(d, index) || !sd_begins_in_python(sd_task_of(d, index))) {
      d->participants[participant].kept = index + 1;
      return SD_PY_OTHER;
    }
    if (sd_run_free_task(d, participant, index, batch)) return SD_PY_TASK;
    sd_permit_drop(d, participant);
  }
}

/* Whether a publisher can use what stands first on a list. It leaves a task of Python's there. */
static int can_help_with(const void *d, uint32_t entry) {
  return !sd_is_task(d, entry) || !sd_is_pythons(sd_task_of(d, entry));
}

int sd_help(sd_dispatcher *d, uint32_t participant) {
  uint32_t index = d->policy->next ? next_of_all(d, participant, SD_NONE_DEFERRED, sd_now(), can_help_with) : SD_NONE;
  for (uint32_t i = 0; !d->policy->next && index == SD_NONE && i < d->n_workers; i++) {
    const uint32_t list = (participant + i) % d->n_workers;
    if (d->policy->pick_if(&d->ready, list, &index, can_help_with, d)) look_behind(d, participant, list);
  }
  if (index == SD_NONE) return 0;
  if (sd_is_task(d, index)) {
    sd_run_free_task(d, participant, index, NULL);
    return 1;
  }
  if (!sd_own(d, participant, index)) return 1;
  uint64_t ahead = SD_AHEAD_UNKNOWN;
  if (SD_UNLIKELY(sd_strand_tasks(&d->strands[index]))) {
    int turn_of = sd_take_task(d, participant, index, NULL, &ahead);
    if (turn_of == TASK_LEFT || turn_of == TASK_BUSY) return 0;
    if (turn_of == TASK_GONE) return 1;
  }
  sd_visit(d, participant, index, sd_now(), ahead);
  return 1;
}

int sd_held_back(sd_dispatcher *d) {
  if (SD_LIKELY(!d->policy->due)) return 0;
  const uint64_t now = sd_now(), due = d->policy->due(&d->ready, now);
  return due > now && due != UINT64_MAX;
}
