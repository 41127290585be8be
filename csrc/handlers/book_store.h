/* One symbol's resting orders, by id and by price level.
 *
 * Orders lie in one array and are found through an open-addressed index of array positions; each is linked into its level's
 * queue, oldest first. A side is a sorted array of levels with the best one last, because that is where most changes are. All
 * of it is the symbol's own: who holds its strand may use it, nobody else.
 *
 * An order takes 24 bytes and, with the index at most 3/5 full and arrays that grow by half, at most 50 in all.
 */
#ifndef SD_HANDLERS_BOOK_STORE_H
#define SD_HANDLERS_BOOK_STORE_H

#include <stdint.h>

enum { SD_ASK = 0, SD_BID = 1 };

#define SD_NO_ORDER UINT32_MAX

typedef struct sd_order {
  uint64_t id;
  uint32_t size;
  uint32_t level;
  uint32_t next, prev; /* in the level's queue; SD_NO_ORDER: none. Free orders are linked by next */
} sd_order;

typedef struct sd_level {
  uint64_t size; /* of all its orders */
  int64_t price;
  uint32_t head, tail; /* oldest and newest order */
  uint32_t orders;     /* 0: the level is free, and head is the next free one */
  uint32_t side;
} sd_level;

typedef struct sd_rung {
  int64_t key; /* the price, negated for asks: greater is better on both sides */
  uint32_t level;
} sd_rung;

typedef struct sd_side {
  sd_rung *rungs; /* worst first */
  uint32_t n, room;
} sd_side;

typedef struct sd_book {
  uint32_t *index; /* order + 1 by hash of its id, linear probing; 0: empty */
  sd_order *orders;
  sd_level *levels;
  uint32_t index_shift; /* 64 - log2 of the index's length */
  uint32_t live;        /* orders */
  uint32_t order_room, orders_used, free_order;
  uint32_t level_room, levels_used, free_level;
  sd_side side[2];
} sd_book;

void sd_book_init(sd_book *b);
void sd_book_free(sd_book *b);
uint64_t sd_book_bytes(const sd_book *b);

/* Where the index looks first. Only for a book that has had an order. */
static inline uint32_t sd_book_slot(const sd_book *b, uint64_t id) {
  return (uint32_t)(id * UINT64_C(0x9E3779B97F4A7C15) >> b->index_shift);
}

/* SD_NO_ORDER: there is none. */
uint32_t sd_book_find(const sd_book *b, uint64_t id);
/* A new order at the end of its level's queue; its id must not be there. Zero: no memory, and the book is as it was. */
int sd_book_add(sd_book *b, uint64_t id, int side, int64_t price, uint32_t size);
void sd_book_remove(sd_book *b, uint32_t order);
/* Less of an order that keeps its place; by less than what is left. */
void sd_book_reduce(sd_book *b, uint32_t order, uint32_t by);
/* Another size, price or both. It keeps its place only with the same price and no more size. Zero: no memory, as it was. */
int sd_book_change(sd_book *b, uint32_t order, int64_t price, uint32_t size);
void sd_book_clear(sd_book *b);

/* The best level of a side; NULL: the side is empty. */
static inline const sd_level *sd_book_best(const sd_book *b, int side) {
  const sd_side *s = &b->side[side];
  return s->n ? &b->levels[s->rungs[s->n - 1].level] : 0;
}

#endif
