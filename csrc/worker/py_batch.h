/* Batches that Python handles. */
#pragma once

#include "state/state.h"

/* cffi: begin */
/* Python handled the first n records of the batch. Code nonzero: it failed on the next one. */
int sd_worker_done(sd_dispatcher *d, uint32_t participant, const sd_py_batch *batch, int64_t n, int32_t code,
                   const char *message);
/* The memory in which a participant's batches may lie: the arena (0), or the buffer into which the participant's records are copied
 * together (1). */
const void *sd_py_memory(const sd_dispatcher *d, uint32_t participant, int copied, uint64_t *bytes);
/* The timer of the batch has run. alarm: the symbol's next one; 0: none. Code nonzero: the timer failed. */
int sd_worker_wake_done(sd_dispatcher *d, uint32_t participant, const sd_py_batch *batch, uint64_t alarm, int32_t code,
                        const char *message);
/* Sets an alarm for a Python handler that has handled so many records of a batch which it has not reported yet. SD_E_ARGUMENT: the alarm
 * is not after the last of them. */
int sd_py_wake_at(sd_dispatcher *d, const sd_py_batch *batch, int64_t handled, uint64_t ns);
/* cffi: end */

/* Gives a strand to Python: SD_PY_RECORDS or SD_PY_WAKE, and *batch is filled. 0: Python has nothing to do there, and the strand has been
 * let go. */
int sd_to_python(sd_dispatcher *d, uint32_t participant, uint32_t index, uint64_t ahead, sd_py_batch *batch);
