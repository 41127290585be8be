/* Several handlers, one after the other on each record: the later ones see what the earlier ones made of it. */
#ifndef SD_HANDLERS_CHAIN_H
#define SD_HANDLERS_CHAIN_H

#include "sd_dispatcher.h"
#include "sd_handler.h"

enum { SD_CHAIN_MOST = 16 };

typedef struct sd_chain_part {
  sd_handler_fn fn;
  const void *params;
  uint64_t row_offset;              /* of its row in the chain's */
  uint32_t first_output, n_outputs; /* its own ones of the chain's */
} sd_chain_part;

typedef struct sd_chain {
  uint64_t n;
  sd_chain_part part[SD_CHAIN_MOST];
} sd_chain;

/* A record that a part fails on has been handled by those before it. */
int64_t sd_handle_chain(void *rows, const sd_tick *ticks, int64_t n, sd_context *ctx);

/* For a Python handler at a chain's end: runs a native one over records of a strand that slot `slot` holds, one by one, and
 * copies the first `width` bytes of the row after each to `after`. Returns how many it handled; short of n, failure says
 * why it failed on the next one. */
int64_t sd_chain_track(sd_dispatcher *d, uint32_t slot, const sd_handler *handler, const void *records, int64_t n,
                       uint64_t width, void *after, sd_failure *failure);

#endif
