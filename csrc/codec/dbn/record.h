/* Records as they lie in a file: types, lengths and fields, and the ticks of one. For the decoder's own files. */
#pragma once

#include <string.h>

#include "codec/bytes.h"
#include "codec/dbn/state.h"

_Static_assert(__BYTE_ORDER__ == __ORDER_LITTLE_ENDIAN__, "ticks are packed little-endian");

/* Record types. Types with the same layout share a name here. */
enum {
  TRADES = 0x00,
  MBP_1 = 0x01, /* TBBO too */
  MBP_10 = 0x0A,
  OHLCV_OLD = 0x11, /* from before types gave the bar's length */
  STATUS = 0x12,
  DEFINITION = 0x13,
  IMBALANCE = 0x14,
  ERROR_MESSAGE = 0x15,
  SYMBOL_MAPPING = 0x16,
  SYSTEM_MESSAGE = 0x17,
  STATISTICS = 0x18,
  OHLCV_1S = 0x20,
  OHLCV_1M = 0x21,
  OHLCV_1H = 0x22,
  OHLCV_1D = 0x23,
  OHLCV_EOD = 0x24,
  MBO = 0xA0,
  CMBP_1 = 0xB1,
  CBBO_1S = 0xC0,
  CBBO_1M = 0xC1,
  TCBBO = 0xC2,
  BBO_1S = 0xC3,
  BBO_1M = 0xC4
};

enum {
  MBO_BYTES = 56,
  STATISTICS_V1_BYTES = 64,
  STATISTICS_V3_BYTES = 80,
  LEVEL_BYTES = 32,
  LEVELS_AT = 48,
  VOLUME_AT = 48
};
enum { ANY_LENGTH = 1, UNDEF_I32 = INT32_MAX };

#define UNDEF_TIME UINT64_MAX

/* Bytes of a record without those that ts_out adds; 0: no such type. */
static const uint16_t lengths[256] = {
    [TRADES] = 48,     [MBP_1] = 80,
    [MBP_10] = 368,    [OHLCV_OLD] = 56,
    [STATUS] = 40,     [DEFINITION] = ANY_LENGTH,
    [IMBALANCE] = 112, [ERROR_MESSAGE] = ANY_LENGTH,
    [OHLCV_1S] = 56,   [SYMBOL_MAPPING] = ANY_LENGTH,
    [OHLCV_1M] = 56,   [SYSTEM_MESSAGE] = ANY_LENGTH,
    [OHLCV_1H] = 56,   [STATISTICS] = STATISTICS_V1_BYTES,
    [OHLCV_1D] = 56,   [OHLCV_EOD] = 56,
    [MBO] = MBO_BYTES, [CMBP_1] = 80,
    [CBBO_1S] = 80,    [CBBO_1M] = 80,
    [TCBBO] = 80,      [BBO_1S] = 80,
    [BBO_1M] = 80,
};

/* The kind of an MBO tick, plus 1; 0: not an action. */
static const uint8_t kind_of_action[256] = {
    ['A'] = SD_KIND_ORDER + 1, ['C'] = SD_KIND_ORDER + 1, ['M'] = SD_KIND_ORDER + 1, ['R'] = SD_KIND_ORDER + 1,
    ['F'] = SD_KIND_ORDER + 1, ['T'] = SD_KIND_TRADE + 1, ['N'] = SD_KIND_NONE + 1,
};
static const uint8_t is_side[256] = {['A'] = 1, ['B'] = 1, ['N'] = 1};

static inline int64_t load_i64(const uint8_t *p) { return (int64_t)sd_load_le64(p); }

static inline uint64_t event_time(const uint8_t *p) { return sd_load_le64(p + 8); }

static inline uint64_t first_defined(uint64_t a, uint64_t b) {
  if (a != UNDEF_TIME) return a;
  return b != UNDEF_TIME ? b : 0;
}

/* Where a type has its receive time; 0: it has none. */
static inline uint32_t received_at(uint8_t type) {
  switch (type) {
  case MBO:
    return 40;
  case STATUS:
  case IMBALANCE:
  case STATISTICS:
    return 16;
  case OHLCV_OLD:
  case OHLCV_1S:
  case OHLCV_1M:
  case OHLCV_1H:
  case OHLCV_1D:
  case OHLCV_EOD:
    return 0;
  default:
    return 32;
  }
}

