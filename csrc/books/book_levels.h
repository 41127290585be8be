/* The price levels of a book: their records, and one ladder per side.
 *
 * Before the levels lie the keys of asks and of bids. Before each of these lie SD_LADDER_BEST keys that are worse than any, and before
 * them the numbers of their levels. A level keeps its number until it has no order. `level`, as a parameter, is a guess at the number of
 * a price. */
#pragma once

#include "books/book_layout.h"
#include "books/ladder.h"
#include "memory/pool.h"

/* Gets memory for one more level of a side. Zero: no memory, and the book is as it was. */
int sd_book_grow_levels(sd_book *b, sd_pool *pool, int side);
/* Takes all levels out, and leaves the orders as they are. */
void sd_book_clear_levels(sd_book *b);
/* Bytes of its levels. */
uint64_t sd_book_level_bytes(const sd_book *b);

#define SD_NO_LEVEL UINT32_MAX

/* Where a side's keys, and its levels' numbers, lie, given the address of the first level and the length of the ladders. */
static inline uintptr_t sd_ladder_keys_at(uintptr_t first_level, uintptr_t capacity, int side) {
  return first_level - (((capacity + SD_LADDER_BEST) << side) - SD_LADDER_BEST) * sizeof(int64_t);
}

static inline uintptr_t sd_ladder_numbers_at(uintptr_t first_level, uintptr_t capacity, int side) {
  return first_level - 2 * (capacity + SD_LADDER_BEST) * sizeof(int64_t) - (capacity << side) * sizeof(uint32_t);
}

/* The same for a book, even one without levels: to be prefetched. */
static inline uintptr_t sd_book_keys_at(const sd_book *b, int side) {
  return sd_ladder_keys_at((uintptr_t)sd_book_level_at(b, 0), b->capacity, side);
}

static inline uintptr_t sd_book_numbers_at(const sd_book *b, int side) {
  return sd_ladder_numbers_at((uintptr_t)sd_book_level_at(b, 0), b->capacity, side);
}

static inline uint64_t *sd_book_keys(const sd_book *b, int side) { return (uint64_t *)sd_book_keys_at(b, side); }

static inline uint32_t *sd_book_numbers(const sd_book *b, int side) { return (uint32_t *)sd_book_numbers_at(b, side); }

/* The level of a price in the ladder, or `none`. */
static inline uint32_t sd_book_level_of(const sd_book *b, int side, int64_t price, uint32_t none) {
  const uint64_t key = sd_ladder_key(side, price), *keys = sd_book_keys(b, side);
  const uint32_t n = b->n[side];
  if (SD_UNLIKELY(n == 0)) return none;
  const uint32_t found = sd_ladder_find(keys, n, key), at = found - (found == n);
  const uint32_t level = sd_book_numbers(b, side)[at], is = -(uint32_t)(keys[at] == key);
  return (level & is) | (none & ~is);
}

static inline int sd_book_is_level(const sd_book *b, int side, int64_t price, uint32_t level) {
  if (level == SD_NO_LEVEL) return 0;
  const sd_level *l = sd_book_level_at(b, level);
  return l->price == price && l->side == (uint32_t)side && l->orders;
}

/* Reads the levels' numbers, from the best one on, by a cursor that begins as zeros. Zero: there are no more. */
typedef struct sd_level_cursor {
  uint64_t read;
  sd_deep_cursor deep;
} sd_level_cursor;

uint32_t sd_book_deep_levels(const sd_book *b, int side);

static inline uint32_t sd_book_count_levels(const sd_book *b, int side) {
  return b->n[side] + (SD_LIKELY(b->easy == b->capacity) ? 0 : sd_book_deep_levels(b, side));
}

int sd_book_next_level(const sd_book *b, int side, sd_level_cursor *cursor, uint32_t *level);

/* The level of a price, in the ladder or beyond it; SD_NO_LEVEL: there is none. */
uint32_t sd_book_find_level(const sd_book *b, int side, int64_t price);

/* Makes a new level, without orders; its memory must have been reserved. And removes one. */
uint32_t sd_book_make_level(sd_book *b, int side, int64_t price);
void sd_book_drop_level(sd_book *b, int side, uint32_t level);

/* Notes a change of a level. */
static inline void sd_book_touch(sd_book *b, int side, uint32_t level) {
  b->changed |= (uint32_t)(level == b->top[side]) << side;
}

/* Adds to a price, and makes its level if there is none, whose memory must have been reserved. Returns the level. */
static inline uint32_t sd_book_add_to_level(sd_book *b, int side, int64_t price, int64_t size, uint32_t level) {
  if (SD_UNLIKELY(!sd_book_is_level(b, side, price, level))) level = sd_book_make_level(b, side, price);
  sd_level *l = sd_book_level_at(b, level);
  l->size += size;
  l->orders++;
  sd_book_touch(b, side, level);
  return level;
}

static inline void sd_book_take_from_level(sd_book *b, int side, uint32_t level, int64_t size) {
  sd_book_touch(b, side, level);
  sd_level *l = sd_book_level_at(b, level);
  l->size -= size;
  if (--l->orders == 0) sd_book_drop_level(b, side, level);
}
