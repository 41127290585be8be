/* The batches of a Python worker, one after the other. */
#ifndef SD_WORKER_PY_WORKER_H
#define SD_WORKER_PY_WORKER_H

#include "state/state.h"

/* A Python worker, and what it has in its hands: whole, so that one crossing with one argument ends a batch and takes
 * the next one. */
typedef struct sd_py_worker {
  int64_t first, end; /* where the batch's records lie, in records from the first segment on */
  sd_dispatcher *d;
  uint32_t participant;
  int32_t what; /* the batch's kind, as sd_worker_next says it */
  sd_py_batch batch;
} sd_py_worker;
/* sd_worker_next for Python. Returns the strand where its records lie among the segments, from `first` to `end`; -1 for all
 * that has to be looked at more closely: `what` says which it is. */
int64_t sd_py_worker_next(sd_py_worker *hand);
/* The same, when Python has handled all of the batch in hand. */
int64_t sd_py_worker_go_on(sd_py_worker *hand);

#endif
