/* The order that an event is about, as it was before the event: for formats in which an event repeats it. */
#pragma once

#include <stdint.h>

/* cffi: begin */
typedef struct sd_market_order {
  int64_t price; /* units of 1e-9 */
  uint32_t shares;
  char side; /* A or B; 0: the event is not about an order in the book */
  uint8_t unused[3];
} sd_market_order;
/* cffi: end */
