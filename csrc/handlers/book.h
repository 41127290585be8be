/* Order-by-order books: every resting order of every symbol, from a feed's ticks.
 *
 *   A          add an order at its price, behind those that are there
 *   C          cancel `size` of it, or with size 0 all that is left (DBN: nothing)
 *   F          execute `size` of it; its price is the order's where the tick has none. In feeds whose fills only report
 *              (rules.fills_report: DBN, where a cancel or a modify follows), the book is left alone
 *   M          with ref_id: the order gives its place to a new one with that id, price and size (ITCH). Without: it has
 *              another price or size, and keeps its place only at the same price with no more size (DBN)
 *              A new order that is unusable, or has the old one's id, still takes the old one off (ITCH)
 *   R          clear the symbol's book; of kind STATUS: a new day, which has no trading state yet either
 *              Of an unknown order it is an add in feeds whose fills only report (DBN)
 *   T          a trade of what was not displayed, or a cross: volume and last price
 *   N          of kind STATUS: the trading state, where it is one of H, P, Q, T
 *
 * Where rules.fills_report is set, the feed is Databento's, and there are more rules (publishers.h):
 *   - each publisher_id has a book. The row shows the best price of all, with the sizes and orders of all at it
 *   - the row's part of the book (prices, sizes, orders, levels) is as the last event left it, whose last record has flag 0x80. A
 *     snapshot, which begins with R, is one event. A new day is shown at once
 *   - flag 0x40: an A or M is all of its side; without a price the side is empty. Its top counts among no orders
 *   - a C of size 0 takes nothing
 *   - `crossed` counts events that left a publisher's own book crossed
 *
 * What counts into volume, trades and last price: handlers/trade.h. A fill of an unknown order that brings no price is counted
 * as unknown alone, a T without a price as unusable.
 * Rules of the exchange: Nasdaq TotalView-ITCH 5.0, sections 1.3 to 1.5; Databento's MBO schema.
 */
#ifndef SD_HANDLERS_BOOK_H
#define SD_HANDLERS_BOOK_H

#include "handlers/trade.h"
#include "sd_handler.h"

/* A symbol's state after its last tick. Prices are SD_UNDEF_PRICE where a side is empty; all 0 before the first tick. What most
 * ticks change comes first: one cache line. */
typedef struct sd_book_row {
  int64_t ticks;
  int64_t last_ts_recv;
  int64_t bid_price, ask_price;
  int64_t bid_size, ask_size;     /* at the best price */
  int32_t bid_orders, ask_orders; /* likewise */
  int32_t orders;                 /* resting */
  uint32_t state;                 /* letter of the trading state; 0: none seen */
  int32_t bid_levels, ask_levels; /* prices with an order */
  int64_t volume;
  int64_t trades;     /* fills and trades that count into volume */
  int64_t last_price; /* of the last of them; 0: none yet */
  int64_t crossed;    /* ticks that left the best bid at or above the best ask */
  int32_t unknown;    /* changes of an order that is not there */
  int32_t duplicates; /* adds of an order that is there already: left out */
  int32_t clipped;    /* fills and cancels of more than was left: all of it went */
  int32_t unusable;   /* adds and changes without a price, a side or a size: left out */
} sd_book_row;

typedef struct sd_books sd_books;

/* What a handler's params hold. */
typedef struct sd_book_params {
  sd_books *books;
  sd_trade_rules rules;
} sd_book_params;

typedef struct sd_book_level {
  int64_t price;
  int64_t size;
  int64_t orders;
} sd_book_level;

typedef struct sd_book_order {
  uint64_t order_id;
  int64_t price;
  int64_t size;
  int64_t ahead_orders; /* before it in its level's queue, ... */
  int64_t ahead_size;   /* ... and how much they are for */
  uint64_t side;        /* 'A' or 'B' */
} sd_book_order;

/* Books of symbols 0 .. n - 1, empty, that count the orders that come from `start` on: tests put it just below where a book
 * begins again. `per_publisher`: for rules.fills_report, each publisher has a book. NULL: no memory, or n is 0. */
sd_books *sd_books_create(uint64_t n, uint32_t start, int per_publisher);
void sd_books_destroy(sd_books *books);

/* Asks for the memory that n ticks will touch: for a chain, which then handles them one by one. */
void sd_ahead_book(void *rows, const sd_tick *ticks, int64_t n, const sd_context *ctx);
int64_t sd_handle_book(void *rows, const sd_tick *ticks, int64_t n, sd_context *ctx);

/* Questions, to be asked while nobody drains the symbol's strand. `side` is 'A' or 'B', `place` that of a publisher among the
 * symbol's, 0 where there are none. They show a book as the last tick left it, also in the middle of an event. */

enum { SD_MOST_PUBLISHERS = 64 };

typedef struct sd_book_counts {
  uint32_t asks, bids; /* levels */
  uint32_t orders;
} sd_book_counts;

/* Writes the ids of a symbol's publishers, SD_MOST_PUBLISHERS at most, in the order they came in; returns how many there are. */
uint64_t sd_books_publishers(const sd_books *books, uint64_t symbol, uint16_t *ids);
sd_book_counts sd_books_counts(const sd_books *books, uint64_t symbol, uint64_t place);

/* The best n levels, best first; returns how many there are of them. */
uint64_t sd_books_levels(const sd_books *books, uint64_t symbol, uint64_t place, int side, sd_book_level *levels,
                         uint64_t n);
/* All orders of a side, best level first and oldest first within it; returns how many there are. Are they more than n, then
 * what was written means nothing. */
uint64_t sd_books_orders(const sd_books *books, uint64_t symbol, uint64_t place, int side, sd_book_order *orders,
                         uint64_t n);
/* Zero: there is no such order. */
int sd_books_order(const sd_books *books, uint64_t symbol, uint64_t place, uint64_t order_id, sd_book_order *order);
/* What a fill of an order meets: before its tick is handled, by who handles it. */
sd_resting sd_books_resting(const sd_books *books, uint64_t symbol, uint64_t order_id);
/* Orders resting in all books, and the memory they take with all that is kept for them. */
uint64_t sd_books_live(const sd_books *books);
uint64_t sd_books_bytes(const sd_books *books);
/* Of it, what orders and their indexes take. */
uint64_t sd_books_order_bytes(const sd_books *books);

#endif
