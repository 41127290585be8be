/* The rows of all symbols as they stood at the multiples of an interval, for strand.snapshot.
 *
 * The functions here wrap a handler. Before a record, or a timer, changes a row, they keep the row's fields if a multiple of the interval
 * has passed since its last change. So a symbol has at most one entry per interval in which its row changed, whatever the number of
 * intervals without a change. Its value at a time T is that of its first entry after T, or of its row where there is none. */
#pragma once

#include "sd_handler.h"

/* cffi: begin */
/* A piece of each row that is kept. */
typedef struct sd_history_part {
  uint64_t offset, bytes;
} sd_history_part;

/* One symbol's entries. Only the owner of its strand uses them, and at rest everybody. */
typedef struct sd_history_symbol {
  int64_t first;          /* the time of its first record; INT64_MAX: there was none */
  int64_t due;            /* the first multiple of the interval at or after its last change; INT64_MAX: none comes */
  int64_t failed;         /* the feed's time at the record, or the timer, that its handler failed on; INT64_MAX: none */
  uint64_t run;           /* the run of records in which it was last */
  uint64_t n, capacity;   /* entries */
  unsigned char *entries; /* each: the time of a record or timer, an int64_t, and the parts of the row before it */
} sd_history_symbol;

typedef struct sd_history {
  int64_t every; /* ns from one multiple to the next */
  uint64_t n_symbols, n_parts, entry_bytes;
  sd_history_part *parts;
  sd_history_symbol *symbols;
} sd_history;

/* NULL: there is no memory. */
sd_history *sd_history_create(int64_t every, uint64_t n_symbols, const sd_history_part *parts, uint64_t n_parts);
void sd_history_destroy(sd_history *h);
/* At rest: keeps a symbol's row before somebody changes it at a time, unless no multiple comes. Nonzero: there is no memory. */
int sd_history_keep(sd_history *h, const void *rows, uint64_t row_stride, uint32_t key, int64_t time);

/* A handler, and where the history of its rows goes. */
typedef struct sd_history_params {
  sd_history *history;
  sd_handler_fn fn;
  sd_wake_fn wake;
  sd_finish_fn finish;
  const void *params;
} sd_history_params;

int64_t sd_handle_history(void *rows, const sd_tick *ticks, int64_t n, sd_context *ctx);
int sd_wake_history(void *rows, uint32_t key, int64_t time, sd_context *ctx);
int sd_finish_history(void *rows, uint32_t key, sd_context *ctx);
/* cffi: end */
