#include "lab/generate/market_lobster.h"

#include <stdlib.h>

#include "lab/generate/depth.h"
#include "lab/generate/text.h"
#include "sd_error.h"

#define NS_PER_SECOND UINT64_C(1000000000)

enum { NEW = '1', CUT = '2', DELETED = '3', EXECUTED = '4', HIDDEN = '5', CROSS = '6', STATE = '7' };

struct sd_lobster {
  uint32_t instrument_id, levels;
  uint64_t midnight_ns;
  sd_depth_side bids, asks;
  uint8_t *message, *row; /* where the next rows go */
  uint64_t rows;
};

int sd_lobster_create(uint32_t instrument_id, uint32_t levels, uint64_t midnight_ns, sd_lobster **out) {
  if (!levels || levels > SD_LOBSTER_MAX_LEVELS) return SD_E_ARGUMENT;
  sd_lobster *w = calloc(1, sizeof *w);
  if (!w) return SD_E_NO_MEMORY;
  w->instrument_id = instrument_id;
  w->levels = levels;
  w->midnight_ns = midnight_ns;
  w->bids.sign = 1;
  w->asks.sign = -1;
  *out = w;
  return SD_OK;
}

void sd_lobster_destroy(sd_lobster *w) {
  if (!w) return;
  sd_depth_destroy(&w->bids);
  sd_depth_destroy(&w->asks);
  free(w);
}

static int64_t units(int64_t price) { return price / (SD_PRICE_SCALE / 10000); }

static uint8_t *put_level(uint8_t *p, const sd_depth_side *side, uint32_t level) {
  static const char none_above[] = "9999999999,0", none_below[] = "-9999999999,0";
  if (level < side->count) {
    const sd_depth_level *at = &side->levels[side->count - 1 - level];
    return sd_put_number(sd_put_char(sd_put_number(p, (uint64_t)units(at->price)), ','), at->shares);
  }
  size_t length = side->sign > 0 ? sizeof none_below - 1 : sizeof none_above - 1;
  memcpy(p, side->sign > 0 ? none_below : none_above, length);
  return p + length;
}

static void put_rows(sd_lobster *w, const sd_tick *t, char type, uint64_t id, uint32_t shares, int64_t price,
                     char side) {
  uint64_t ns = t->ts_event - w->midnight_ns;
  uint8_t *p = sd_put_char(sd_put_number(w->message, ns / NS_PER_SECOND), '.');
  p = sd_put_char(sd_put_digits(p, ns % NS_PER_SECOND, 9, 10), ',');
  p = sd_put_char(sd_put_char(p, type), ',');
  p = sd_put_char(sd_put_number(p, id), ',');
  p = sd_put_char(sd_put_number(p, shares), ',');
  if (price < 0) p = sd_put_char(p, '-');
  p = sd_put_char(sd_put_number(p, (uint64_t)(price < 0 ? -price : price)), ',');
  if (side != 'B') p = sd_put_char(p, '-');
  w->message = sd_put_char(sd_put_char(p, '1'), '\n');
  p = w->row;
  for (uint32_t level = 0; level < w->levels; level++) {
    p = sd_put_char(put_level(p, &w->asks, level), ',');
    p = sd_put_char(put_level(p, &w->bids, level), ',');
  }
  p[-1] = '\n';
  w->row = p;
  w->rows++;
}

static int change(sd_lobster *w, char side, int64_t price, int64_t shares) {
  return sd_depth_change(side == 'B' ? &w->bids : &w->asks, price, shares);
}

/* Shares of an order come or go: one row. */
static int move(sd_lobster *w, const sd_tick *t, char type, uint64_t id, int64_t shares, int64_t price, char side) {
  int status = change(w, side, price, shares);
  if (status == SD_OK) put_rows(w, t, type, id, (uint32_t)(shares < 0 ? -shares : shares), units(price), side);
  return status;
}

static int write_event(sd_lobster *w, const sd_tick *t, char type, const sd_market_order *o) {
  int status;
  switch (type) {
  case 'A':
  case 'F':
    return move(w, t, NEW, t->order_id, t->size, t->price, t->side);
  case 'X':
    return move(w, t, CUT, t->order_id, -(int64_t)t->size, o->price, o->side);
  case 'D':
    return move(w, t, DELETED, t->order_id, -(int64_t)o->shares, o->price, o->side);
  case 'E':
  case 'C':
    return move(w, t, EXECUTED, t->order_id, -(int64_t)t->size, o->price, o->side);
  case 'U':
    status = move(w, t, DELETED, t->order_id, -(int64_t)o->shares, o->price, o->side);
    return status == SD_OK ? move(w, t, NEW, t->ref_id, t->size, t->price, o->side) : status;
  case 'P':
    put_rows(w, t, HIDDEN, 0, t->size, units(t->price), t->side);
    return SD_OK;
  case 'Q':
    put_rows(w, t, CROSS, 0, t->size, units(t->price), 'N');
    return SD_OK;
  case 'H':
    put_rows(w, t, STATE, 0, 0, t->flags == 'T' ? 1 : t->flags == 'Q' ? 0 : -1, 'N');
    return SD_OK;
  case 'I':
    return SD_OK;
  default:
    return SD_E_ARGUMENT;
  }
}

int64_t sd_lobster_write(sd_lobster *w, const sd_tick *ticks, const char *types, const sd_market_order *orders,
                         int64_t n, int64_t events, uint8_t *messages, uint8_t *book, sd_lobster_text *text) {
  int64_t i = 0;
  w->message = messages;
  w->row = book;
  w->rows = 0;
  for (; i < n && events; i++) {
    if (ticks[i].instrument_id != w->instrument_id) continue;
    int status = write_event(w, &ticks[i], types[i], &orders[i]);
    if (status != SD_OK) return status;
    events--;
  }
  *text = (sd_lobster_text){.message_bytes = w->message - messages, .book_bytes = w->row - book, .rows = w->rows};
  return i;
}
