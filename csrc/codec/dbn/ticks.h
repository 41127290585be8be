/* Makes the ticks of one DBN record whose fields have been checked; dbn.h says what each type becomes. For dbn.c alone. It is a header
 * because dbn.c's loop makes the ticks, and a call would cost as much as some records do. */
#ifndef SD_CODEC_DBN_TICKS_H
#define SD_CODEC_DBN_TICKS_H

#include "codec/dbn/layout.h"
#include "codec/dbn/state.h"

static inline uint64_t first_defined(uint64_t a, uint64_t b) {
  if (a != UNDEF_TIME) return a;
  return b != UNDEF_TIME ? b : 0;
}

/* Sets both times, and what every record has. */
static inline void begin_tick(sd_tick *tick, const uint8_t *p, uint64_t received, uint32_t key) {
  uint64_t event = event_time(p);
  *tick = (sd_tick){.ts_event = (int64_t)first_defined(event, received),
                    .ts_recv = (int64_t)first_defined(received, event),
                    .price = SD_UNDEF_PRICE,
                    .instrument_id = key,
                    .publisher_id = load_u16(p + 2),
                    .action = 'N',
                    .side = 'N'};
}

static inline void make_mbo(sd_tick *tick, const uint8_t *p, uint32_t key) {
  begin_tick(tick, p, load_u64(p + 40), key);
  tick->order_id = load_u64(p + 16);
  tick->price = load_i64(p + 24);
  tick->size = load_u32(p + 32);
  tick->sequence_low = load_u32(p + 52);
  tick->action = (char)p[38];
  tick->side = (char)p[39];
  tick->flags = p[36];
  tick->kind = (uint8_t)(kind_of_action[p[38]] - 1);
}

/* A trades record, or the head of a book record, which is the same. `consolidated` records have no depth and no sequence. */
static inline void make_trade(sd_tick *tick, const uint8_t *p, uint32_t key, int consolidated, uint64_t position) {
  begin_tick(tick, p, load_u64(p + 32), key);
  tick->price = load_i64(p + 16);
  tick->size = load_u32(p + 24);
  sd_set_sequence(tick, consolidated ? position : load_u32(p + 44));
  tick->action = (char)p[28];
  tick->side = (char)p[29];
  tick->flags = p[30];
  tick->depth = consolidated ? 0 : p[31];
  tick->kind = SD_KIND_TRADE;
}

/* Both sides of one level. */
static inline void make_quote(sd_tick *tick, const uint8_t *level, uint8_t depth) {
  tick->price = load_i64(level);
  tick->order_id = load_u64(level + 8);
  tick->size = load_u32(level + 16);
  tick->ref_id = load_u32(level + 20);
  tick->side = 'N';
  tick->depth = depth;
  tick->kind = SD_KIND_QUOTE;
}

static inline uint64_t make_book(sd_tick *ticks, const uint8_t *p, uint32_t key, uint32_t levels, int consolidated,
                                 uint64_t position) {
  uint64_t made = 0;
  sd_tick head;
  make_trade(&head, p, key, consolidated, position);
  for (uint32_t i = 0; i < levels; i++) {
    const uint8_t *level = p + LEVELS_AT + i * LEVEL_BYTES;
    if (i && load_i64(level) == SD_UNDEF_PRICE && load_i64(level + 8) == SD_UNDEF_PRICE) continue;
    /* Of a view in several ticks, the last one ends the event. */
    if (made) ticks[made - 1].flags &= (uint8_t)~SD_DBN_LAST;
    ticks[made] = head;
    make_quote(&ticks[made++], level, (uint8_t)i);
  }
  if (head.action != 'T') return made;
  /* A trade changes no book: its view is that before it, and whole, wherever the record stands in its event. */
  ticks[made - 1].flags |= SD_DBN_LAST;
  ticks[made++] = head;
  return made;
}

/* A book, sampled at the end of a second or a minute: each sample is whole. */
static inline uint64_t make_sample(sd_tick *tick, const uint8_t *p, uint32_t key, int consolidated, uint64_t position) {
  begin_tick(tick, p, load_u64(p + 32), key);
  sd_set_sequence(tick, consolidated ? position : load_u32(p + 44));
  tick->flags = p[30] | SD_DBN_LAST;
  make_quote(tick, p + LEVELS_AT, 0);
  return 1;
}

