/* What a handler is to the core. This header stands alone: a handler in a shared object of one's own needs no other. */
#ifndef SD_HANDLER_H
#define SD_HANDLER_H

#include <stdint.h>

#include "sd_tick.h"

/* What a handler is called with beside its records. */
typedef struct sd_context {
  const void *params;   /* what was registered with the handler */
  uint64_t row_stride;  /* bytes from one symbol's row to the next */
  uint64_t n_rows;      /* rows there are: one a symbol */
  uint64_t record_size; /* bytes a record */
  uint32_t slot;        /* the worker (or publisher) that calls */
  int32_t error_code;   /* set by a handler that fails: its own number, shown in the error */
  char message[104];    /* likewise: what went wrong, zero-terminated; may stay empty */
  void *engine;         /* the dispatcher's own; not for handlers */
  /* Publishes records from inside a handler. Never waits: returns 0, SD_E_WOULD_DEADLOCK when a strand that would block is
   * full, or another code of sd_error.h; *accepted says how many records went in. */
  int (*publish)(struct sd_context *ctx, const void *records, int64_t n, int64_t *accepted);
} sd_context;

/* Runs over n records in a row, in publish order; the row of a record's symbol is at rows + key * row_stride, and no other
 * thread touches it meanwhile. Records of one call may belong to different symbols of the same strand.
 * Returns n, or the index of the record it failed on: those before it count as handled, that one as failed. */
typedef int64_t (*sd_handler_fn)(void *rows, const sd_tick *ticks, int64_t n, sd_context *ctx);

#endif
