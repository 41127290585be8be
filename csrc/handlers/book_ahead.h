/* Asking for the memory that ticks will touch, ahead of them.
 *
 * A tick touches its book and row, then a bucket of orders or the best prices of a side, then a level: each found through the
 * one before. So ticks go in groups, and while one group is handled, the next one asks for its levels, the one after it for its
 * orders, and the one after that for its books: nobody waits for what he has just asked for. What was found is a guess by the
 * time a tick's turn comes: it is checked then.
 */
#ifndef SD_HANDLERS_BOOK_AHEAD_H
#define SD_HANDLERS_BOOK_AHEAD_H

#include <stdint.h>

#include "handlers/book.h"
#include "handlers/book_store.h"
#include "sd_atomic.h"

struct sd_books {
  uint64_t n;
  sd_book *book;
  sd_pool pool;
};

enum { GROUP = 16, STEPS = 4 };

typedef struct sd_group {
  const sd_tick *ticks;
  uint32_t n;
  uint32_t adds, others, moves;
  uint32_t order[GROUP], level[GROUP];
  uint8_t add[GROUP];   /* those of its ticks that add an order */
  uint8_t other[GROUP]; /* those about an order that is there, ... */
  uint8_t move[GROUP];  /* ... and of them, those that may change its price */
} sd_group;

static inline int side_of_tick(const sd_tick *t) { return t->side == 'B' ? SD_BID : SD_ASK; }

/* Actions about an order that is there. */
static inline uint32_t is_other(char action) {
  const uint32_t set = 1u << ('C' - '@') | 1u << ('F' - '@') | 1u << ('M' - '@');
  return set >> (action & 31) & 1;
}

static inline void ask_for_bucket(const sd_book *b, uint64_t id) {
  const uint64_t home = sd_book_home(b, sd_book_hash(id));
  sd_prefetch_write((const char *)((uintptr_t)b->buckets + sizeof(sd_bucket) * home));
}

/* The best eight prices and the numbers of their levels. */
static inline void ask_for_ladder(const sd_book *b, int side) {
  const uintptr_t keys = (uintptr_t)(sd_book_keys(b, side) + b->n[side]);
  sd_prefetch((const char *)(keys - sizeof(int64_t)));
  sd_prefetch((const char *)(keys - SD_LINE));
  sd_prefetch((const char *)((uintptr_t)(sd_book_numbers(b, side) + b->n[side]) - 4 * sizeof(uint32_t)));
}

static inline void ask_for_level(const sd_book *b, uint32_t level) {
  const uintptr_t at = (uintptr_t)b->levels + level * sizeof(sd_level);
  sd_prefetch_write((const char *)at);
}

static inline sd_book *book_of(const sd_books *books, const sd_tick *t) { return &books->book[t->instrument_id]; }

static inline sd_book_row *row_of(unsigned char *rows, const sd_tick *t, uint64_t stride) {
  return (sd_book_row *)(rows + t->instrument_id * stride);
}

/* A group of up to `most` ticks, fewer where one has no book; asks for their books and rows. */
static inline void meet(sd_group *g, const sd_books *books, unsigned char *rows, const sd_tick *ticks, uint32_t most,
                        uint64_t stride) {
  uint32_t adds = 0, others = 0, moves = 0, i;
  for (i = 0; i < most; i++) {
    const sd_tick *t = &ticks[i];
    if (SD_UNLIKELY(t->instrument_id >= books->n)) break;
    sd_prefetch_write(book_of(books, t));
    sd_prefetch_write(row_of(rows, t, stride));
    g->order[i] = SD_NO_ORDER;
    g->level[i] = SD_NO_LEVEL;
    g->add[adds] = g->other[others] = g->move[moves] = (uint8_t)i;
    adds += t->action == 'A';
    others += is_other(t->action);
    moves += t->action == 'M';
  }
  g->ticks = ticks;
  g->n = i;
  g->adds = adds;
  g->others = others;
  g->moves = moves;
}

static inline void ask_for_orders(const sd_group *g, const sd_books *books) {
  for (uint32_t k = 0; k < g->others; k++) {
    const sd_tick *t = &g->ticks[g->other[k]];
    ask_for_bucket(book_of(books, t), t->order_id);
  }
  for (uint32_t k = 0; k < g->adds; k++) {
    const sd_tick *t = &g->ticks[g->add[k]];
    const sd_book *b = book_of(books, t);
    ask_for_bucket(b, t->order_id);
    ask_for_ladder(b, side_of_tick(t));
  }
}

static inline void ask_for_levels(sd_group *g, const sd_books *books) {
  for (uint32_t k = 0; k < g->adds; k++) {
    const uint32_t i = g->add[k];
    const sd_tick *t = &g->ticks[i];
    const sd_book *b = book_of(books, t);
    /* A price without a level will have the one that is free. */
    ask_for_level(b, g->level[i] = sd_book_level_of(b, side_of_tick(t), t->price, b->free - 1));
  }
  for (uint32_t k = 0; k < g->others; k++) {
    const uint32_t i = g->other[k];
    const sd_tick *t = &g->ticks[i];
    const sd_book *b = book_of(books, t);
    const uint32_t order = g->order[i] = sd_book_find(b, t->order_id);
    if (SD_LIKELY(order != SD_NO_ORDER)) ask_for_level(b, sd_book_bucket(b, order)->level[sd_bucket_place(order)]);
  }
  for (uint32_t k = 0; k < g->moves; k++) {
    const uint32_t i = g->move[k], order = g->order[i];
    const sd_tick *t = &g->ticks[i];
    const sd_book *b = book_of(books, t);
    if (SD_UNLIKELY(order == SD_NO_ORDER)) continue;
    ask_for_bucket(b, t->ref_id);
    ask_for_ladder(b, sd_bucket_side(sd_book_bucket(b, order), sd_bucket_place(order)));
  }
}

#endif
