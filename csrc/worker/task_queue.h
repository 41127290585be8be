/* Putting tasks on strands, and giving them up. */
#ifndef SD_WORKER_TASK_QUEUE_H
#define SD_WORKER_TASK_QUEUE_H

#include "state/state.h"

/* Enqueues a task on a strand, behind everything published there. A worker gets it from sd_worker_next when all of that is finished, and
 * before anything published later. From any thread. SD_AGAIN: too many tasks wait. `tag` is the caller's name for it, which no other task
 * may have. */
int sd_task_enqueue(sd_dispatcher *d, uint32_t strand, uint64_t tag);
/* Gives a task up. SD_OK: it will not run; SD_AGAIN: it runs, has run, or was never there. */
int sd_task_give_up(sd_dispatcher *d, uint32_t strand, uint64_t tag);

#endif
