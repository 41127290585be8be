/* What Python's handlers emit. By the thread that is participant `participant`. */
#pragma once

#include "state/state.h"

/* cffi: begin */
/* Emits n records of `record_bytes` from a Python handler: record i on behalf of record at[i] of the batch. */
int sd_py_emit(sd_dispatcher *d, uint32_t participant, const sd_py_batch *batch, uint32_t output, const int64_t *at,
               const void *records, int64_t n, char *message);
/* The same for a symbol's timer that participant `participant` runs, or (`at_end`) for the symbol's end. */
int sd_py_emit_timer(sd_dispatcher *d, uint32_t participant, uint32_t key, uint64_t time, int at_end, uint32_t output,
                     const void *records, int64_t n, char *message);
/* cffi: end */
/* The batch is over: lets the merger have what was emitted for its first `handled` records. */
void sd_py_batch_emitted(sd_dispatcher *d, uint32_t participant, const sd_py_batch *batch, int64_t handled);
