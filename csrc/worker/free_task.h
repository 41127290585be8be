/* Running tasks: free ones, which stand in the policy's lists by themselves, and functions in C of either kind. */
#pragma once

#include "state/state.h"

/* Whether what a policy gave out is a free task, and not a strand. */
static inline int sd_is_task(const sd_dispatcher *d, uint32_t entry) { return entry >= d->ready.n_strands; }

/* The task of an entry for which sd_is_task() says so. */
static inline sd_task *sd_task_of(const sd_dispatcher *d, uint32_t entry) {
  return &d->tasks.tasks[entry - d->ready.n_strands];
}

/* Whether a task is Python's. By whoever took it, or as a hint. */
static inline int sd_is_pythons(sd_task *t) { return !(sd_task_word(t) & SD_TASK_IN_C); }
/* Whether a task has to have a permit for its turn, as its word says. */
static inline int sd_needs_permit(uint64_t word) {
  return !(word & (SD_TASK_IN_C | SD_TASK_OVERDUE)) && sd_task_state(word) != SD_TASK_GIVEN_UP;
}
/* Whether it is Python's and has not begun. By whoever took it. */
static inline int sd_begins_in_python(sd_task *t) {
  return sd_is_pythons(t) && sd_task_state(sd_task_word(t)) != SD_TASK_SUSPENDED;
}

/* Calls the function of a task in C, which was started. Nonzero: it asks for another turn, and the caller has to list it. Zero: it is over,
 * and the caller ends it. */
int sd_call_task(sd_dispatcher *d, uint32_t participant, sd_task *t, uint32_t entry, int why);
/* Counts a task that was started as ended, `state` being what sd_task_start said, and gives its entry back. */
void sd_task_over(sd_dispatcher *d, uint32_t participant, uint32_t index, int kind);
/* How a task in C ends whose turn it is. */
int sd_task_why(sd_dispatcher *d, uint32_t participant, const sd_task *t, uint32_t state, uint64_t now);

/* By a participant that took a free task off its list. Runs it, if it is in C. SD_PY_TASK or SD_PY_RESUME: it is Python's, and *batch has
 * it; end it with sd_worker_task_done. `batch` may be NULL if it is not Python's. */
int sd_run_free_task(sd_dispatcher *d, uint32_t participant, uint32_t entry, sd_py_batch *batch);
/* Lists a free task of this participant once more, which has had a turn. */
void sd_list_task_again(sd_dispatcher *d, uint32_t participant, uint32_t entry);
/* Ends a free task of Python's. */
void sd_end_free_task(sd_dispatcher *d, uint32_t participant, uint32_t entry);

/* Whether at some moment during the call every free task had ended. *submitted: how many tasks of both kinds there had been since the start;
 * it is greater the next time if one was submitted meanwhile. What those that ended did is seen. */
int sd_free_tasks_over(sd_dispatcher *d, uint64_t *submitted);

/* cffi: begin */
typedef struct sd_task_totals {
  uint64_t submitted, ended, cancelled, expired; /* waiting, running, or suspended: submitted - ended */
  uint64_t suspended;                            /* times that one gave its worker back */
} sd_task_totals;
/* Sums over all participants: of free tasks, or of those on strands. */
void sd_tasks_total(sd_dispatcher *d, int on_strands, sd_task_totals *out);

/* When no worker runs any more: tells every function in C whose task still waits how it ended, and counts Python's
 * tasks as ended, also those that are suspended or away. Nobody can submit afterwards. Does nothing the second time. */
void sd_tasks_stop(sd_dispatcher *d);
/* cffi: end */
