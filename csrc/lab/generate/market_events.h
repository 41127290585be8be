/* Turns what was drawn for an event into a tick, and changes the live orders of its symbol. */
#pragma once

#include "base/prng.h"
#include "lab/generate/market_order.h"
#include "lab/generate/orders.h"
#include "sd_tick.h"

typedef struct sd_market_draw {
  uint64_t ts;
  uint64_t choice, detail; /* random bits */
  uint32_t symbol;
  int what; /* SD_AGENDA_* */
} sd_market_draw;

/* Numbers of the whole market, kept from event to event. */
typedef struct sd_market_numbers {
  uint64_t next_order_id, next_match;
  uint64_t volume; /* shares traded */
} sd_market_numbers;

/* Chooses the side and the place of a live order, all equally likely. If the side has no orders, that side is empty. */
static inline int sd_market_choose_order(const sd_orders *book, uint64_t choice, uint32_t *at) {
  uint32_t i = sd_scale32((uint32_t)(choice >> 32), book->count[SD_BID] + book->count[SD_ASK]);
  int side = i >= book->count[SD_BID];
  *at = side == SD_BID ? i : i - book->count[SD_BID];
  return side;
}

/* Makes one event; returns its ITCH type, or 0 when memory is out. `before` is written if it is about a live order. */
char sd_market_make_event(sd_market_numbers *numbers, sd_orders *book, const sd_market_draw *s, sd_tick *tick,
                          sd_market_order *before);
