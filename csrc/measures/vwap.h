/* Volume-weighted average price: sum of price x size / sum of size, over trades that have a price (books/trade.h).
 *
 * Sums are doubles, added in publish order, so they do not depend on the number of workers.
 *
 * For intervals and sessions there is a second handler, whose row begins with the same fields. It emits the sums of each interval with a
 * trade when the interval ends. */
#pragma once

#include "measures/interval.h"

typedef struct sd_vwap_row {
  int64_t trades;
  int64_t volume;
  double notional;  /* price in currency units x size */
  double vwap;      /* currency units; 0 before the first trade */
  int64_t unpriced; /* trades without a price: left out */
} sd_vwap_row;

/* cffi: begin */
/* Its params are an sd_source. */
int64_t sd_handle_vwap(void *rows, const sd_tick *ticks, int64_t n, sd_context *ctx);
/* cffi: end */

/* Emitted. */
typedef struct sd_vwap {
  int64_t start, end; /* ns, end not in it */
  sd_vwap_row of;
  uint64_t flags; /* SD_INTERVAL_PARTIAL */
} sd_vwap;

typedef struct sd_vwap_every_row {
  sd_vwap_row all;
  sd_stretch stretch;
  sd_interval interval;
  sd_vwap_row its;
  int64_t now;     /* the latest time so far, of trades and timers */
  int64_t outside; /* trades outside of sessions: left out */
} sd_vwap_every_row;

/* cffi: begin */
/* Emits sd_vwap to output 0. Its params are sd_measure_params. */
int64_t sd_handle_vwap_every(void *rows, const sd_tick *ticks, int64_t n, sd_context *ctx);
int sd_wake_vwap_every(void *rows, uint32_t key, int64_t time, sd_context *ctx);
int sd_finish_vwap_every(void *rows, uint32_t key, sd_context *ctx);
/* cffi: end */
