/* Statistics of a symbol's trades: sizes, prices, direction, and the time between them.
 *
 *   size_mean, size_variance   Welford's recurrence; the variance is that of a sample (n - 1). B. Welford, Note on a method for
 *                              calculating corrected sums of squares and products, Technometrics 4 (1962)
 *   signed volume              buyers' minus sellers'; one of these two finds the aggressor:
 *     tick        the tick rule: a buyer's above the last different price, a seller's below it; before any, neither's
 *                 (C. Lee, M. Ready, Inferring trade direction from intraday data, J. of Finance 46 (1991))
 *     aggressor   the trade's aggressor (books/trade.h)
 *   interarrival_ns            (last time - first time) / (trades - 1)
 *
 * With `every`, the figures of each interval with a trade are emitted when it ends; the tick rule looks back beyond its start. */
#pragma once

#include "measures/interval.h"

/* The way of its params. */
enum { SD_SIGN_TICK = 0, SD_SIGN_AGGRESSOR = 1 };

/* Of some trades. All 0 before the first. */
typedef struct sd_trade_figures {
  int64_t trades; /* in sessions, with a price */
  int64_t volume;
  double notional; /* currency units: the exact sum, rounded once */
  double size_mean, size_variance;
  int64_t size_min, size_max;
  int64_t price_min, price_max, price_first, price_last;
  int64_t signed_volume;
  int64_t buys, sells; /* trades */
  int64_t first_time, last_time;
  double interarrival_ns;
  int64_t unpriced; /* trades in sessions without a price: left out */
} sd_trade_figures;

typedef struct sd_trade_totals {
  sd_trade_figures of;
  /* what the figures are made of */
  double size_squares; /* sum of squared deviations from the mean */
  uint64_t notional_low;
  int64_t notional_high;
} sd_trade_totals;

/* Emitted. */
typedef struct sd_trade_stats {
  int64_t start, end; /* ns, end not in it */
  sd_trade_figures of;
  uint64_t flags; /* SD_INTERVAL_PARTIAL */
} sd_trade_stats;

typedef struct sd_trade_stats_row {
  sd_trade_totals all;
  int64_t direction; /* of the last change of price: 1, -1; 0 before the first of a day */
  int64_t new_day;   /* no trade yet since a new day began */
  int64_t outside;   /* trades outside of sessions: left out */
  sd_stretch stretch;
  /* only with `every` */
  sd_interval interval;
  sd_trade_totals its;
  int64_t now; /* the latest time so far, of trades and timers */
} sd_trade_stats_row;

/* cffi: begin */
/* Emits sd_trade_stats to output 0. Its params are sd_measure_params. */
int64_t sd_handle_trade_stats(void *rows, const sd_tick *ticks, int64_t n, sd_context *ctx);
int sd_wake_trade_stats(void *rows, uint32_t key, int64_t time, sd_context *ctx);
int sd_finish_trade_stats(void *rows, uint32_t key, sd_context *ctx);
/* cffi: end */
