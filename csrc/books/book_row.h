/* What the files of the books share: a symbol's row, the parameters, and the records that answer questions. */
#pragma once

#include "books/trade.h"
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

/* cffi: begin */
typedef struct sd_books sd_books;

/* What a handler's params hold. */
typedef struct sd_book_params {
  sd_books *books;
  struct sd_space *space; /* in which they lie */
  sd_trade_rules rules;
  uint32_t emits; /* each change of the levels that a row shows goes to output 0 */
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
  int64_t ahead_orders; /* the orders before it in its level's queue */
  int64_t ahead_size;   /* and their size */
  uint64_t side;        /* 'A' or 'B' */
} sd_book_order;

enum { SD_MAX_PUBLISHERS = 64 };
/* cffi: end */
