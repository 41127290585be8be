#include "lab/generate/market_events.h"

#include "codec/itch/itch.h"
#include "lab/generate/agenda.h"
#include "lab/generate/auction.h"
#include "sd_error.h"

enum {
  LOWEST_MID = 200, /* cents: keeps the farthest bid above zero */
  HIGHEST_MID = 1000000
};

/* Of 1,024 events, how many are hidden trades, executions at a price of their own, executions, partial cancels and replaces. The rest are
 * adds and deletes, balanced around each symbol's target. */
enum { ROLL_TRADE = 8, ROLL_PRICED = 12, ROLL_EXECUTE = 52, ROLL_REDUCE = 77, ROLL_REPLACE = 167, ROLL = 1024 };

/* Cents from the touch: mostly within ten, sometimes ten times as far. Never the touch itself on the side that the price is leaving,
 * because that side has to become empty. */
static uint32_t draw_price(const sd_orders *book, int side, uint64_t detail) {
  uint32_t away = (uint32_t)(detail >> 20 & 7) + (uint32_t)__builtin_ctz((uint32_t)(detail >> 23 & 255) | 256);
  if (!(detail >> 31 & 31)) away *= 10;
  int leaving = book->pressure == (side == SD_ASK ? 1 : -1);
  if (leaving && !away) away = 1;
  return side == SD_BID ? book->mid - away : book->mid + 1 + away;
}

/* Round lots for the most part, odd lots for one order in eight. */
static uint32_t draw_shares(uint64_t detail) {
  uint32_t bits = (uint32_t)(detail >> 36);
  if (!(bits & 7)) return 1 + (bits >> 3 & 127);
  return 100 * (1 + (bits >> 3 & 3 & bits >> 5) + (uint32_t)__builtin_ctz((bits >> 7 & 255) | 256));
}

static int64_t tick_price(uint32_t cents) { return (int64_t)cents * (SD_PRICE_SCALE / 100); }

/* What an order is before an event changes it. */
static sd_market_order order_before(const sd_orders *book, int side, uint32_t at) {
  const sd_order *order = &book->side[side][at];
  return (sd_market_order){
      .price = tick_price(order->price), .shares = order->shares, .side = side == SD_BID ? 'B' : 'A'};
}

static void make_trade(sd_market_numbers *numbers, sd_orders *book, const sd_market_draw *s, sd_tick *tick) {
  tick->action = 'T';
  tick->kind = SD_KIND_TRADE;
  tick->side = 'B'; /* the exchange sends B whichever side was hidden */
  tick->size = draw_shares(s->detail);
  tick->price = tick_price(book->mid + (uint32_t)(s->detail & 1));
  tick->ref_id = numbers->next_match++;
  numbers->volume += tick->size;
}

static int make_add(sd_market_numbers *numbers, sd_orders *book, const sd_market_draw *s, sd_tick *tick) {
  int side = (int)(s->choice >> 20 & 1);
  if (sd_orders_reserve(book, side) != SD_OK) return SD_E_NO_MEMORY;
  sd_order order = {numbers->next_order_id++, draw_price(book, side, s->detail), draw_shares(s->detail)};
  sd_orders_add(book, side, order);
  tick->action = 'A';
  tick->side = side == SD_BID ? 'B' : 'A';
  tick->order_id = order.id;
  tick->price = tick_price(order.price);
  tick->size = order.shares;
  return SD_OK;
}

/* Takes the order first in the queue of one side; every second execution takes all of it. */
static void make_execution(sd_market_numbers *numbers, sd_orders *book, const sd_market_draw *s, sd_tick *tick,
                           sd_market_order *before, int priced) {
  int side = (int)(s->choice >> 20 & 1);
  if (book->pressure) side = book->pressure > 0 ? SD_ASK : SD_BID;
  if (!book->count[side]) side = !side;
  uint32_t at = sd_orders_first(book, side);
  sd_order *order = &book->side[side][at];
  uint32_t shares = order->shares;
  *before = order_before(book, side, at);
  if (s->detail & UINT64_C(1) << 36) shares = 1 + sd_scale32((uint32_t)s->detail, shares);
  tick->action = 'F';
  tick->order_id = order->id;
  tick->size = shares;
  tick->ref_id = numbers->next_match++;
  if (priced) /* better by a cent for the order that waited */
    tick->price = tick_price(side == SD_BID ? order->price - 1 : order->price + 1);
  numbers->volume += shares;
  if (shares == order->shares) sd_orders_remove(book, side, at);
  else order->shares -= shares;
}

