/* One symbol's resting orders, by id and by price level.
 *
 * Orders lie in one array and are found through an open-addressed index of array positions; each is linked into its level's
 * queue, oldest first. A side is a sorted array of levels with the best one last, because that is where most changes are. All
 * of it is the symbol's own: who holds its strand may use it, nobody else.
 *
 * What a tick costs is the cache lines it has to fetch. So what every tick needs of a book is one line; an entry of the index
 * carries bits of the order's hash beside its position, so that walking past others touches no order; and an order says which
 * side it is on.
 *
 * An order takes 24 bytes and a slot of the index 4: 32 bytes an order where the index is half full, which is its most, and
 * never more than 64 as both double together. A book that is all zero is empty.
 */
#ifndef SD_HANDLERS_BOOK_STORE_H
#define SD_HANDLERS_BOOK_STORE_H

#include <stdint.h>

#include "handlers/ladder.h"
#include "handlers/pool.h"

#define SD_NO_ORDER UINT32_MAX

typedef struct sd_order {
  uint64_t id;
  uint32_t size;       /* 0: the order is free */
  uint32_t place;      /* twice its level, plus its side */
  uint32_t next, prev; /* in the level's queue; SD_NO_ORDER: none. Free orders are linked by next */
} sd_order;

typedef struct sd_level {
  uint64_t size; /* of all its orders */
  int64_t price;
  uint32_t head, tail; /* oldest and newest order */
  uint32_t orders;     /* 0: the level is free, and head is the next free one */
  uint32_t side;
} sd_level;

typedef struct sd_book {
  uint32_t *index; /* by hash of the id, linear probing; 0: empty. Then the orders, half as many */
  sd_level *levels;
  int64_t
      *ladder; /* keys of the asks' levels, worst first, then of the bids'; then the levels of both in the same order */
  uint32_t n[2]; /* rungs of a side's ladder: prices with an order */
  uint32_t live; /* orders */
  uint32_t orders_used, free_order;
  uint32_t levels_used, free_level; /* free_order and free_level: plus one; 0: none */
  uint8_t index_bits;               /* log2 of the index's length; 0: there is none yet */
  uint8_t index_far;                /* an order lies further from its slot than the index can tell */
  uint16_t unused;
  uint32_t level_room, rung_room; /* of all levels, of the rungs of each side */
} sd_book;

_Static_assert(sizeof(sd_book) == 64, "a book is a cache line");

static inline int64_t *sd_book_keys(const sd_book *b, int side) { return b->ladder + (side ? b->rung_room : 0); }

/* The level of each rung. */
static inline uint32_t *sd_book_rungs(const sd_book *b, int side) {
  return (uint32_t *)(b->ladder + 2 * (uint64_t)b->rung_room) + (side ? b->rung_room : 0);
}

void sd_book_free(sd_book *b, sd_pool *pool);
/* Bytes of its arrays for orders and their index, and for levels. */
uint64_t sd_book_order_bytes(const sd_book *b);
uint64_t sd_book_level_bytes(const sd_book *b);

static inline sd_order *sd_book_orders(const sd_book *b) {
  return (sd_order *)(b->index + (UINT64_C(1) << b->index_bits));
}

static inline uint64_t sd_book_hash(uint64_t id) { return id * UINT64_C(0x9E3779B97F4A7C15); }

/* Where the index looks first. Only for a book that has had an order. */
static inline uint32_t sd_book_slot(const sd_book *b, uint64_t hash) {
  return (uint32_t)(hash >> (64 - b->index_bits));
}

/* The first rung of a side that is not worse than a price: where its level is, or belongs. */
static inline uint32_t sd_book_rung(const sd_book *b, int side, int64_t price) {
  return sd_ladder_find(sd_book_keys(b, side), b->n[side], sd_ladder_key(side, price));
}

/* Where an order lies; SD_NO_ORDER: there is none. */
uint32_t sd_book_find(const sd_book *b, uint64_t id);
/* What sd_book_find will most likely say, without a look at any order. */
uint32_t sd_book_guess(const sd_book *b, uint64_t id);

/* What sd_book_add did. */
enum { SD_BOOK_NO_MEMORY = 0, SD_BOOK_ADDED = 1, SD_BOOK_DUPLICATE = 2 };

/* A new order at the end of its level's queue, unless its id is there already. `rung` is a guess of sd_book_rung. Without
 * memory the book is as it was. */
int sd_book_add(sd_book *b, sd_pool *pool, uint64_t id, int side, int64_t price, uint32_t size, uint32_t rung);
void sd_book_remove(sd_book *b, uint32_t order);
/* Less of an order that keeps its place; by less than what is left. */
void sd_book_reduce(sd_book *b, uint32_t order, uint32_t by);
/* Another size, price or both. It keeps its place only with the same price and no more size. Zero: no memory, as it was. */
int sd_book_change(sd_book *b, sd_pool *pool, uint32_t order, int64_t price, uint32_t size);
void sd_book_clear(sd_book *b);

/* The best level of a side; NULL: the side is empty. */
static inline const sd_level *sd_book_best(const sd_book *b, int side) {
  return b->n[side] ? &b->levels[sd_book_rungs(b, side)[b->n[side] - 1]] : 0;
}

static inline int sd_order_side(const sd_order *o) { return (int)(o->place & 1); }
static inline uint32_t sd_order_level(const sd_order *o) { return o->place >> 1; }

#endif
