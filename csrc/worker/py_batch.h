/* What Python handles. */
#ifndef SD_WORKER_PY_BATCH_H
#define SD_WORKER_PY_BATCH_H

#include "state/state.h"

/* Python handled the first n records of the batch; code nonzero: and failed on the next one. */
int sd_worker_done(sd_dispatcher *d, uint32_t participant, const sd_py_batch *batch, int64_t n, int32_t code,
                   const char *message);
/* The memory in which a participant's batches may lie: the arena (0), or what is copied together for the participant (1). */
const void *sd_py_memory(const sd_dispatcher *d, uint32_t participant, int copied, uint64_t *bytes);
/* The timer of the batch has run; alarm: the symbol's next one, 0: none. Code nonzero: it failed. */
int sd_worker_wake_done(sd_dispatcher *d, uint32_t participant, const sd_py_batch *batch, uint64_t alarm, int32_t code,
                        const char *message);
/* A Python handler's alarm, made when it had handled so many records of the batch, which it will answer for. SD_E_ARGUMENT: it is
 * not after the last of them. */
int sd_py_wake_at(sd_dispatcher *d, const sd_py_batch *batch, int64_t handled, uint64_t ns);

/* Gives a strand to Python: SD_PY_RECORDS or SD_PY_WAKE, and *batch is filled. 0: there was nothing for it, and
 * the strand has been let go. */
int sd_to_python(sd_dispatcher *d, uint32_t participant, uint32_t index, uint64_t ahead, sd_py_batch *batch);

#endif
