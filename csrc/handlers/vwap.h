/* Volume-weighted average price: sum of price x size / sum of size, over trades that have a price.
 *
 * Ticks of kind trade, unless their flags say that they do not count; with books all that those count as trades, fills at their
 * orders' price among them. Sums are doubles, added in publish order: they do not depend on how many workers there are.
 */
#ifndef SD_HANDLERS_VWAP_H
#define SD_HANDLERS_VWAP_H

#include "handlers/tape.h"

typedef struct sd_vwap_row {
  uint64_t trades;
  uint64_t volume;
  double notional; /* price in currency units x size */
  double vwap;     /* currency units; 0 before the first trade */
} sd_vwap_row;

/* Its params are an sd_source. */
int64_t sd_handle_vwap(void *rows, const sd_tick *ticks, int64_t n, sd_context *ctx);

#endif
