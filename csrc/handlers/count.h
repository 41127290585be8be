/* Plain counts per symbol: what arrived, when, and the sum of what was traded. */
#pragma once

#include "sd_handler.h"

/* cffi: begin */
typedef struct sd_count_row {
  int64_t ticks;
  int64_t trades;        /* ticks of kind trade */
  int64_t volume;        /* size summed over trades */
  int64_t last_price;    /* of the last trade; 0 before the first */
  int64_t first_ts_recv; /* of the first tick; 0 before it */
  int64_t last_ts_recv;
  int64_t last_sequence;
} sd_count_row;

int64_t sd_handle_count(void *rows, const sd_tick *ticks, int64_t n, sd_context *ctx);
/* cffi: end */
