/* Books of price levels, from a feed's updates and views of them: no orders.
 *
 * A tick of kind QUOTE speaks of levels:
 *   side A or B, action M or A    the size at a price is now this; 0 takes the price away. M with the feed's flag `best`:
 *                                 it is the best price of its side, better ones go
 *                action C         the price goes
 *                action R         all prices from the best one to this one go; without a price all of the side
 *                any other        a view of one side: it holds this price alone; the other side stays
 *   side N                        a view of both sides, the ask's price and size in order_id and ref_id, one tick per level:
 *                                 `depth` 0 begins a new view, further levels add to it
 * The feed's flag `snapshot` of sides A and B: part of a snapshot. The first such tick of an event clears the book; in a feed without ends
 * of events, the first one after a tick that was not.
 *
 * If the feed has the flag `last`, its levels change when their event ends: at the first tick with the flag, of any kind but STATUS. Until
 * then the row and all questions have the book as the event before left it. A new day, the end of the run, and SD_DEPTH_WAITING ticks end
 * an event too, which is counted. If it has no such flag, each tick is an event.
 *
 * Trades (trade.h) count into volume and last price. A new day (sd_is_day) clears the book. All other ticks are ignored.
 */
#pragma once

#include "books/trade.h"
#include "memory/space.h"
#include "sd_handler.h"

/* The most ticks of an event that wait for its end. */
enum { SD_DEPTH_WAITING = 1 << 20 };

/* A symbol's state after its last tick, followed by bid prices, bid sizes, ask prices and ask sizes of the best `top` levels.
 * Prices are SD_UNDEF_PRICE where there is no level; all 0 before the first tick. */
typedef struct sd_depth_row {
  int64_t ticks;
  int64_t last_ts_recv;
  int64_t bid_price, ask_price;
  int64_t bid_size, ask_size;
  int32_t bid_levels, ask_levels;
  int64_t volume;
  int64_t trades;
  int64_t last_price;  /* of the last trade; 0: none yet */
  int64_t crossed;     /* events that left the best bid at or above the best ask */
  int32_t snapshots;   /* that cleared the book, and views that began */
  int32_t absent;      /* prices that were to be removed and did not exist */
  int32_t beyond;      /* levels left out, or removed, because a side was at its bound */
  int32_t unusable;    /* updates without a price, with a size below 0, or with an invalid side */
  int64_t passed_over; /* ticks that concern neither levels nor trades, and trades that do not count (trade.h) */
  int64_t unpriced;    /* trades without a price, which are in no other count */
  int64_t unended;     /* events whose end never came */
  int64_t top[];
} sd_depth_row;

/* cffi: begin */
typedef struct sd_depths sd_depths;

/* What a handler's params hold. */
typedef struct sd_depth_params {
  sd_depths *depths;
  struct sd_space *space; /* in which they lie */
  uint32_t top;           /* levels of each side in a row */
  uint32_t max_levels;    /* that a side keeps */
  sd_trade_rules rules;
  uint32_t emits; /* each change of the levels in a row goes to output 0: the tick's ts_event, and the levels */
} sd_depth_params;

typedef struct sd_depth_level {
  int64_t price;
  int64_t size;
} sd_depth_level;

/* Books of symbols 0 .. n - 1, empty. NULL: no memory, or n is 0. */
sd_depths *sd_depths_create(struct sd_space *space, uint64_t n);

int64_t sd_handle_depth(void *rows, const sd_tick *ticks, int64_t n, sd_context *ctx);
/* Asks for the memory that ticks will touch (sd_ahead_fn). */
void sd_ahead_depth(void *rows, const sd_tick *ticks, int64_t n, const sd_context *ctx);
int sd_finish_depth(void *rows, uint32_t key, sd_context *ctx);

/* Writes the best n levels of side 'A' or 'B', best first; returns how many. To be called while nobody drains the symbol's strand. */
uint64_t sd_depths_levels(const sd_depths *depths, uint64_t symbol, int side, sd_depth_level *levels, uint64_t n);
/* Nonzero: the symbol has an event that has not ended. */
int sd_depths_wait(const sd_depths *depths, uint64_t symbol);
/* Memory of all books. */
uint64_t sd_depths_bytes(const sd_depths *depths);
/* cffi: end */
