/* Bars of trades: open, high, low, close, volume, notional, average price and count of a stretch of a symbol's trades.
 *
 *   time      a bar for each step of feed time (ts_recv), aligned to the session's start, or else to the UNIX epoch
 *   ticks     closes with its n-th trade
 *   volume    closes with the trade that brings its volume to n or more; a trade is never split
 *   notional  likewise, for price x size ("dollar bars")
 *
 * Kinds of bars: M. Lopez de Prado, Advances in Financial Machine Learning (2018), 2.3.1. What a trade is: measures/tape.h. All sums are
 * integers and exact; the average price is notional / volume, rounded to the nearest 1e-9, halves up.
 *
 * Bars of quotes are made of the changes that measures/bbo.h emits: of the bid, the ask, or the mid (bid + ask) / 2 after each. A mid is
 * exact: a price in 1e-9, rounded down, and a flag that says whether half of 1e-9 more belongs to it.
 *
 * Bars of imbalance close once |theta| >= a threshold, where theta is the sum of b_t v_t over the bar's trades: b_t is 1 for a buyer's trade
 * and -1 for a seller's, v_t is 1, its size, or price x size. The threshold is fixed, or E[T] |E[b v]| by exponentially weighted means of
 * the numbers of trades of full bars before, and of b_t v_t of all trades before the bar. The same book, 2.3.2.1 and 2.3.2.2.
 *
 * A time bar [start, end) holds the trades with start <= ts_recv < end. A trade that comes after its bar was closed (receive times that
 * run backwards) goes into the bar under way, and counts as late. Bars close by the symbol's timer. With `fill`, bars without a trade
 * close by timer only in the session of the last trade, and otherwise at the next trade of the same day. */
#pragma once

#include "measures/interval.h"

enum { SD_BARS_TIME = 0, SD_BARS_TICKS = 1, SD_BARS_VOLUME = 2, SD_BARS_NOTIONAL = 3 };

/* What a bar's flags say. */
enum {
  SD_BAR_PARTIAL = 1,  /* the run ended before the bar did */
  SD_BAR_EMPTY = 2,    /* no trade: all prices are the last close */
  SD_BAR_CUT = 4,      /* its session ended before the bar was full */
  SD_BAR_OUTSIDE = 8,  /* outside of sessions */
  SD_BAR_AUCTION = 16, /* of crosses after a session */
  /* of quotes: to this price belongs half of 1e-9 more */
  SD_BAR_HALF_OPEN = 32,
  SD_BAR_HALF_HIGH = 64,
  SD_BAR_HALF_LOW = 128,
  SD_BAR_HALF_CLOSE = 256,
  SD_BAR_HALVES = 480,
  SD_BAR_BOUNDED = 512 /* of imbalance: closed by the greatest number of trades */
};
/* The price that bars of quotes are made of; 0: they are made of trades. */
enum { SD_BARS_BID = 1, SD_BARS_ASK = 2, SD_BARS_MID = 3 };
/* What signs the trades of bars of imbalance; 0: they have no signs. */
enum { SD_BARS_TICK_RULE = 1, SD_BARS_AGGRESSOR = 2 };

/* A bar as it is emitted. Prices in 1e-9; `vwap` is SD_UNDEF_PRICE where the volume is 0. */
typedef struct sd_bar {
  int64_t start, end; /* ns; of a time bar its span, of others the times of the first and the last trade */
  int64_t open, high, low, close;
  int64_t vwap;
  int64_t volume;
  double notional; /* price x size in units of currency: the exact sum, rounded once */
  int32_t trades;
  uint32_t flags; /* SD_BAR_* */
} sd_bar;

/* A symbol's state: the bar under way, and the last one that closed. */
typedef struct sd_bars_row {
  int64_t end;   /* when the bar under way ends at the latest; 0: there is none; INT64_MAX: never */
  int64_t start; /* when that bar starts; if there is no bar, when sessions go on, or 0 */
  int64_t high, low, close;
  int64_t volume;
  uint64_t notional_low;
  int64_t trades;
  /* only some ticks touch what follows */
  int64_t open;
  int64_t notional_high; /* notional, in 1e-9, is notional_high x 2^64 + notional_low */
  int64_t last_time;     /* of the last trade; if no bar is under way, the moment up to which all are closed */
  sd_stretch stretch;    /* the session that it is in, or the stretch between two */
  int64_t empty_left;    /* how many bars without a trade may follow; 0: none is emitted */
  int64_t bars;          /* closed so far */
  int64_t outside;       /* trades outside of sessions: left out */
  int64_t late;          /* trades that came after their bar was closed: in the next one */
  int64_t unpriced;      /* trades without a price: left out */
  sd_bar last;           /* all 0 before the first */
} sd_bars_row;

