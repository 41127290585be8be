/* Strand's own tick: 64 bytes, one cache line, with the field names that DBN made the convention.
 *
 * The engine itself is generic over the record (a size and the offset of a u32 key). This record is what the feeds produce and what the
 * built-in handlers read. strand/ticks.py states the same layout as a numpy dtype, and tests/unit/test_ticks.py compares the two field by
 * field. */
#pragma once

#include <stddef.h>
#include <stdint.h>

/* cffi: begin */
/* What a record is (field `kind`). */
enum {
  SD_KIND_NONE = 0,
  SD_KIND_ORDER = 1,  /* a change of one order: action A, C, M, R or F */
  SD_KIND_TRADE = 2,  /* a trade, or a cross: action T */
  SD_KIND_QUOTE = 3,  /* the best price of one side: side says which; side N carries both, see docs/design.md */
  SD_KIND_STATUS = 4, /* halts, sessions, imbalances: action N; a new day: R */
  SD_KIND_TASK = 5
};
/* cffi: end */

#define SD_UNDEF_PRICE INT64_MAX
#define SD_PRICE_SCALE INT64_C(1000000000)
/* The greatest sequence that a tick holds: 40 bits. A reader has to report a greater one, because sd_set_sequence cannot. */
#define SD_MAX_SEQUENCE ((UINT64_C(1) << 40) - 1)

/* cffi: begin */
/* Everything measured or counted is signed, so that a difference may be negative; ids are unsigned. */
typedef struct sd_tick {
  int64_t ts_event;       /* venue time, ns since the UNIX epoch */
  int64_t ts_recv;        /* capture time, ns since the UNIX epoch */
  uint64_t order_id;      /* 0: none */
  int64_t price;          /* 1e-9 units; SD_UNDEF_PRICE: none */
  int64_t size;           /* in units that the feed names: shares, contracts, 1e-8 of a coin */
  uint32_t instrument_id; /* dense index into the feed's symbol table */
  uint32_t sequence_low;  /* read by sd_sequence, written by sd_set_sequence */
  uint64_t ref_id;        /* new order id of a replace, match number of a trade */
  uint16_t publisher_id;  /* venue or data set; 0: unknown */
  char action;            /* A add, C cancel, M modify, R clear, T trade, F fill, N none */
  char side;              /* A ask, B bid, N none */
  uint8_t flags;
  uint8_t depth; /* level of the book the record speaks of; 0: the top, or not a level */
  uint8_t kind;  /* SD_KIND_* */
  uint8_t sequence_high;
} sd_tick;
/* cffi: end */

#if !defined(__cplusplus)
_Static_assert(sizeof(sd_tick) == 64, "a tick is one cache line");
_Static_assert(offsetof(sd_tick, size) == 32, "the size's offset is part of the format");
_Static_assert(offsetof(sd_tick, instrument_id) == 40, "the key's offset is part of the format");
_Static_assert(offsetof(sd_tick, sequence_high) == 63, "the last field's offset is part of the format");
#endif

/* The venue's sequence, or the place in the file, counted from 1. */
static inline int64_t sd_sequence(const sd_tick *t) {
  return (int64_t)((uint64_t)t->sequence_high << 32 | t->sequence_low);
}

/* `sequence` is at most SD_MAX_SEQUENCE. */
static inline void sd_set_sequence(sd_tick *t, uint64_t sequence) {
  t->sequence_low = (uint32_t)sequence;
  t->sequence_high = (uint8_t)(sequence >> 32);
}

/* A new day of the symbol's venue begins: handlers reset what the venue resets (docs/feeds/days.md). */
static inline int sd_is_day(const sd_tick *t) { return t->action == 'R' && t->kind == SD_KIND_STATUS; }

/* Both sides of a tick of kind QUOTE. A tick of one side has no price and size 0 on the other. */
static inline int64_t sd_bid_price(const sd_tick *t) { return t->side == 'A' ? SD_UNDEF_PRICE : t->price; }
static inline int64_t sd_bid_size(const sd_tick *t) { return t->side == 'A' ? 0 : t->size; }
static inline int64_t sd_ask_price(const sd_tick *t) {
  return t->side == 'B' ? SD_UNDEF_PRICE : t->side == 'A' ? t->price : (int64_t)t->order_id;
}
static inline int64_t sd_ask_size(const sd_tick *t) {
  return t->side == 'B' ? 0 : t->side == 'A' ? t->size : (int64_t)t->ref_id;
}