/* Nonzero: the quotes are their publisher's own, and not of several together. */
static inline int has_own_quotes(uint8_t type) {
  return type == MBP_1 || type == MBP_10 || type == BBO_1S || type == BBO_1M;
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

static inline int makes_ticks(uint8_t type) { return lengths[type] > ANY_LENGTH; }

/* Whether a time does not fit into a tick. */
static inline int is_beyond(uint64_t time) { return time > INT64_MAX && time != UNDEF_TIME; }

/* Finds the fault of a whole record, and the byte that is wrong. */
static inline uint8_t find_fault(const sd_dbn *dbn, const uint8_t *p, uint8_t *value) {
  uint8_t type = p[1];
  uint32_t length = lengths[type];
  if (length == 0) return SD_DBN_FAULT_UNKNOWN_TYPE;
  if (length == ANY_LENGTH) return SD_DBN_FAULT_NONE;
  if (type == STATISTICS && dbn->version >= 3) length = STATISTICS_V3_BYTES;
  if (p[0] * 4u != length + dbn->tail) return SD_DBN_FAULT_LENGTH;
  int head = type == TRADES || type == MBP_1 || type == MBP_10 || type == CMBP_1 || type == TCBBO;
  uint32_t action_at = type == MBO ? 38 : head ? 28 : 0;
  uint32_t side_at = type == IMBALANCE ? 105 : action_at ? action_at + 1 : 0;
  if (action_at && !kind_of_action[p[action_at]]) {
    *value = p[action_at];
    return SD_DBN_FAULT_ACTION;
  }
  if (side_at && !is_side[p[side_at]]) {
    *value = p[side_at];
    return SD_DBN_FAULT_SIDE;
  }
  if (makes_ticks(type) &&
      (is_beyond(event_time(p)) || (received_at(type) && is_beyond(sd_load_le64(p + received_at(type))))))
    return SD_DBN_FAULT_TIME;
  if (bar_ns(type) && load_i64(p + VOLUME_AT) < 0) return SD_DBN_FAULT_SIZE;
  return SD_DBN_FAULT_NONE;
}

/* Whether the flags of a record's ticks may cast doubt on them. */
static inline int has_doubts(uint8_t type, const sd_tick *ticks) {
  return ticks[0].kind != SD_KIND_STATUS && !bar_ns(type);
}

static inline uint32_t is_doubtful_book(uint8_t flags) { return (flags & SD_DBN_MAYBE_BAD_BOOK) != 0; }

static inline uint32_t is_doubtful_time(uint8_t flags) {
  return (flags & (SD_DBN_BAD_TS_RECV | SD_DBN_SNAPSHOT)) == SD_DBN_BAD_TS_RECV;
}

static inline int is_wanted_time(const sd_dbn *dbn, uint64_t time) {
  return time >= dbn->start_ns && time <= dbn->last_ns;
}

/* The time by which a record that makes ticks is looked up. */
static inline uint64_t index_time(const uint8_t *p) {
  const uint32_t at = received_at(p[1]);
  return first_defined(at ? sd_load_le64(p + at) : UNDEF_TIME, event_time(p));
}

/* The end of a bar. */
static inline uint64_t bar_end(const uint8_t *p) {
  const uint64_t start = event_time(p), length = bar_ns(p[1]);
  return start < UNDEF_TIME - length ? start + length : UNDEF_TIME;
}

/* The ts_recv of the ticks of a record that makes some. */
static inline int64_t tick_time(const uint8_t *p) {
  return (int64_t)(bar_ns(p[1]) ? first_defined(bar_end(p), event_time(p)) : index_time(p));
}

/* ---- the ticks of one record whose fields have been checked */

/* Sets both times, and what every record has. */
static inline void begin_tick(sd_tick *tick, const uint8_t *p, uint64_t received, uint32_t key) {
  uint64_t event = event_time(p);
  *tick = (sd_tick){.ts_event = (int64_t)first_defined(event, received),
                    .ts_recv = (int64_t)first_defined(received, event),
                    .price = SD_UNDEF_PRICE,
                    .instrument_id = key,
                    .publisher_id = (uint16_t)sd_load_le16(p + 2),
                    .action = 'N',
                    .side = 'N'};
}

static inline void make_mbo(sd_tick *tick, const uint8_t *p, uint32_t key) {
  begin_tick(tick, p, sd_load_le64(p + 40), key);
  tick->order_id = sd_load_le64(p + 16);
  tick->price = load_i64(p + 24);
  tick->size = sd_load_le32(p + 32);
  tick->sequence_low = sd_load_le32(p + 52);
  tick->action = (char)p[38];
  tick->side = (char)p[39];
  tick->flags = p[36];
  tick->kind = (uint8_t)(kind_of_action[p[38]] - 1);
}

/* A trades record, or the head of a book record, which is the same. `consolidated` records have no depth and no sequence. */
static inline void make_trade(sd_tick *tick, const uint8_t *p, uint32_t key, int consolidated, uint64_t position) {
  begin_tick(tick, p, sd_load_le64(p + 32), key);
  tick->price = load_i64(p + 16);
  tick->size = sd_load_le32(p + 24);
  sd_set_sequence(tick, consolidated ? position : sd_load_le32(p + 44));
  tick->action = (char)p[28];
  tick->side = (char)p[29];
  tick->flags = p[30];
  tick->depth = consolidated ? 0 : p[31];
  tick->kind = SD_KIND_TRADE;
}

/* Both sides of one level. */
static inline void make_quote(sd_tick *tick, const uint8_t *level, uint8_t depth) {
  tick->price = load_i64(level);
  tick->order_id = sd_load_le64(level + 8);
  tick->size = sd_load_le32(level + 16);
  tick->ref_id = sd_load_le32(level + 20);
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
  begin_tick(tick, p, sd_load_le64(p + 32), key);
  sd_set_sequence(tick, consolidated ? position : sd_load_le32(p + 44));
  tick->flags = p[30] | SD_DBN_LAST;
  make_quote(tick, p + LEVELS_AT, 0);
  return 1;
}

static inline uint64_t make_bar(sd_tick *ticks, const uint8_t *p, uint32_t key, uint64_t position) {
  for (uint8_t corner = 0; corner < 4; corner++) {
    sd_tick *tick = &ticks[corner];
    begin_tick(tick, p, bar_end(p), key);
    tick->price = load_i64(p + 16 + 8 * corner);
    sd_set_sequence(tick, position);
    tick->action = 'T';
    tick->depth = corner;
    tick->kind = SD_KIND_TRADE;
  }
  ticks[3].size = load_i64(p + VOLUME_AT);
  return 4;
}

static inline uint64_t make_status(sd_tick *tick, const uint8_t *p, uint32_t key, uint64_t position) {
  begin_tick(tick, p, sd_load_le64(p + 16), key);
  sd_set_sequence(tick, position);
  tick->ref_id = sd_load_le16(p + 24) | (uint64_t)sd_load_le16(p + 26) << 16 | (uint64_t)sd_load_le16(p + 28) << 32;
  tick->flags = (uint8_t)((p[30] == 'Y' ? SD_DBN_TRADING : 0) | (p[31] == 'Y' ? SD_DBN_QUOTING : 0) |
                          (p[32] == 'Y' ? SD_DBN_SHORT_SELL_RESTRICTED : 0));
  tick->kind = SD_KIND_STATUS;
  return 1;
}

static inline uint64_t make_imbalance(sd_tick *tick, const uint8_t *p, uint32_t key, uint64_t position) {
  begin_tick(tick, p, sd_load_le64(p + 16), key);
  sd_set_sequence(tick, position);
  tick->price = load_i64(p + 24);
  tick->size = sd_load_le32(p + 88);
  tick->ref_id = sd_load_le32(p + 92);
  tick->side = (char)p[105];
  tick->flags = (uint8_t)(SD_DBN_IMBALANCE | (p[104] & 0x7F));
  tick->kind = SD_KIND_STATUS;
  return 1;
}

static inline uint64_t make_statistic(const sd_dbn *dbn, sd_tick *tick, const uint8_t *p, uint32_t key) {
  int narrow = dbn->version < 3;
  int32_t small = (int32_t)sd_load_le32(p + 40);
  int64_t quantity = narrow ? (small == UNDEF_I32 ? INT64_MAX : small) : load_i64(p + 40);
  begin_tick(tick, p, sd_load_le64(p + 16), key);
  tick->price = load_i64(p + 32);
  tick->sequence_low = sd_load_le32(p + (narrow ? 44 : 48));
  tick->ref_id = sd_load_le16(p + (narrow ? 52 : 56));
  tick->flags = SD_DBN_STATISTIC;
  tick->kind = SD_KIND_STATUS;
  if (quantity != INT64_MAX) tick->size = quantity;
  return 1;
}

/* Makes the ticks of one checked record, the `position`th from 1; returns how many. Of the decoder it uses only options. */
static inline uint64_t make_ticks(const sd_dbn *dbn, sd_tick *ticks, const uint8_t *p, uint32_t key,
                                  uint64_t position) {
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
    return make_status(ticks, p, key, position);
  case IMBALANCE:
    return make_imbalance(ticks, p, key, position);
  case STATISTICS:
    return make_statistic(dbn, ticks, p, key);
  default:
    return make_bar(ticks, p, key, position);
  }
}
