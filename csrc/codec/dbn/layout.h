/* DBN records on the wire: types, lengths, and where their fields are. For dbn.c and dbn_ticks.h. */
#ifndef SD_CODEC_DBN_LAYOUT_H
#define SD_CODEC_DBN_LAYOUT_H

#include "sd_tick.h"

#include <stdint.h>
#include <string.h>

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

static inline uint16_t load_u16(const uint8_t *p) {
  uint16_t v;
  memcpy(&v, p, sizeof v);
  return v;
}

static inline uint32_t load_u32(const uint8_t *p) {
  uint32_t v;
  memcpy(&v, p, sizeof v);
  return v;
}

static inline uint64_t load_u64(const uint8_t *p) {
  uint64_t v;
  memcpy(&v, p, sizeof v);
  return v;
}

static inline int64_t load_i64(const uint8_t *p) { return (int64_t)load_u64(p); }

static inline uint64_t event_time(const uint8_t *p) { return load_u64(p + 8); }

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

#endif
