/* What a trade is, for every handler that counts, measures or shows trades, so that all of them count the same volume of a day.
 *
 * A tick is a trade if four things hold. Its action is T, or F in feeds whose fills reduce their orders. It is no quote, which may keep the
 * action of the record that it came with. No flag excludes it (ITCH's not printable, which a cross reports again; TAQ's cancelled;
 * crosses, if the handler's options say so). And it has a size above 0; where a feed has no sizes, its trades have the size 0.
 *
 *   price      the tick's own; for a fill without one, that of its order, as the book knows it. SD_UNDEF_PRICE: no price is known
 *              (a fill of an order that the book does not have). Handlers count such a trade separately, and in no volume
 *   aggressor  for a fill, the side opposite to its order; for a T, the tick's side. In feeds of single orders a T is an execution
 *              of a hidden order, and its side means nothing (ITCH's P has been B for both sides since 2014). Then the quote before
 *              it decides: a buyer at the ask or above, a seller at the bid or below, unknown between them. A cross has none
 *
 * FeedInfo.ticks and FeedInfo.flags (feeds/base.py) say which of these a feed has. A trade that is broken later (ITCH's B) stays counted: its tick
 * names a match number and neither a price nor a size.
 */
#pragma once

#include <stdint.h>

#include "sd_tick.h"

/* cffi: begin */
/* Which bits of a tick's `flags` mean what in a feed, as masks; 0: it has no such flag (strand/ticks.py, Flags). */
typedef struct sd_flags {
  uint8_t unprinted; /* of a trade: it does not count */
  uint8_t cross;     /* of a trade: an auction's */
  uint8_t best;      /* of a changed level (M): the best price of its side */
  uint8_t snapshot;  /* of a level or an order: part of a snapshot */
  uint8_t last;      /* the venue's message ends with it. 0: an event ends with each tick */
  uint8_t top;       /* of an order: all of its side */
  uint8_t unused[2];
} sd_flags;

/* The most levels of each side that a row shows. */
enum { SD_TOP_MAX = 64 };

/* What trades are in a feed, and which of them count. */
typedef struct sd_trade_rules {
  uint8_t fills_report; /* fills only report what a trade has said; books are Databento's (publishers.h) */
  uint8_t hidden;       /* a T is an execution of what was hidden, or a cross; its side says nothing */
  uint8_t resting;      /* the side of a T is the resting order's */
  uint8_t left_out;     /* flags of what does not count */
  uint8_t sizeless;     /* trades have no sizes: those of size 0 count */
  uint8_t at_end;       /* 1: a tick's time is the end of the bar that it is of, which it belongs to (tape.h); else 0 */
  uint8_t unused[2];
  sd_flags flags;
} sd_trade_rules;
/* cffi: end */

typedef struct sd_trade {
  int64_t price; /* 1e-9; SD_UNDEF_PRICE: not known */
  int64_t size;  /* -1: no trade */
  uint64_t order_id, match_id;
  char aggressor; /* A seller, B buyer, N nobody can tell */
  uint8_t hidden, cross;
} sd_trade;

/* The order that a fill is of. */
typedef struct sd_resting {
  int64_t price; /* SD_UNDEF_PRICE: there is no such order */
  char side;
} sd_resting;

/* The best of both sides; a price of SD_UNDEF_PRICE means that the side is empty. */
typedef struct sd_top {
  int64_t bid, ask;
  int64_t bid_size, ask_size;
} sd_top;

static inline int sd_is_trade(const sd_tick *t, const sd_trade_rules *rules) {
  return (t->action == 'T' || (t->action == 'F' && !rules->fills_report)) && t->kind != SD_KIND_QUOTE &&
         !(t->flags & rules->left_out) && (t->size > 0 || (t->size == 0 && rules->sizeless));
}

static inline int64_t sd_price_or_none(int64_t price) { return price == INT64_MIN ? SD_UNDEF_PRICE : price; }

/* The price of a trade that met an order of price `resting`. */
static inline int64_t sd_trade_price(const sd_tick *t, int64_t resting) {
  const int64_t own = sd_price_or_none(t->price);
  return own == SD_UNDEF_PRICE && t->action == 'F' ? resting : own;
}

/* The trade that a tick is. `met`: the order that the fill is of; `before`: the quote before it. */
static inline sd_trade sd_trade_of(const sd_tick *t, const sd_trade_rules *rules, sd_resting met,
                                   const sd_top *before) {
  sd_trade trade = {.price = SD_UNDEF_PRICE, .size = -1, .aggressor = 'N'};
  if (!sd_is_trade(t, rules)) return trade;
  const int is_fill = t->action == 'F';
  trade.price = sd_trade_price(t, met.price);
  trade.size = t->size;
  trade.order_id = t->order_id;
  trade.match_id = t->ref_id;
  trade.cross = (t->flags & rules->flags.cross) != 0;
  trade.hidden = !is_fill && rules->hidden && !trade.cross;
  if (trade.cross) return trade;
  const char side = is_fill && met.price != SD_UNDEF_PRICE ? met.side : t->side;
  if (is_fill || rules->resting) trade.aggressor = side == 'A' ? 'B' : side == 'B' ? 'A' : 'N';
  else if (!rules->hidden) trade.aggressor = side == 'A' || side == 'B' ? side : 'N';
  if (trade.aggressor != 'N' || !trade.hidden || trade.price == SD_UNDEF_PRICE) return trade;
  if (before->ask != SD_UNDEF_PRICE && trade.price >= before->ask) trade.aggressor = 'B';
  else if (before->bid != SD_UNDEF_PRICE && trade.price <= before->bid) trade.aggressor = 'A';
  return trade;
}
