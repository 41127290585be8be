/* Spreads: quoted, weighted by time, and effective.
 *
 *   quoted     sum of (ask - bid) dt / sum of dt, over feed time in which both sides are there and bid < ask
 *   relative   the same of (ask - bid) / mid, where mid = (bid + ask) / 2
 *   effective  2 |price - mid|, mid being the one before the trade; its mean, plain and weighted by size
 *
 * Definitions as in C. Holden and S. Jacobsen, Liquidity measurement problems in fast, competitive markets, J. of Finance 69
 * (2014), section 2. Sums are exact integers but for `relative`, which is added in the order of ticks. Time up to the symbol's
 * last trade or quote counts, and only what is in sessions; a trade without a sound quote before it has no effective spread.
 */
#ifndef SD_HANDLERS_SPREAD_H
#define SD_HANDLERS_SPREAD_H

#include "handlers/calendar.h"
#include "handlers/tape.h"

typedef struct sd_spread_row {
  sd_top top; /* prevailing; all 0 before the first quote */
  uint64_t last_time;
  uint64_t quotes;       /* that changed the top */
  uint64_t locked;       /* of them, those that left the bid at or above the ask */
  uint64_t one_sided;    /* of them, those that left a side empty */
  uint64_t quoted_ns;    /* time that counts */
  double quoted;         /* currency units; likewise below */
  double relative;       /* share of the mid */
  uint64_t trades;       /* that have an effective spread */
  uint64_t volume;       /* of these */
  uint64_t unmatched;    /* trades in sessions that have none */
  double effective;      /* weighted by size */
  double effective_mean; /* plain */
  /* sums: high x 2^64 + low */
  uint64_t quoted_low;
  int64_t quoted_high; /* 1e-9 x ns */
  double relative_sum; /* ns */
  uint64_t effective_low;
  int64_t effective_high; /* 1e-9 x size */
  uint64_t mean_low;
  int64_t mean_high; /* 1e-9 */
  sd_stretch stretch;
} sd_spread_row;

typedef struct sd_spread_params {
  sd_source source;
  sd_calendar calendar;
} sd_spread_params;

/* The arithmetic, for who has trades and tops from elsewhere. Quote: the sides that e speaks of. */
void sd_spread_trade(sd_spread_row *row, const sd_calendar *c, const sd_event *e);
void sd_spread_quote(sd_spread_row *row, const sd_calendar *c, const sd_event *e);

int64_t sd_handle_spread(void *rows, const sd_tick *ticks, int64_t n, sd_context *ctx);

#endif