static inline uint64_t bar_ns(uint8_t type) {
  uint64_t second = UINT64_C(1000000000);
  switch (type) {
  case OHLCV_1S:
    return second;
  case OHLCV_1M:
    return 60 * second;
  case OHLCV_1H:
    return 3600 * second;
  case OHLCV_1D:
  case OHLCV_EOD:
    return 86400 * second;
  default:
    return 0;
  }
}

static inline uint64_t make_bar(sd_dbn *dbn, sd_tick *ticks, const uint8_t *p, uint32_t key) {
  uint64_t start = event_time(p);
  uint64_t length = bar_ns(p[1]);
  uint64_t end = start < UNDEF_TIME - length ? start + length : UNDEF_TIME;
  for (uint8_t corner = 0; corner < 4; corner++) {
    sd_tick *tick = &ticks[corner];
    begin_tick(tick, p, end, key);
    tick->price = load_i64(p + 16 + 8 * corner);
    sd_set_sequence(tick, dbn->records + 1);
    tick->action = 'T';
    tick->depth = corner;
    tick->kind = SD_KIND_TRADE;
  }
  ticks[3].size = load_i64(p + VOLUME_AT);
  return 4;
}

static inline uint64_t make_status(sd_dbn *dbn, sd_tick *tick, const uint8_t *p, uint32_t key) {
  begin_tick(tick, p, load_u64(p + 16), key);
  sd_set_sequence(tick, dbn->records + 1);
  tick->ref_id = load_u16(p + 24) | (uint64_t)load_u16(p + 26) << 16 | (uint64_t)load_u16(p + 28) << 32;
  tick->flags = (uint8_t)((p[30] == 'Y' ? SD_DBN_TRADING : 0) | (p[31] == 'Y' ? SD_DBN_QUOTING : 0) |
                          (p[32] == 'Y' ? SD_DBN_SHORT_SELL_RESTRICTED : 0));
  tick->kind = SD_KIND_STATUS;
  return 1;
}

static inline uint64_t make_imbalance(sd_dbn *dbn, sd_tick *tick, const uint8_t *p, uint32_t key) {
  begin_tick(tick, p, load_u64(p + 16), key);
  sd_set_sequence(tick, dbn->records + 1);
  tick->price = load_i64(p + 24);
  tick->size = load_u32(p + 88);
  tick->ref_id = load_u32(p + 92);
  tick->side = (char)p[105];
  tick->flags = (uint8_t)(SD_DBN_IMBALANCE | (p[104] & 0x7F));
  tick->kind = SD_KIND_STATUS;
  return 1;
}

static inline uint64_t make_statistic(sd_dbn *dbn, sd_tick *tick, const uint8_t *p, uint32_t key) {
  int narrow = dbn->version < 3;
  int32_t small = (int32_t)load_u32(p + 40);
  int64_t quantity = narrow ? (small == UNDEF_I32 ? INT64_MAX : small) : load_i64(p + 40);
  begin_tick(tick, p, load_u64(p + 16), key);
  tick->price = load_i64(p + 32);
  tick->sequence_low = load_u32(p + (narrow ? 44 : 48));
  tick->ref_id = load_u16(p + (narrow ? 52 : 56));
  tick->flags = SD_DBN_STATISTIC;
  tick->kind = SD_KIND_STATUS;
  if (quantity != INT64_MAX) tick->size = quantity;
  return 1;
}

/* Makes the ticks of one checked record; returns how many. */
static inline uint64_t make_ticks(sd_dbn *dbn, sd_tick *ticks, const uint8_t *p, uint32_t key) {
  uint64_t position = dbn->records + 1;
  switch (p[1]) {
  case MBO:
    make_mbo(ticks, p, key);
    return 1;
  case TRADES:
    make_trade(ticks, p, key, 0, position);
    return 1;
  case MBP_1:
    return make_book(ticks, p, key, 1, 0, position);
  case MBP_10:
    return make_book(ticks, p, key, dbn->levels, 0, position);
  case CMBP_1:
  case TCBBO:
    return make_book(ticks, p, key, 1, 1, position);
  case BBO_1S:
  case BBO_1M:
    return make_sample(ticks, p, key, 0, position);
  case CBBO_1S:
  case CBBO_1M:
    return make_sample(ticks, p, key, 1, position);
  case STATUS:
    return make_status(dbn, ticks, p, key);
  case IMBALANCE:
    return make_imbalance(dbn, ticks, p, key);
  case STATISTICS:
    return make_statistic(dbn, ticks, p, key);
  default:
    return make_bar(dbn, ticks, p, key);
  }
}

#endif
