/* The decoder has two ways through a frame.
 *
 * The eight types that are nearly all of a day (A D U E X F C P) differ only in where a field lies and whether it is
 * there. A table says so, and the loop reads every field at the table's offset and masks out what the type lacks: no
 * branch depends on the type, so the unpredictable order of types costs nothing. It reads up to HOT_BYTES from the
 * frame's start whatever the type, so it runs only while that much is left in the buffer.
 *
 * All else (rare types, faults, the buffer's last bytes) goes through take_any(), one frame a call, which reads only
 * what is there: the tail is copied into a padded block and decoded by the same code.
 */
#include "decode/itch.h"

#include <string.h>

#define LIKELY(x) __builtin_expect(!!(x), 1)
#define UNLIKELY(x) __builtin_expect(!!(x), 0)

_Static_assert(__BYTE_ORDER__ == __ORDER_LITTLE_ENDIAN__, "ticks are packed little-endian");

enum { PREFIX_BYTES = 2, HOT_BYTES = 64 };

/* Price fields are in 1e-4, ticks in 1e-9. 2^32 times this is far below 2^63: it cannot overflow. */
#define PRICE_FACTOR INT64_C(100000)

/* The tick's last eight bytes, stored as one word. */
enum {
  TAIL_AT = offsetof(sd_tick, publisher_id),
  ACTION_SHIFT = 8 * (offsetof(sd_tick, action) - TAIL_AT),
  SIDE_SHIFT = 8 * (offsetof(sd_tick, side) - TAIL_AT),
  FLAGS_SHIFT = 8 * (offsetof(sd_tick, flags) - TAIL_AT),
  KIND_SHIFT = 8 * (offsetof(sd_tick, kind) - TAIL_AT)
};
#define TAIL(act, sid, flg, knd) \
  ((uint64_t)(uint8_t)(act) << ACTION_SHIFT | (uint64_t)(uint8_t)(sid) << SIDE_SHIFT | \
   (uint64_t)(uint8_t)(flg) << FLAGS_SHIFT | (uint64_t)(knd) << KIND_SHIFT)

typedef struct layout {
  uint64_t tail;      /* action, kind and constant flags; the side comes from the message */
  uint64_t ref_mask;  /* all ones where the type has the field, else 0 */
  int64_t price_none; /* what stands for the price where there is none, else 0 */
  uint32_t price_mask;
  uint32_t size_mask;
  uint8_t length; /* of the message; 0: no such type */
  uint8_t hot;    /* decoded by this table */
  uint8_t side_at;
  uint8_t size_at;
  uint8_t price_at;
  uint8_t ref_at;
  uint8_t side_mask; /* all ones where the type has the field, else 0 */
  uint8_t side_none; /* what stands for the side where there is none, else 0 */
  uint8_t printable; /* SD_ITCH_NON_PRINTABLE for the type that has the field, else 0 */
  uint8_t pad[19];
} layout;

_Static_assert(sizeof(layout) == 64, "a type's layout is one cache line");

enum { ORDER_AT = 11, PRINTABLE_AT = 31 };

/* clang-format off */
#define HOT(len, act, knd, flg, side, shares, money, match, print)                                                     \
  {.length = (len), .hot = 1, .tail = TAIL(act, 0, flg, knd), .printable = (print),                                    \
   .side_at = (side), .side_mask = (side) ? UINT8_MAX : 0, .side_none = (side) ? 0 : 'N',                              \
   .size_at = (shares), .size_mask = (shares) ? UINT32_MAX : 0,                                                        \
   .price_at = (money), .price_mask = (money) ? UINT32_MAX : 0, .price_none = (money) ? 0 : SD_UNDEF_PRICE,            \
   .ref_at = (match), .ref_mask = (match) ? UINT64_MAX : 0}
#define RARE(len) {.length = (len)}

