/* Trades for a user's handler: it is called with an sd_traded for each tick that is a trade with a price (books/trade.h), and with no
 * other tick. Trades without a price are counted. */
#pragma once

#include "measures/tape.h"

/* cffi: begin */
/* A handler that takes trades, and where they come from. */
typedef struct sd_traded_params {
  sd_source source;
  int64_t *unpriced; /* by symbol: trades without a price. Only the owner of the symbol's strand uses it */
  sd_handler_fn fn;  /* its ticks are sd_traded */
  sd_wake_fn wake;
  sd_finish_fn finish;
  const void *params;
} sd_traded_params;

int64_t sd_handle_traded(void *rows, const sd_tick *ticks, int64_t n, sd_context *ctx);
int sd_wake_traded(void *rows, uint32_t key, int64_t time, sd_context *ctx);
int sd_finish_traded(void *rows, uint32_t key, sd_context *ctx);

/* For Python's handlers: sets the trade of each tick; its size is -1 if no handler is called with it. Returns n, or the index of a tick on
 * which its book failed: then ctx says why. */
int64_t sd_trades_of(const sd_traded_params *p, const sd_tick *ticks, int64_t n, sd_traded *made, sd_context *ctx);
/* cffi: end */
