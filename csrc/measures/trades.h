/* Trades (books/trade.h): each one that has a price is emitted, and a row counts them. */
#pragma once

#include "measures/tape.h"

/* The emitted record, except `unused`. */
typedef struct sd_trade_emitted {
  int64_t ts_event; /* of its tick */
  int64_t price, size;
  uint64_t order_id; /* the resting order; 0: none is known */
  uint64_t match_id; /* 0: the feed has none */
  char aggressor;    /* A seller, B buyer, N nobody can tell */
  uint8_t hidden, cross;
  uint8_t unused[5];
} sd_trade_emitted;

typedef struct sd_trades_row {
  int64_t trades;
  int64_t volume;
  int64_t last_price; /* of the last trade; 0 before the first */
  int64_t last_size;
  int64_t unpriced; /* trades without a price: in no other field, and not emitted */
} sd_trades_row;

/* cffi: begin */
/* Emits sd_trade_emitted to output 0. Its params are an sd_source. */
int64_t sd_handle_trades(void *rows, const sd_tick *ticks, int64_t n, sd_context *ctx);
/* cffi: end */
