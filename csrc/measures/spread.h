/* Spreads: quoted, weighted by time, and effective.
 *
 *   quoted     sum of (ask - bid) dt / sum of dt, over feed time in which both sides exist and bid < ask
 *   relative   the same for (ask - bid) / mid, where mid = (bid + ask) / 2, over the part of this time in which mid > 0
 *   effective  2 |price - mid|, with the mid before the trade; its mean, plain and weighted by size
 *
 * Definitions as in C. Holden and S. Jacobsen, Liquidity measurement problems in fast, competitive markets, J. of Finance 69 (2014),
 * section 2. Sums are exact integers, except `relative`, which is added in the order of ticks. Time counts up to the symbol's last trade
 * or quote, and only in sessions. A trade without a sound quote before it has no effective spread.
 *
 * With `every`, the spreads of each interval with a trade or a change of the top are emitted when the interval ends, including the time
 * of the top that stood at its start. With `fill`, an interval in which a sound top stood unchanged is emitted too: by a timer in the
 * session of the symbol's last event, otherwise at its next event of the same day. No time passes before the first time above 0. */
#pragma once

#include "measures/interval.h"

/* Figures of a stretch of time, in currency units. */
typedef struct sd_spreads {
  int64_t quoted_ns; /* time that counts */
  double quoted;
  int64_t relative_ns;   /* time in which the mid was above 0 as well */
  double relative;       /* share of the mid */
  int64_t trades;        /* those that have an effective spread */
  int64_t volume;        /* of these */
  int64_t unmatched;     /* trades in sessions that have no effective spread */
  double effective;      /* weighted by size */
  double effective_mean; /* plain */
} sd_spreads;

typedef struct sd_spread_totals {
  sd_spreads of;
  /* sums: high x 2^64 + low */
  uint64_t quoted_low;
  int64_t quoted_high; /* 1e-9 x ns */
  double relative_sum; /* relative spread x ns */
  uint64_t effective_low;
  int64_t effective_high; /* 1e-9 x size */
  uint64_t mean_low;
  int64_t mean_high; /* 1e-9 */
} sd_spread_totals;

/* The emitted record. A figure is not a number if it has no time, or no trade, to be divided by. */
typedef struct sd_spread {
  int64_t start, end; /* ns, end not in it */
  sd_spreads of;
  sd_top top;     /* at the end */
  uint64_t flags; /* SD_INTERVAL_PARTIAL */
} sd_spread;

typedef struct sd_spread_row {
  sd_top top; /* prevailing; all 0 before the first quote */
  int64_t last_time;
  int64_t quotes;    /* those that changed the top */
  int64_t locked;    /* how many of them left the bid at or above the ask */
  int64_t one_sided; /* how many of them left a side empty */
  int64_t unusable;  /* how many of them left a sound top whose mid is at or below 0 */
  int64_t outside;   /* trades outside of sessions: left out */
  sd_spread_totals all;
  sd_stretch stretch;
  /* only with `every` */
  sd_interval interval;
  int64_t accounted;  /* the moment up to which time has been accounted to intervals; 0: none */
  int64_t events;     /* in it: trades and changes of the top */
  int64_t empty_left; /* how many without any may follow; 0: none is emitted */
  sd_spread_totals its;
} sd_spread_row;

/* cffi: begin */
/* Emits sd_spread to output 0. Its params are sd_measure_params. */
int64_t sd_handle_spread(void *rows, const sd_tick *ticks, int64_t n, sd_context *ctx);
int sd_wake_spread(void *rows, uint32_t key, int64_t time, sd_context *ctx);
int sd_finish_spread(void *rows, uint32_t key, sd_context *ctx);
/* cffi: end */
