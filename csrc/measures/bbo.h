/* Changes of the best bid and ask: each one is emitted, and a row has the last one.
 *
 * A change is a different price or size of either side. A top that stays the same is no change, and neither is a symbol's first top if it
 * is empty. A clear empties the top, which is a change. */
#pragma once

#include "measures/tape.h"

/* Emitted. */
typedef struct sd_bbo {
  int64_t ts_event; /* of the tick that changed it */
  sd_top top;
} sd_bbo;

typedef struct sd_bbo_row {
  sd_top top; /* all 0 before the first change */
  int64_t changes;
  int64_t one_sided; /* how many of them left a side empty, or both */
  int64_t locked;    /* how many of them left the bid at or above the ask */
} sd_bbo_row;

/* cffi: begin */
/* Emits sd_bbo to output 0. Its params are an sd_source. */
int64_t sd_handle_bbo(void *rows, const sd_tick *ticks, int64_t n, sd_context *ctx);
/* cffi: end */
