/* Where each type's fields lie, and the tick of the types that make up nearly all of a day. For the decoder's own files. */
#pragma once

#include "codec/bytes.h"
#include "codec/itch/state.h"

enum { PREFIX_BYTES = 2, HOT_BYTES = 64 };

/* Price fields are in 1e-4, ticks in 1e-9. 2^32 times this is far below 2^63, so it cannot overflow. */
#define SD_ITCH_PRICE_FACTOR INT64_C(100000)

/* The tick's last eight bytes, stored as one word. */
enum {
  TAIL_AT = offsetof(sd_tick, publisher_id),
  ACTION_SHIFT = 8 * (offsetof(sd_tick, action) - TAIL_AT),
  SIDE_SHIFT = 8 * (offsetof(sd_tick, side) - TAIL_AT),
  FLAGS_SHIFT = 8 * (offsetof(sd_tick, flags) - TAIL_AT),
  KIND_SHIFT = 8 * (offsetof(sd_tick, kind) - TAIL_AT),
  SEQUENCE_HIGH_SHIFT = 8 * (offsetof(sd_tick, sequence_high) - TAIL_AT)
};
#define TAIL(act, sid, flg, knd) \
  ((uint64_t)(uint8_t)(act) << ACTION_SHIFT | (uint64_t)(uint8_t)(sid) << SIDE_SHIFT | \
   (uint64_t)(uint8_t)(flg) << FLAGS_SHIFT | (uint64_t)(knd) << KIND_SHIFT)

typedef struct sd_itch_layout {
  uint64_t tail;      /* action, kind and constant flags; the side comes from the message */
  uint64_t empty;     /* what a size of 0 changes in the tail: an X of no shares cancels nothing, a C of size 0 all */
  uint64_t ref_mask;  /* all ones where the type has the field, else 0 */
  int64_t price_none; /* replaces the price of a type without one, else 0 */
  uint32_t price_mask;
  uint32_t size_mask;
  uint8_t length; /* of the message; 0: no such type */
  uint8_t hot;    /* decoded by this table */
  uint8_t side_at;
  uint8_t size_at;
  uint8_t price_at;
  uint8_t ref_at;
  uint8_t side_mask; /* all ones where the type has the field, else 0 */
  uint8_t side_none; /* replaces the side of a type without one, else 0 */
  uint8_t printable; /* SD_ITCH_NON_PRINTABLE for the type that has the field, else 0 */
  uint8_t pad[11];
} sd_itch_layout;

_Static_assert(sizeof(sd_itch_layout) == 64, "a type's layout is one cache line");

enum { ORDER_AT = 11, PRINTABLE_AT = 31 };

/* clang-format off */
#define HOT(len, act, knd, flg, side, shares, money, match, print)                                                     \
  {.length = (len), .hot = 1, .tail = TAIL(act, 0, flg, knd), .printable = (print),                                    \
   .side_at = (side), .side_mask = (side) ? UINT8_MAX : 0, .side_none = (side) ? 0 : 'N',                              \
   .size_at = (shares), .size_mask = (shares) ? UINT32_MAX : 0,                                                        \
   .price_at = (money), .price_mask = (money) ? UINT32_MAX : 0, .price_none = (money) ? 0 : SD_UNDEF_PRICE,            \
   .ref_at = (match), .ref_mask = (match) ? UINT64_MAX : 0, .empty = (len) == 23 ? NO_SHARES : 0}
#define NO_SHARES ((uint64_t)('C' ^ 'N') << ACTION_SHIFT)
#define RARE(len) {.length = (len)}

/* Offsets count from the message's type byte; 0 where the type lacks the field. */
static const sd_itch_layout sd_itch_layouts[256] __attribute__((aligned(64))) = {
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
static const uint8_t sd_itch_sides[256] = {['B'] = 'B', ['S'] = 'A'};

static inline void sd_itch_store_tail(sd_tick *tick, uint64_t tail) {
  memcpy((char *)tick + TAIL_AT, &tail, sizeof tail);
}

/* The six bytes of the time and the two before them, in one load. */
static inline uint64_t sd_itch_time(const uint8_t *m) { return sd_load_u64(m + 3) & UINT64_C(0xFFFFFFFFFFFF); }

/* One message of a hot type; reads m[0 .. HOT_BYTES - PREFIX_BYTES). Returns the side, 0 when it is none. */
static inline uint32_t sd_itch_decode_hot(const sd_itch_layout *t, const uint8_t *m, uint64_t midnight_ns,
                                          uint64_t sequence, sd_tick *tick) {
  const int64_t time = (int64_t)(midnight_ns + sd_itch_time(m));
  uint32_t side = (sd_itch_sides[m[t->side_at]] & t->side_mask) | t->side_none;
  const uint32_t size = sd_load_u32(m + t->size_at) & t->size_mask;
  uint64_t flags = m[PRINTABLE_AT] == 'N' ? t->printable : 0;
  tick->ts_event = time;
  tick->ts_recv = time;
  tick->order_id = sd_load_u64(m + ORDER_AT);
  tick->price = (int64_t)(sd_load_u32(m + t->price_at) & t->price_mask) * SD_ITCH_PRICE_FACTOR | t->price_none;
  tick->size = size;
  tick->instrument_id = sd_load_u16(m + 1);
  tick->sequence_low = (uint32_t)sequence;
  tick->ref_id = sd_load_u64(m + t->ref_at) & t->ref_mask;
  sd_itch_store_tail(tick, (t->tail ^ (size ? 0 : t->empty)) | (uint64_t)side << SIDE_SHIFT | flags << FLAGS_SHIFT |
                               sequence >> 32 << SEQUENCE_HIGH_SHIFT);
  return side;
}