/* A bar of quotes as it is emitted. Its close is SD_UNDEF_PRICE if its last change left a side empty that the price needs. */
typedef struct sd_quote_bar {
  int64_t start, end;
  int64_t open, high, low, close;
  int32_t changes; /* of the top, each of which left a price */
  uint32_t flags;  /* SD_BAR_* */
} sd_quote_bar;

/* In `of`, trades are changes of the top that left a price, and `unpriced` counts those that left none. */
typedef struct sd_quote_bars_row {
  sd_bars_row of;
  sd_top top;
  int64_t quotes;  /* changes of the top */
  int64_t halved;  /* how many of them left a mid between two units */
  uint64_t halves; /* SD_BAR_HALF_* of the bar under way */
} sd_quote_bars_row;

/* A bar of imbalance as it is emitted. */
typedef struct sd_imbalance_bar {
  sd_bar bar;
  union {
    int64_t number; /* of trades, or of volume */
    double notional;
  } imbalance;
  double threshold; /* as the imbalance; not a number: a first bar, before anything is expected */
} sd_imbalance_bar;

/* An exponentially weighted mean sum / weight, where the value v times ago has the weight keep^v. */
typedef struct sd_weighted {
  double sum, weight;
} sd_weighted;

typedef struct sd_imbalance_bars_row {
  sd_bars_row of;
  uint64_t imbalance_low; /* of the bar under way: number, volume or notional in 1e-9, each trade's with its sign */
  int64_t imbalance_high;
  double limit;      /* that closes it, likewise */
  double threshold;  /* the same as it is emitted */
  sd_weighted ticks; /* trades of full bars */
  sd_weighted value; /* of a trade, with its sign, up to the latest */
  int64_t price;     /* of the last trade of the day */
  int64_t priced;    /* there is one */
  int64_t direction; /* of the last change of price of the day: 1, -1; 0: there was none */
  int64_t by_rule;   /* trades that the tick rule signed */
  int64_t unsigned_; /* trades that nothing signed: their sign is 0 */
  int64_t bounded;   /* bars that the greatest number of trades closed */
} sd_imbalance_bars_row;

typedef struct sd_bars_params {
  sd_source source;
  uint32_t kind;        /* SD_BARS_TIME to SD_BARS_NOTIONAL */
  uint32_t quotes;      /* SD_BARS_BID to SD_BARS_MID; 0: bars of trades */
  uint32_t fill;        /* once there was a trade at a time above 0, time bars without one are emitted too */
  uint32_t outside;     /* trades outside of sessions make bars of their own */
  uint32_t partial;     /* the bar under way is emitted at the end */
  uint32_t zero_sizes;  /* prices of trades of size 0 count: for feeds of ready-made bars */
  int64_t step;         /* ns, trades or volume */
  uint64_t minimum_low; /* notional, in 1e-9, as in a row */
  int64_t minimum_high;
  /* of bars of imbalance */
  uint32_t signs;     /* SD_BARS_TICK_RULE or SD_BARS_AGGRESSOR; 0: bars of no imbalance */
  uint32_t expects;   /* the threshold is expected; else it is `step`, or `minimum` of notional */
  int64_t first;      /* trades of a first bar, before anything is expected */
  int64_t least;      /* trades that a bar has at least */
  int64_t most;       /* and at most; 0: without a bound */
  double keeps_bars;  /* the weight of a bar's number of trades, at the next bar */
  double keeps_ticks; /* of a trade's value, at the next trade */
  sd_calendar calendar;
} sd_bars_params;

/* cffi: begin */
/* Emits sd_bar to output 0; bars of quotes sd_quote_bar, and those of imbalance sd_imbalance_bar. */
int64_t sd_handle_bars(void *rows, const sd_tick *ticks, int64_t n, sd_context *ctx);
int sd_wake_bars(void *rows, uint32_t key, int64_t time, sd_context *ctx);
int sd_finish_bars(void *rows, uint32_t key, sd_context *ctx);
/* cffi: end */