/* Offsets count from the message's type byte; 0 where the type lacks the field. */
static const layout layouts[256] __attribute__((aligned(64))) = {
    /*      length action kind      flags          side size price ref printable */
    ['A'] = HOT(36, 'A', SD_KIND_ORDER, 0,                  19, 20, 32,  0, 0),
    ['F'] = HOT(40, 'A', SD_KIND_ORDER, SD_ITCH_ATTRIBUTED, 19, 20, 32,  0, 0),
    ['E'] = HOT(31, 'F', SD_KIND_ORDER, 0,                   0, 19,  0, 23, 0),
    ['C'] = HOT(36, 'F', SD_KIND_ORDER, 0,                   0, 19, 32, 23, SD_ITCH_NON_PRINTABLE),
    ['X'] = HOT(23, 'C', SD_KIND_ORDER, 0,                   0, 19,  0,  0, 0),
    ['D'] = HOT(19, 'C', SD_KIND_ORDER, 0,                   0,  0,  0,  0, 0),
    ['U'] = HOT(35, 'M', SD_KIND_ORDER, 0,                   0, 27, 31, 19, 0),
    ['P'] = HOT(44, 'T', SD_KIND_TRADE, 0,                  19, 20, 32, 36, 0),
    ['Q'] = RARE(40), ['H'] = RARE(25), ['I'] = RARE(50), ['R'] = RARE(39),
    ['S'] = RARE(12), ['Y'] = RARE(20), ['L'] = RARE(26), ['V'] = RARE(35), ['W'] = RARE(12), ['K'] = RARE(28),
    ['J'] = RARE(35), ['h'] = RARE(21), ['B'] = RARE(19), ['N'] = RARE(20), ['O'] = RARE(48),
};
/* clang-format on */

/* 0: not a side. */
static const uint8_t side_of[256] = {['B'] = 'B', ['S'] = 'A'};

static inline uint32_t load_u16(const uint8_t *p) {
  uint16_t v;
  memcpy(&v, p, sizeof v);
  return __builtin_bswap16(v);
}

static inline uint32_t load_u32(const uint8_t *p) {
  uint32_t v;
  memcpy(&v, p, sizeof v);
  return __builtin_bswap32(v);
}

static inline uint64_t load_u64(const uint8_t *p) {
  uint64_t v;
  memcpy(&v, p, sizeof v);
  return __builtin_bswap64(v);
}

static inline void store_tail(sd_tick *tick, uint64_t tail) { memcpy((char *)tick + TAIL_AT, &tail, sizeof tail); }

/* The six bytes of the time and the two before them, in one load. */
static inline uint64_t message_time(const uint8_t *m) { return load_u64(m + 3) & UINT64_C(0xFFFFFFFFFFFF); }

/* One message of a hot type; reads m[0 .. HOT_BYTES - PREFIX_BYTES). Returns the side, 0 when it is none. */
static inline uint32_t decode_hot(const layout *t, const uint8_t *m, uint64_t midnight_ns, uint64_t sequence,
                                  sd_tick *tick) {
  uint64_t time = midnight_ns + message_time(m);
  uint32_t side = (side_of[m[t->side_at]] & t->side_mask) | t->side_none;
  uint64_t flags = m[PRINTABLE_AT] == 'N' ? t->printable : 0;
  tick->ts_event = time;
  tick->ts_recv = time;
  tick->order_id = load_u64(m + ORDER_AT);
  tick->price = (int64_t)(load_u32(m + t->price_at) & t->price_mask) * PRICE_FACTOR | t->price_none;
  tick->size = load_u32(m + t->size_at) & t->size_mask;
  tick->instrument_id = load_u16(m + 1);
  tick->sequence = sequence;
  tick->ref_id = load_u64(m + t->ref_at) & t->ref_mask;
  store_tail(tick, t->tail | (uint64_t)side << SIDE_SHIFT | flags << FLAGS_SHIFT);
  return side;
}

static uint32_t clip_size(sd_itch *itch, uint64_t shares, uint64_t *tail) {
  if (shares <= UINT32_MAX) return (uint32_t)shares;
  itch->clipped++;
  *tail |= (uint64_t)SD_ITCH_SIZE_CLIPPED << FLAGS_SHIFT;
  return UINT32_MAX;
}

static uint32_t cross_flags(uint8_t cross_type) {
  switch (cross_type) {
  case 'O':
    return SD_ITCH_CROSS | SD_ITCH_CROSS_OPENING;
  case 'C':
    return SD_ITCH_CROSS | SD_ITCH_CROSS_CLOSING;
  case 'H':
    return SD_ITCH_CROSS | SD_ITCH_CROSS_HALT;
  case 'I':
    return SD_ITCH_CROSS | SD_ITCH_CROSS_INTRADAY;
  default:
    return SD_ITCH_CROSS;
  }
}

