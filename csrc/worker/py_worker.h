/* The batches of a Python worker, one after another. */
#pragma once

#include "state/state.h"

/* cffi: begin */
/* A Python worker and its batch in one structure, so that one call with one argument ends a batch and takes the next one. */
typedef struct sd_py_worker {
  int64_t first, end; /* where the batch's records lie, in records from the first segment on */
  sd_dispatcher *d;
  uint32_t participant;
  int32_t what; /* the batch's kind, as sd_worker_next returns it */
  sd_py_batch batch;
} sd_py_worker;
/* sd_worker_next for Python. Returns the strand if the batch's records lie in the segments, from `first` to `end`. Returns -1 for
 * everything that needs a closer look; then `what` says what it is. */
int64_t sd_py_worker_next(sd_py_worker *hand);
/* The same, after Python has handled the whole batch that it has. */
int64_t sd_py_worker_go_on(sd_py_worker *hand);

/* The next five never wait, but for sd_py_task_wait, and take short locks alone: for a caller that keeps the GIL. Giving it up for each task would have all threads
 * that run tasks fight for it.
 *
 * Ends the task in hand, if there is one, and takes what comes next. Returns its tag, if that is a free task of Python's; else 0, and
 * sd_py_worker_next has to be called, which waits. */
uint64_t sd_py_task_next(sd_py_worker *hand);
/* The same, when nothing is in hand: it waits for what comes next, so the caller has to give up the GIL. 0: `what` says what came. */
uint64_t sd_py_task_wait(sd_py_worker *hand);
/* Whether the task in hand should let others go, as sd_should_yield. */
int sd_py_should_yield(const sd_py_worker *hand);
/* Submits a free task of Python's. Returns its handle; 0: the table of tasks is full, the dispatcher stops, or the policy has no such
 * priority. */
uint64_t sd_py_task_submit(sd_dispatcher *d, uint64_t tag, uint32_t priority, uint32_t marks);
/* The same for the tasks of n tags, in their order. Writes the handles over the tags. Returns how many it submitted, the first ones. */
uint32_t sd_py_tasks_submit(sd_dispatcher *d, uint64_t *tags, uint32_t n, uint32_t priority);
/* cffi: end */
