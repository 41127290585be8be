/* Tasks on strands, and whose turn it is between two records. */
#ifndef SD_TASK_H
#define SD_TASK_H

#include "sd_state.h"

/* Puts a task on a strand, behind all that is published there: a worker gets it from sd_worker_next when all of that is done
 * with, and before anything published later. From any thread. SD_AGAIN: too many are waiting. `tag` is the caller's name for
 * it, not in use elsewhere. */
int sd_task_queue(sd_dispatcher *d, uint32_t strand, uint64_t tag);
/* Gives a task up. SD_OK: it will not run; SD_AGAIN: it runs, has run, or was never there. */
int sd_task_give_up(sd_dispatcher *d, uint32_t strand, uint64_t tag);
/* The task of the claim has run. */
void sd_worker_task_done(sd_dispatcher *d, uint32_t slot, const sd_claim *claim);

/* Whose turn it is on a strand that has tasks. */
enum {
  TASK_LATER = 0, /* records come first */
  TASK_TAKEN,     /* a task, and *claim is it */
  TASK_WAKES,     /* the clock's, and *claim is a timer of Python's */
  TASK_GONE,      /* one that was given up, or the clock's: it is over, and the strand has been let go */
  TASK_LEFT,      /* a task, and a caller without a claim can run none: the strand is a worker's again */
  TASK_BUSY       /* a publisher is at work there: the strand has been let go */
};
/* *ahead: the records that come first. */
int sd_take_task(sd_dispatcher *d, uint32_t slot, uint32_t index, sd_claim *claim, uint64_t *ahead);

#endif
