/* Makes the events that an agenda asks for: crosses, imbalance notices and trading states, as the ticks that codec/itch/itch.h makes. */
#pragma once

#include "lab/generate/orders.h"
#include "sd_tick.h"

/* Fills in the tick of event `what` (agenda.h) and moves the symbol's state; a cross trades what the notices before it
 * paired. Returns the ITCH type: Q, I or H. A cross's match number is the caller's to give. */
char sd_auction_event(int what, sd_orders *book, uint64_t detail, sd_tick *tick);
