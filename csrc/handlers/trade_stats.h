/* Statistics of a symbol's trades: sizes, prices, direction, and the time between them.
 *
 *   size_mean, size_variance   Welford's recurrence; the variance is that of a sample (n - 1). B. Welford, Note on a method for
 *                              calculating corrected sums of squares and products, Technometrics 4 (1962)
 *   signed volume              buyers' minus sellers'; who was the aggressor is told by one of
 *     tick        the tick rule: a buyer's above the last different price, a seller's below it; before any, neither's
 *                 (C. Lee, M. Ready, Inferring trade direction from intraday data, J. of Finance 46 (1991))
 *     aggressor   the trade's side (DBN, Tardis, Binance)
 *     resting     the other of the trade's side (ITCH, LOBSTER)
 *     book        with books: a trade at the ask or above is a buyer's, at the bid or below a seller's
 *   interarrival_ns            (last time - first time) / (trades - 1)
 */
#ifndef SD_HANDLERS_TRADE_STATS_H
#define SD_HANDLERS_TRADE_STATS_H

#include "handlers/calendar.h"
#include "handlers/tape.h"

enum { SD_SIGN_TICK = 0, SD_SIGN_SIDE = 1, SD_SIGN_OTHER_SIDE = 2 };

typedef struct sd_trade_stats_row {
  uint64_t trades; /* in sessions, with a price */
  uint64_t volume;
  double notional; /* currency units: the exact sum, rounded once */
  double size_mean, size_variance;
  uint64_t size_min, size_max;
  int64_t price_min, price_max, price_first, price_last;
  int64_t signed_volume;
  uint64_t buys, sells; /* trades */
  uint64_t first_time, last_time;
  double interarrival_ns;
  uint64_t unpriced; /* trades in sessions without a price: left out */
  /* what the above is made of */
  double size_squares; /* sum of squared deviations from the mean */
  uint64_t notional_low;
  int64_t notional_high;
  int64_t direction; /* of the last change of price: 1, -1; 0 before the first */
  sd_stretch stretch;
} sd_trade_stats_row;

typedef struct sd_trade_stats_params {
  sd_source source;
  uint64_t sign; /* SD_SIGN_* */
  sd_calendar calendar;
} sd_trade_stats_params;

int64_t sd_handle_trade_stats(void *rows, const sd_tick *ticks, int64_t n, sd_context *ctx);

#endif
