/* Tasks on strands: whose turn it is between two records. */
#pragma once

#include "state/state.h"

/* cffi: begin */
/* The task of the batch, on a strand or free, has run. */
void sd_worker_task_done(sd_dispatcher *d, uint32_t participant, const sd_py_batch *batch);
/* cffi: end */

/* What comes next on a strand that has tasks. */
enum {
  TASK_LATER = 0, /* records come first */
  TASK_TAKEN,     /* a task of Python's, which is in *batch */
  TASK_RESUMES,   /* the same, and it was suspended */
  TASK_WAKES,     /* an overdue alarm; *batch is a timer of Python's */
  TASK_GONE, /* a task in C or that was given up, or an overdue alarm: it is over or has had a turn, and the strand has been let go */
  TASK_LEFT, /* a task of Python's, but a caller without a batch cannot run it: the strand is listed for a worker again */
  TASK_BUSY /* a publisher holds the lock: the strand has been let go */
};
/* *ahead: how many records come first. */
int sd_take_task(sd_dispatcher *d, uint32_t participant, uint32_t index, sd_py_batch *batch, uint64_t *ahead);
