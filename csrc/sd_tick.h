/* The project's own tick: 64 bytes, one cache line, with the field names that DBN made the convention.
 *
 * The engine itself is generic over the record (a size and the offset of a u32 key); this record is what the
 * feeds produce and what the built-in handlers read. strand/ticks.py states the same layout as a numpy dtype and
 * tests/unit/test_ticks.py compares the two field by field.
 */
#ifndef SD_TICK_H
#define SD_TICK_H

#include <stddef.h>
#include <stdint.h>

/* What a record is (field `kind`). */
enum {
  SD_KIND_NONE = 0,
  SD_KIND_ORDER = 1,  /* a change of one order: action A, C, M, R or F */
  SD_KIND_TRADE = 2,  /* a trade, or a cross: action T */
  SD_KIND_QUOTE = 3,  /* the best price of one side: side says which; side N carries both, see docs/design.md */
  SD_KIND_STATUS = 4, /* halts, sessions, imbalances: action N */
  SD_KIND_TASK = 5
};

#define SD_UNDEF_PRICE INT64_MAX
#define SD_PRICE_SCALE INT64_C(1000000000)

typedef struct sd_tick {
  uint64_t ts_event;      /* venue time, ns since the UNIX epoch */
  uint64_t ts_recv;       /* capture time, ns since the UNIX epoch */
  uint64_t order_id;      /* 0: none */
  int64_t price;          /* 1e-9 units; SD_UNDEF_PRICE: none */
  uint32_t size;          /* shares, contracts */
  uint32_t instrument_id; /* dense index into the feed's symbol table */
  uint64_t sequence;      /* the venue's, else the position in the file */
  uint64_t ref_id;        /* new order id of a replace, match number of a trade */
  uint16_t publisher_id;  /* venue or data set; 0: unknown */
  char action;            /* A add, C cancel, M modify, R clear, T trade, F fill, N none */
  char side;              /* A ask, B bid, N none */
  uint8_t flags;
  uint8_t depth; /* level of the book the record speaks of; 0: the top, or not a level */
  uint16_t kind; /* SD_KIND_* */
} sd_tick;

#if !defined(__cplusplus)
_Static_assert(sizeof(sd_tick) == 64, "a tick is one cache line");
_Static_assert(offsetof(sd_tick, instrument_id) == 36, "the key's offset is part of the format");
_Static_assert(offsetof(sd_tick, kind) == 62, "the last field's offset is part of the format");
#endif

#endif
