#include "lab/generate/market_mbo.h"

/* A record of a tick's event, by default without an order. */
static sd_mbo record(const sd_tick *t, char action, char side, int64_t price, uint32_t size) {
  return (sd_mbo){.length = sizeof(sd_mbo) / 4,
                  .rtype = SD_MBO_RTYPE,
                  .instrument_id = t->instrument_id,
                  .ts_event = (uint64_t)t->ts_event,
                  .price = price,
                  .size = size,
                  .action = action,
                  .side = side,
                  .ts_recv = (uint64_t)t->ts_recv,
                  .sequence = t->sequence_low};
}

static sd_mbo of_order(const sd_tick *t, char action, char side, uint64_t id, int64_t price, uint32_t size) {
  sd_mbo made = record(t, action, side, price, size);
  made.order_id = id;
  return made;
}

void sd_mbo_write_clears(const sd_tick *ticks, int64_t n, sd_mbo *out) {
  for (int64_t i = 0; i < n; i++) {
    out[i] = record(&ticks[i], 'R', 'N', SD_UNDEF_PRICE, 0);
    out[i].flags = SD_MBO_LAST;
  }
}

int64_t sd_mbo_write_events(const sd_tick *ticks, const char *types, const sd_market_order *orders, int64_t n,
                            sd_mbo *out) {
  sd_mbo *p = out;
  for (int64_t i = 0; i < n; i++) {
    const sd_tick *t = &ticks[i];
    const sd_market_order *o = &orders[i];
    switch (types[i]) {
    case 'A':
    case 'F':
      *p++ = of_order(t, 'A', t->side, t->order_id, t->price, t->size);
      break;
    case 'E':
    case 'C':
      *p++ = record(t, 'T', o->side == 'A' ? 'B' : 'A', types[i] == 'C' ? t->price : o->price, t->size);
      *p++ = of_order(t, 'F', o->side, t->order_id, o->price, t->size);
      *p++ = of_order(t, 'C', o->side, t->order_id, o->price, t->size);
      break;
    case 'X':
      *p++ = of_order(t, 'C', o->side, t->order_id, o->price, t->size);
      break;
    case 'D':
      *p++ = of_order(t, 'C', o->side, t->order_id, o->price, o->shares);
      break;
    case 'U':
      *p++ = of_order(t, 'C', o->side, t->order_id, o->price, o->shares);
      *p++ = of_order(t, 'A', o->side, t->ref_id, t->price, t->size);
      break;
    case 'P':
    case 'Q':
      *p++ = record(t, 'T', 'N', t->price, t->size);
      break;
    default:
      continue;
    }
    p[-1].flags = SD_MBO_LAST;
  }
  return p - out;
}

int64_t sd_mbo_count(const char *types, int64_t n) {
  static const uint8_t records[256] = {['A'] = 1, ['F'] = 1, ['E'] = 3, ['C'] = 3, ['X'] = 1,
                                       ['D'] = 1, ['U'] = 2, ['P'] = 1, ['Q'] = 1};
  int64_t count = 0;
  for (int64_t i = 0; i < n; i++) count += records[(uint8_t)types[i]];
  return count;
}