/* Ticks of the rare types that make one. False: the type makes none. */
static int decode_rare(sd_itch *itch, const uint8_t *m, sd_tick *tick) {
  uint64_t tail;
  sd_tick made = {.price = SD_UNDEF_PRICE, .instrument_id = load_u16(m + 1), .sequence = itch->messages + 1};
  made.ts_event = made.ts_recv = itch->midnight_ns + message_time(m);
  switch (m[0]) {
  case 'Q':
    tail = TAIL('T', 'N', cross_flags(m[39]), SD_KIND_TRADE);
    made.size = clip_size(itch, load_u64(m + 11), &tail);
    made.price = (int64_t)load_u32(m + 27) * PRICE_FACTOR;
    made.ref_id = load_u64(m + 31);
    break;
  case 'H':
    tail = TAIL('N', 'N', m[19] & 0x7F, SD_KIND_STATUS);
    made.ref_id = load_u32(m + 21);
    break;
  case 'I':
    tail = TAIL('N', m[27] == 'B' ? 'B' : m[27] == 'S' ? 'A' : 'N', SD_ITCH_IMBALANCE | (m[48] & 0x7F), SD_KIND_STATUS);
    made.size = clip_size(itch, load_u64(m + 11), &tail);
    made.price = (int64_t)load_u32(m + 44) * PRICE_FACTOR;
    made.ref_id = load_u64(m + 19);
    break;
  default:
    return 0;
  }
  *tick = made;
  store_tail(tick, tail);
  return 1;
}

/* R: the locate's name. Returns a fault. */
static uint32_t name_locate(sd_itch *itch, const uint8_t *m, uint8_t *value) {
  uint32_t locate = load_u16(m + 1);
  const uint8_t *name = m + 11;
  char *known = itch->symbols[locate];
  *value = name[0];
  if (name[0] == ' ') return SD_ITCH_FAULT_SYMBOL;
  for (int i = 0; i < SD_ITCH_SYMBOL_BYTES; i++) {
    if (name[i] < 0x20 || name[i] > 0x7E) {
      *value = name[i];
      return SD_ITCH_FAULT_SYMBOL;
    }
  }
  if (known[0] != 0) return memcmp(known, name, SD_ITCH_SYMBOL_BYTES) == 0 ? SD_ITCH_FAULT_NONE : SD_ITCH_FAULT_RENAMED;
  memcpy(known, name, SD_ITCH_SYMBOL_BYTES);
  itch->symbol_names++;
  if (itch->symbol_count <= locate) itch->symbol_count = locate + 1;
  return SD_ITCH_FAULT_NONE;
}

static int fail(sd_itch *itch, uint32_t fault, uint32_t length, uint8_t type, uint8_t value) {
  itch->fault = fault;
  itch->fault_offset = itch->offset;
  itch->fault_length = (uint16_t)length;
  itch->fault_type = type;
  itch->fault_value = value;
  return fault == SD_ITCH_FAULT_TRUNCATED ? SD_E_TRUNCATED : SD_E_FORMAT;
}

/* What is left of buf holds no whole frame. */
static int end_of_buffer(sd_itch *itch, const uint8_t *p, uint64_t left, int last, uint64_t *used) {
  *used = 0;
  if (!last || left == 0) return SD_AGAIN;
  if (left == PREFIX_BYTES && itch->prefixed && load_u16(p) == 0) {
    /* A lone zero length closes a session in files of true lengths. Where all lengths are 0 it is the start of a
     * message, and the rest is missing. */
    *used = PREFIX_BYTES;
    return SD_AGAIN;
  }
  return fail(itch, SD_ITCH_FAULT_TRUNCATED, left < PREFIX_BYTES ? 0 : load_u16(p),
              left > PREFIX_BYTES ? p[PREFIX_BYTES] : 0, 0);
}

/* One frame of any kind, reading only p[0 .. left). SD_OK: *used bytes passed and *made ticks (0 or 1) written;
 * SD_AGAIN: no whole frame left; else a fault, and the frame is not passed. */