static void make_delete(sd_orders *book, const sd_market_draw *s, sd_tick *tick, sd_market_order *before) {
  uint32_t at;
  int side = sd_market_choose_order(book, s->choice, &at);
  *before = order_before(book, side, at);
  tick->action = 'C';
  tick->order_id = book->side[side][at].id;
  sd_orders_remove(book, side, at);
}

/* Returns the ITCH type: a delete where nothing can be taken and something left. */
static char make_reduction(sd_orders *book, const sd_market_draw *s, sd_tick *tick, sd_market_order *before) {
  uint32_t at;
  int side = sd_market_choose_order(book, s->choice, &at);
  sd_order *order = &book->side[side][at];
  if (order->shares == 1) {
    make_delete(book, s, tick, before);
    return 'D';
  }
  *before = order_before(book, side, at);
  tick->action = 'C';
  tick->order_id = order->id;
  tick->size = 1 + sd_scale32((uint32_t)(s->detail >> 32), order->shares - 1);
  order->shares -= tick->size;
  return 'X';
}

static void make_replace(sd_market_numbers *numbers, sd_orders *book, const sd_market_draw *s, sd_tick *tick,
                         sd_market_order *before) {
  uint32_t at;
  int side = sd_market_choose_order(book, s->choice, &at);
  *before = order_before(book, side, at);
  sd_order order = {numbers->next_order_id++, draw_price(book, side, s->detail), draw_shares(s->detail)};
  tick->action = 'M';
  tick->order_id = book->side[side][at].id;
  tick->ref_id = order.id;
  tick->price = tick_price(order.price);
  tick->size = order.shares;
  sd_orders_replace(book, side, at, order);
}

/* The walk of mid. It has a direction for some 256 events of the symbol, and takes a step when the touch there is empty. */
static void walk(sd_orders *book, uint64_t detail) {
  if (!(detail & 255)) book->pressure = (int8_t)((int)sd_scale32((uint32_t)(detail >> 32), 3) - 1);
  if (book->mid < LOWEST_MID) book->pressure = 1;
  else if (book->mid > HIGHEST_MID) book->pressure = -1;
  if (!book->pressure || detail >> 8 & 7) return;
  if (!book->touch[book->pressure > 0 ? SD_ASK : SD_BID]) sd_orders_step(book, book->pressure);
}

/* Adds or deletes, so that the symbol's live orders stay around its target. Returns the ITCH type, 0 without memory. */
static char make_add_or_delete(sd_market_numbers *numbers, sd_orders *book, const sd_market_draw *s, sd_tick *tick,
                               sd_market_order *before) {
  uint32_t live = book->count[SD_BID] + book->count[SD_ASK];
  int64_t tilt = (int64_t)(s->choice >> 10 & 1023) - 512;
  if (live && tilt * book->target >= 512 * ((int64_t)book->target - live)) {
    make_delete(book, s, tick, before);
    return 'D';
  }
  if (make_add(numbers, book, s, tick) != SD_OK) return 0;
  if (s->choice >> 21 & 31) return 'A';
  tick->flags = SD_ITCH_ATTRIBUTED;
  return 'F';
}

char sd_market_make_event(sd_market_numbers *numbers, sd_orders *book, const sd_market_draw *s, sd_tick *tick,
                          sd_market_order *before) {
  uint32_t live = book->count[SD_BID] + book->count[SD_ASK], roll = (uint32_t)s->choice & (ROLL - 1);
  int what = s->what;
  if (__builtin_expect(!what && book->state == SD_HALTED, 0)) {
    /* Orders may be withdrawn. If there are none, a notice says what waits for the cross. */
    if (live && s->choice & 1) return make_reduction(book, s, tick, before);
    if (live) {
      make_delete(book, s, tick, before);
      return 'D';
    }
    what = SD_AGENDA_HALT_NOTICE;
  }
  if (what) {
    char type = sd_auction_event(what, book, s->detail, tick);
    if (type == 'Q') {
      tick->ref_id = numbers->next_match++;
      numbers->volume += tick->size;
    }
    return type;
  }
  if (book->state == SD_TRADING) {
    walk(book, s->detail);
    if (roll < ROLL_TRADE) {
      make_trade(numbers, book, s, tick);
      return 'P';
    }
    if (live && roll < ROLL_EXECUTE) {
      make_execution(numbers, book, s, tick, before, roll < ROLL_PRICED);
      return roll < ROLL_PRICED ? 'C' : 'E';
    }
  }
  if (live && roll < ROLL_REDUCE) return make_reduction(book, s, tick, before);
  if (live && roll < ROLL_REPLACE) {
    make_replace(numbers, book, s, tick, before);
    return 'U';
  }
  return make_add_or_delete(numbers, book, s, tick, before);
}
