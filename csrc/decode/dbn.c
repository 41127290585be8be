/* Most of a file is one type of record, so a branch on the type costs nothing; what costs is looking an instrument up
 * (a table whose last entry is tried first) and writing 64 bytes a tick. MBO, the dense one, has a loop of its own.
 */
#include "decode/dbn.h"

#include <string.h>

#define LIKELY(x) __builtin_expect(!!(x), 1)
#define UNLIKELY(x) __builtin_expect(!!(x), 0)

_Static_assert(__BYTE_ORDER__ == __ORDER_LITTLE_ENDIAN__, "ticks are packed little-endian");

/* Record types. Those of the same layout have one name here. */
enum {
  TRADES = 0x00,
  MBP_1 = 0x01, /* TBBO too */
  MBP_10 = 0x0A,
  OHLCV_OLD = 0x11, /* before a type told the bar's length */
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

enum { MBO_BYTES = 56, STATISTICS_V1_BYTES = 64, STATISTICS_V3_BYTES = 80, LEVEL_BYTES = 32, LEVELS_AT = 48 };
enum { ANY_LENGTH = 1, UNDEF_I32 = INT32_MAX };

#define UNDEF_TIME UINT64_MAX

/* Bytes of a record without what ts_out adds; 0: no such type. */
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

/* One above the kind of an MBO tick; 0: no action. */
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

/* Where a type has its receive time; 0 where it has none. */
static uint32_t received_at(uint8_t type) {
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

static inline uint64_t first_defined(uint64_t a, uint64_t b) {
  if (a != UNDEF_TIME) return a;
  return b != UNDEF_TIME ? b : 0;
}

/* Both times, and what any record has. */
static inline void begin_tick(sd_tick *tick, const uint8_t *p, uint64_t received, uint32_t key) {
  uint64_t event = event_time(p);
  *tick = (sd_tick){.ts_event = first_defined(event, received),
                    .ts_recv = first_defined(received, event),
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
  tick->sequence = load_u32(p + 52);
  tick->action = (char)p[38];
  tick->side = (char)p[39];
  tick->flags = p[36];
  tick->kind = (uint16_t)(kind_of_action[p[38]] - 1);
}

/* A trades record, and the head of the records of books, which is the same; `consolidated` ones have no depth and no
 * sequence. */
static void make_trade(sd_tick *tick, const uint8_t *p, uint32_t key, int consolidated, uint64_t position) {
  begin_tick(tick, p, load_u64(p + 32), key);
  tick->price = load_i64(p + 16);
  tick->size = load_u32(p + 24);
  tick->sequence = consolidated ? position : load_u32(p + 44);
  tick->action = (char)p[28];
  tick->side = (char)p[29];
  tick->flags = p[30];
  tick->depth = consolidated ? 0 : p[31];
  tick->kind = SD_KIND_TRADE;
}

/* Both sides of one level. */
static void make_quote(sd_tick *tick, const uint8_t *level, uint8_t depth) {
  tick->price = load_i64(level);
  tick->order_id = load_u64(level + 8);
  tick->size = load_u32(level + 16);
  tick->ref_id = load_u32(level + 20);
  tick->side = 'N';
  tick->depth = depth;
  tick->kind = SD_KIND_QUOTE;
}

static uint64_t make_book(sd_tick *ticks, const uint8_t *p, uint32_t key, uint32_t levels, int consolidated,
                          uint64_t position) {
  uint64_t made = 0;
  sd_tick head;
  make_trade(&head, p, key, consolidated, position);
  for (uint32_t i = 0; i < levels; i++) {
    const uint8_t *level = p + LEVELS_AT + i * LEVEL_BYTES;
    if (i && load_i64(level) == SD_UNDEF_PRICE && load_i64(level + 8) == SD_UNDEF_PRICE) continue;
    ticks[made] = head;
    make_quote(&ticks[made++], level, (uint8_t)i);
  }
  if (head.action == 'T') ticks[made++] = head;
  return made;
}

/* A book sampled at the end of a second or a minute. */
static uint64_t make_sample(sd_tick *tick, const uint8_t *p, uint32_t key, int consolidated, uint64_t position) {
  begin_tick(tick, p, load_u64(p + 32), key);
  tick->sequence = consolidated ? position : load_u32(p + 44);
  tick->flags = p[30];
  make_quote(tick, p + LEVELS_AT, 0);
  return 1;
}

static uint64_t bar_ns(uint8_t type) {
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

static void clip(sd_dbn *dbn, sd_tick *tick, uint64_t size) {
  tick->size = size > UINT32_MAX ? UINT32_MAX : (uint32_t)size;
  if (size <= UINT32_MAX) return;
  tick->flags |= SD_DBN_SIZE_CLIPPED;
  dbn->clipped++;
}

static uint64_t make_bar(sd_dbn *dbn, sd_tick *ticks, const uint8_t *p, uint32_t key) {
  uint64_t start = event_time(p);
  uint64_t length = bar_ns(p[1]);
  uint64_t end = start < UNDEF_TIME - length ? start + length : UNDEF_TIME;
  for (uint8_t corner = 0; corner < 4; corner++) {
    sd_tick *tick = &ticks[corner];
    begin_tick(tick, p, end, key);
    tick->price = load_i64(p + 16 + 8 * corner);
    tick->sequence = dbn->records + 1;
    tick->action = 'T';
    tick->depth = corner;
    tick->kind = SD_KIND_TRADE;
  }
  ticks[3].ref_id = load_u64(p + 48);
  clip(dbn, &ticks[3], ticks[3].ref_id);
  return 4;
}

static uint64_t make_status(sd_dbn *dbn, sd_tick *tick, const uint8_t *p, uint32_t key) {
  begin_tick(tick, p, load_u64(p + 16), key);
  tick->sequence = dbn->records + 1;
  tick->ref_id = load_u16(p + 24) | (uint64_t)load_u16(p + 26) << 16 | (uint64_t)load_u16(p + 28) << 32;
  tick->flags = (uint8_t)((p[30] == 'Y' ? SD_DBN_TRADING : 0) | (p[31] == 'Y' ? SD_DBN_QUOTING : 0) |
                          (p[32] == 'Y' ? SD_DBN_SHORT_SELL_RESTRICTED : 0));
  tick->kind = SD_KIND_STATUS;
  return 1;
}

static uint64_t make_imbalance(sd_dbn *dbn, sd_tick *tick, const uint8_t *p, uint32_t key) {
  begin_tick(tick, p, load_u64(p + 16), key);
  tick->sequence = dbn->records + 1;
  tick->price = load_i64(p + 24);
  tick->size = load_u32(p + 88);
  tick->ref_id = load_u32(p + 92);
  tick->side = (char)p[105];
  tick->flags = (uint8_t)(SD_DBN_IMBALANCE | (p[104] & 0x7F));
  tick->kind = SD_KIND_STATUS;
  return 1;
}

static uint64_t make_statistic(sd_dbn *dbn, sd_tick *tick, const uint8_t *p, uint32_t key) {
  int narrow = dbn->version < 3;
  int32_t small = (int32_t)load_u32(p + 40);
  int64_t quantity = narrow ? (small == UNDEF_I32 ? INT64_MAX : small) : load_i64(p + 40);
  begin_tick(tick, p, load_u64(p + 16), key);
  tick->price = load_i64(p + 32);
  tick->sequence = load_u32(p + (narrow ? 44 : 48));
  tick->ref_id = load_u16(p + (narrow ? 52 : 56));
  tick->flags = SD_DBN_STATISTIC;
  tick->kind = SD_KIND_STATUS;
  if (quantity == INT64_MAX) return 1;
  tick->order_id = (uint64_t)quantity;
  if (quantity >= 0) {
    clip(dbn, tick, (uint64_t)quantity);
  } else {
    tick->flags |= SD_DBN_SIZE_CLIPPED;
    dbn->clipped++;
  }
  return 1;
}

/* The ticks of one record that has been found sound; their number. */
static uint64_t make_ticks(sd_dbn *dbn, sd_tick *ticks, const uint8_t *p, uint32_t key) {
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

/* Notes what is wrong with, or to be asked about, the record at the stream's place. */
static __attribute__((cold)) int stop(sd_dbn *dbn, uint8_t why, const uint8_t *p, uint64_t left, uint8_t value) {
  dbn->fault = why;
  dbn->fault_offset = dbn->offset;
  dbn->fault_length = left ? p[0] * 4u : 0;
  dbn->fault_type = left > 1 ? p[1] : 0;
  dbn->fault_value = value;
  if (why == SD_DBN_FAULT_TRUNCATED) return SD_E_TRUNCATED;
  return why >= SD_DBN_STOP_INSTRUMENT ? SD_AGAIN : SD_E_FORMAT;
}

static int makes_ticks(uint8_t type) { return lengths[type] > ANY_LENGTH; }

/* What is wrong with a whole record, and the byte that is. */
static uint8_t find_fault(const sd_dbn *dbn, const uint8_t *p, uint8_t *value) {
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
  return SD_DBN_FAULT_NONE;
}

static inline int is_wanted_time(const sd_dbn *dbn, uint64_t time) {
  return time >= dbn->start_ns && time <= dbn->last_ns;
}

/* One record of any type. SD_OK: *used bytes are passed and *made ticks written. SD_AGAIN with dbn->fault clear: no
 * whole record is left. */
static int take_any(sd_dbn *dbn, const uint8_t *p, uint64_t left, int last, sd_tick *ticks, uint64_t *used,
                    uint64_t *made) {
  *used = *made = 0;
  if (left == 0) return SD_AGAIN;
  uint64_t size = p[0] * UINT64_C(4);
  if (size < SD_DBN_HEADER) return stop(dbn, SD_DBN_FAULT_OUT_OF_STEP, p, left, 0);
  if (left < size) return last ? stop(dbn, SD_DBN_FAULT_TRUNCATED, p, left, 0) : SD_AGAIN;

  uint8_t type = p[1];
  uint8_t value = 0;
  uint8_t fault = find_fault(dbn, p, &value);
  if (fault != SD_DBN_FAULT_NONE) {
    if (!dbn->skip) return stop(dbn, fault, p, left, value);
    if (dbn->skipped[fault]++ == 0) dbn->first_skipped[fault] = dbn->offset;
    *used = size;
    return SD_OK;
  }
  if (makes_ticks(type)) {
    uint32_t at = received_at(type);
    uint64_t time = first_defined(at ? load_u64(p + at) : UNDEF_TIME, event_time(p));
    uint32_t id = load_u32(p + 4);
    uint32_t key = sd_dbn_instruments_find(dbn->instruments, id, time);
    if (key == SD_DBN_UNKNOWN) {
      dbn->fault_instrument = id;
      dbn->fault_time = time;
      return stop(dbn, SD_DBN_STOP_INSTRUMENT, p, left, 0);
    }
    uint64_t clipped = dbn->clipped;
    uint64_t count = key == SD_DBN_UNWANTED ? 0 : make_ticks(dbn, ticks, p, key);
    if (count && is_wanted_time(dbn, ticks[0].ts_recv)) {
      *made = count;
    } else {
      dbn->not_selected += count ? count : 1;
      dbn->clipped = clipped;
    }
  }
  dbn->counts[type]++;
  *used = size;
  return SD_OK;
}

/* MBO records while there are any. Stops before the first record that is not a plain one. */
static const uint8_t *take_mbo(sd_dbn *dbn, const uint8_t *p, const uint8_t *end, sd_tick **next, const sd_tick *full) {
  const uint8_t *start = p;
  sd_tick *tick = *next;
  uint64_t size = MBO_BYTES + dbn->tail;
  uint64_t taken = 0;
  while (tick < full && LIKELY((uint64_t)(end - p) >= size)) {
    if (UNLIKELY(p[0] * UINT64_C(4) != size || p[1] != MBO)) break;
    if (UNLIKELY(!kind_of_action[p[38]] || !is_side[p[39]])) break;
    uint64_t time = first_defined(load_u64(p + 40), event_time(p));
    uint32_t key = sd_dbn_instruments_find(dbn->instruments, load_u32(p + 4), time);
    if (UNLIKELY(key == SD_DBN_UNKNOWN)) break;
    if (key != SD_DBN_UNWANTED && is_wanted_time(dbn, time)) {
      make_mbo(tick, p, key);
      tick++;
    } else {
      dbn->not_selected++;
    }
    taken++;
    p += size;
  }
  dbn->counts[MBO] += taken;
  dbn->records += taken;
  dbn->offset += (uint64_t)(p - start);
  *next = tick;
  return p;
}

int sd_dbn_decode(sd_dbn *dbn, const uint8_t *buf, uint64_t len, int last, sd_tick *ticks, uint64_t capacity) {
  const uint8_t *p = buf;
  const uint8_t *end = buf + len;
  sd_tick *tick = ticks;
  const sd_tick *full = ticks + capacity - (SD_DBN_MAX_TICKS - 1); /* from here on there is no room for any record */
  int code = SD_OK;
  dbn->fault = SD_DBN_FAULT_NONE;
  dbn->full = 0;
  for (;;) {
    uint64_t used;
    uint64_t made;
    p = take_mbo(dbn, p, end, &tick, full);
    if (tick >= full) {
      dbn->full = 1;
      break;
    }
    code = take_any(dbn, p, (uint64_t)(end - p), last, tick, &used, &made);
    if (code != SD_OK) break;
    uint8_t type = p[1];
    dbn->records++;
    dbn->offset += used;
    p += used;
    tick += made;
    if (type == SYMBOL_MAPPING) {
      dbn->fault = SD_DBN_STOP_MAPPING;
      dbn->fault_offset = dbn->offset - used;
      dbn->fault_length = (uint32_t)used;
      code = SD_AGAIN;
      break;
    }
  }
  if (code == SD_AGAIN && dbn->fault == SD_DBN_FAULT_NONE) code = SD_OK;
  dbn->made = (uint64_t)(tick - ticks);
  dbn->consumed = (uint64_t)(p - buf);
  dbn->ticks += dbn->made;
  return code;
}

void sd_dbn_init(sd_dbn *dbn, uint32_t version, sd_dbn_instruments *instruments) {
  memset(dbn, 0, sizeof *dbn);
  dbn->last_ns = UINT64_MAX;
  dbn->version = version;
  dbn->levels = 1;
  dbn->instruments = instruments;
}