static __attribute__((noinline, cold)) int take_any(sd_itch *itch, const uint8_t *p, uint64_t left, int last,
                                                    sd_tick *tick, uint64_t *used, uint64_t *made) {
  uint8_t padded[HOT_BYTES] = {0};
  *made = 0;
  if (left <= PREFIX_BYTES) return end_of_buffer(itch, p, left, last, used);
  uint32_t prefix = load_u16(p);
  uint8_t type = p[PREFIX_BYTES];
  const layout *t = &layouts[type];
  if (prefix > SD_ITCH_MAX_MESSAGE || (t->length != 0 && prefix != 0 && prefix != t->length))
    return fail(itch, SD_ITCH_FAULT_LENGTH, prefix, type, 0);
  if (t->length == 0 && (prefix == 0 || !itch->skip)) return fail(itch, SD_ITCH_FAULT_UNKNOWN_TYPE, prefix, type, type);

  uint64_t length = t->length != 0 ? t->length : prefix;
  if (left < PREFIX_BYTES + length) return end_of_buffer(itch, p, left, last, used);

  *used = PREFIX_BYTES + length;
  itch->prefixed |= prefix != 0;
  if (t->length == 0) {
    itch->skipped_unknown_type++;
    return SD_OK;
  }
  memcpy(padded, p + PREFIX_BYTES, length);
  uint32_t fault = SD_ITCH_FAULT_NONE;
  uint8_t value = 0;
  if (t->hot) {
    if (decode_hot(t, padded, itch->midnight_ns, itch->messages + 1, tick) != 0) {
      *made = 1;
    } else {
      fault = SD_ITCH_FAULT_SIDE;
      value = padded[t->side_at];
    }
  } else if (type == 'R') {
    fault = name_locate(itch, padded, &value);
  } else {
    *made = (uint64_t)decode_rare(itch, padded, tick);
  }
  if (fault != SD_ITCH_FAULT_NONE) {
    if (!itch->skip) return fail(itch, fault, prefix, type, value);
    itch->skipped_bad_field++;
    return SD_OK;
  }
  itch->counts[type]++;
  return SD_OK;
}

_Static_assert(HOT_BYTES >= 50 + PREFIX_BYTES, "the longest message fits the padded block");

/* Frames of hot types while HOT_BYTES are left in the buffer. Stops before the first frame it cannot take. */
static const uint8_t *take_hot(sd_itch *itch, const uint8_t *p, const uint8_t *end, sd_tick **next,
                               const sd_tick *full) {
  const uint8_t *start = p;
  sd_tick *tick = *next;
  uint64_t midnight_ns = itch->midnight_ns;
  uint64_t sequence = itch->messages;
  uint32_t prefixes = 0;
  while (tick != full && LIKELY(end - p >= HOT_BYTES)) {
    uint32_t prefix = load_u16(p);
    const uint8_t *m = p + PREFIX_BYTES;
    const layout *t = &layouts[m[0]];
    if (UNLIKELY(!t->hot || (prefix != t->length && prefix != 0))) break;
    if (UNLIKELY(decode_hot(t, m, midnight_ns, sequence + 1, tick) == 0)) break;
    itch->counts[m[0]]++;
    prefixes |= prefix;
    sequence++;
    tick++;
    p += PREFIX_BYTES + t->length;
  }
  itch->prefixed |= prefixes != 0;
  itch->messages = sequence;
  itch->offset += (uint64_t)(p - start);
  *next = tick;
  return p;
}

int sd_itch_decode(sd_itch *itch, const uint8_t *buf, uint64_t len, int last, sd_tick *ticks, uint64_t capacity) {
  const uint8_t *p = buf;
  const uint8_t *end = buf + len;
  sd_tick *tick = ticks;
  const sd_tick *full = ticks + capacity;
  int code = SD_OK;
  itch->fault = SD_ITCH_FAULT_NONE;
  while (tick != full) {
    uint64_t used;
    uint64_t made;
    p = take_hot(itch, p, end, &tick, full);
    if (tick == full) break;
    code = take_any(itch, p, (uint64_t)(end - p), last, tick, &used, &made);
    if (code == SD_OK) itch->messages++;
    else if (code != SD_AGAIN) break;
    p += used;
    itch->offset += used;
    tick += made;
    if (code == SD_AGAIN) {
      code = SD_OK;
      break;
    }
  }
  itch->made = (uint64_t)(tick - ticks);
  itch->consumed = (uint64_t)(p - buf);
  itch->ticks += itch->made;
  return code;
}

void sd_itch_init(sd_itch *itch, uint64_t midnight_ns, uint32_t skip) {
  memset(itch, 0, sizeof *itch);
  itch->midnight_ns = midnight_ns;
  itch->skip = skip;
}

uint32_t sd_itch_length(uint8_t type) { return layouts[type].length; }
