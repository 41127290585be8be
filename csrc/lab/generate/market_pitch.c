#include "lab/generate/market_pitch.h"

#include "lab/generate/itch_write.h"
#include "lab/generate/text.h"
#include "sd_error.h"

enum { SHORT_NAME = 6, LONG_NAME = 8, ID = 12, SHARES = 6, MANY_SHARES = 10, PRICE = 10, TIME = 8 };

static uint8_t *put_id(uint8_t *p, uint64_t id) { return sd_put_digits(p, id, ID, 36); }

static uint8_t *put_decimal(uint8_t *p, uint64_t value, int width) { return sd_put_digits(p, value, width, 10); }

static uint8_t *put_price(uint8_t *p, int64_t price) {
  return put_decimal(p, (uint64_t)price / (SD_PRICE_SCALE / 10000), PRICE);
}

static uint8_t *put_name(uint8_t *p, const sd_tick *t, int width) {
  memset(p, ' ', (size_t)width);
  sd_itch_symbol_name(t->instrument_id - 1, (char *)p);
  return p + width;
}

static uint8_t *put_head(uint8_t *p, const sd_tick *t, uint64_t midnight_ns, char type) {
  return sd_put_char(put_decimal(p, (t->ts_event - midnight_ns) / 1000000, TIME), type);
}

static char side_letter(char side) { return side == 'A' ? 'S' : 'B'; }

/* The new order of an add or a replace. */
static uint8_t *put_add(uint8_t *p, const sd_tick *t, uint64_t id, char side) {
  p = put_decimal(sd_put_char(put_id(p, id), side_letter(side)), t->size, SHARES);
  return sd_put_char(put_price(put_name(p, t, SHORT_NAME), t->price), 'Y');
}

static uint8_t *put_long_add(uint8_t *p, const sd_tick *t) {
  p = put_decimal(sd_put_char(put_id(p, t->order_id), side_letter(t->side)), t->size, SHARES);
  p = sd_put_char(put_price(put_name(p, t, LONG_NAME), t->price), 'Y');
  memcpy(p, "TEST", 4); /* no real participant's name */
  return p + 4;
}

static uint8_t *put_trade(uint8_t *p, const sd_tick *t) {
  p = put_decimal(sd_put_char(put_id(p, 0), side_letter(t->side)), t->size, SHARES);
  return put_id(put_price(put_name(p, t, SHORT_NAME), t->price), t->ref_id);
}

static char auction_of_cross(uint8_t flags) {
  flags &= SD_ITCH_CROSS_MASK;
  return flags == SD_ITCH_CROSS_OPENING ? 'O' : flags == SD_ITCH_CROSS_CLOSING ? 'C' : 'H';
}

static uint8_t *put_summary(uint8_t *p, const sd_tick *t) {
  p = sd_put_char(put_name(p, t, LONG_NAME), auction_of_cross(t->flags));
  return put_decimal(put_price(p, t->price), t->size, MANY_SHARES);
}

/* What one side has over the other is the imbalance; the auction would clear a cent on its side. */
static uint8_t *put_update(uint8_t *p, const sd_tick *t) {
  uint64_t bids = t->size, asks = t->size;
  int64_t clearing = t->price;
  if (t->side == 'B') bids += t->ref_id, clearing += SD_PRICE_SCALE / 100;
  if (t->side == 'A') asks += t->ref_id, clearing -= SD_PRICE_SCALE / 100;
  p = sd_put_char(put_name(p, t, LONG_NAME), (char)(t->flags & 0x7F));
  p = put_decimal(put_decimal(put_price(p, t->price), bids, MANY_SHARES), asks, MANY_SHARES);
  return put_price(put_price(p, clearing), clearing);
}

/* No short sale restriction, and two reserved places. */
static uint8_t *put_status(uint8_t *p, const sd_tick *t) {
  p = sd_put_char(put_name(p, t, LONG_NAME), t->flags == 'P' ? 'H' : (char)t->flags);
  memcpy(p, "0  ", 3);
  return p + 3;
}

int64_t sd_pitch_write_states(const sd_tick *ticks, int64_t n, uint64_t midnight_ns, uint8_t *out) {
  uint8_t *p = out;
  for (int64_t i = 0; i < n; i++)
    p = sd_put_char(put_status(put_head(p, &ticks[i], midnight_ns, 'H'), &ticks[i]), '\n');
  return p - out;
}

int64_t sd_pitch_write_events(const sd_tick *ticks, const char *types, const sd_market_order *orders, int64_t n,
                              uint64_t midnight_ns, uint8_t *out, uint64_t *lines) {
  uint8_t *p = out;
  for (int64_t i = 0; i < n; i++) {
    const sd_tick *t = &ticks[i];
    uint32_t taken = types[i] == 'X' ? t->size : orders[i].shares;
    switch (types[i]) {
    case 'A':
      p = put_add(put_head(p, t, midnight_ns, 'A'), t, t->order_id, t->side);
      break;
    case 'F':
      p = put_long_add(put_head(p, t, midnight_ns, 'd'), t);
      break;
    case 'E':
    case 'C':
      p = put_id(put_head(p, t, midnight_ns, 'E'), t->order_id);
      p = put_id(put_decimal(p, t->size, SHARES), t->ref_id);
      break;
    case 'X':
    case 'D':
    case 'U':
      p = put_decimal(put_id(put_head(p, t, midnight_ns, 'X'), t->order_id), taken, SHARES);
      if (types[i] != 'U') break;
      p = put_head(sd_put_char(p, '\n'), t, midnight_ns, 'A');
      p = put_add(p, t, t->ref_id, orders[i].side);
      ++*lines;
      break;
    case 'P':
      p = put_trade(put_head(p, t, midnight_ns, 'P'), t);
      break;
    case 'Q':
      p = put_summary(put_head(p, t, midnight_ns, 'J'), t);
      break;
    case 'I':
      p = put_update(put_head(p, t, midnight_ns, 'I'), t);
      break;
    case 'H':
      p = put_status(put_head(p, t, midnight_ns, 'H'), t);
      break;
    default:
      return SD_E_ARGUMENT;
    }
    p = sd_put_char(p, '\n');
    ++*lines;
  }
  return p - out;
}
