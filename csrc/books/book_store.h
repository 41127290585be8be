/* Changes one symbol's book (book_layout.h): an order and its level together. */
#pragma once

#include "books/book_layout.h"
#include "books/book_levels.h"
#include "books/book_table.h"

/* The result of a change. The first two leave the book as it was. */
enum {
  SD_BOOK_NO_MEMORY = 0,
  SD_BOOK_TOO_LARGE = 1, /* the sizes of a level would add up to more than 2^63 - 1 */
  SD_BOOK_DONE = 2,
  SD_BOOK_DUPLICATE = 3 /* the new order's id is an order's already: it was left out */
};

/* Makes new stamps available. Zero: no memory, and the book is as it was. */
int sd_book_stamp_again(sd_book *b, sd_pool *pool);
void sd_book_clear(sd_book *b, sd_pool *pool);

static inline int64_t sd_book_price(const sd_book *b, uint32_t slot) {
  return sd_book_level_at(b, sd_book_bucket(b, slot)->level[sd_bucket_place(slot)])->price;
}

static inline uint32_t sd_book_next_stamp(sd_book *b, int side) { return b->stamps++ << 1 | (uint32_t)side; }

/* Gets, before anything is changed, all that an order at the end of a queue may need. Zero: no memory. */
static inline int sd_book_reserve(sd_book *b, sd_pool *pool, int side, uint32_t more) {
  if (SD_UNLIKELY(b->live + more > b->full) && !sd_book_grow_orders(b, pool)) return 0;
  if (SD_UNLIKELY(b->n[side] >= b->easy) && !sd_book_grow_levels(b, pool, side)) return 0;
  return SD_LIKELY(b->stamps < SD_STAMPS) || sd_book_stamp_again(b, pool);
}

static inline int sd_book_is_wide(const sd_book *b, int64_t size) { return size > UINT32_MAX || sd_book_high(b); }

/* Lets a book keep the upper half of a size, if it can hold the order that brings it. `slot`: the order that the new one replaces, or
 * SD_NO_ORDER. SD_BOOK_DONE: it may come. SD_BOOK_DUPLICATE: its id is another order's, and no level holds it. */
int sd_book_make_wide(sd_book *b, sd_pool *pool, uint32_t slot, uint64_t id, int side, int64_t price, int64_t size);

/* A new order at the end of its level's queue, unless its id is there already. */
static inline int sd_book_add(sd_book *b, sd_pool *pool, uint64_t id, int side, int64_t price, int64_t size,
                              uint32_t level) {
  if (SD_UNLIKELY(!sd_book_reserve(b, pool, side, 1))) return SD_BOOK_NO_MEMORY;
  if (SD_UNLIKELY(sd_book_is_wide(b, size))) {
    const int code = sd_book_make_wide(b, pool, SD_NO_ORDER, id, side, price, size);
    if (code != SD_BOOK_DONE) return code;
  }
  const uint32_t slot = sd_book_slot_for(b, id), place = sd_bucket_place(slot);
  if (SD_UNLIKELY(slot == SD_NO_ORDER)) return SD_BOOK_DUPLICATE;
  sd_bucket *bucket = sd_book_bucket(b, slot);
  bucket->taken |= (uint16_t)(1u << place);
  bucket->id[place] = id;
  sd_book_set_size(b, slot, size);
  bucket->stamp[place] = sd_book_next_stamp(b, side);
  bucket->level[place] = sd_book_add_to_level(b, side, price, size, level);
  b->live++;
  return SD_BOOK_DONE;
}

/* `left`, here and below: the order's size. */
static inline void sd_book_remove(sd_book *b, uint32_t slot, int64_t left) {
  const sd_bucket *bucket = sd_book_bucket(b, slot);
  const uint32_t place = sd_bucket_place(slot);
  sd_book_take_from_level(b, sd_bucket_side(bucket, place), bucket->level[place], left);
  sd_book_free_slot(b, slot);
  b->live--;
}

/* Reduces an order that keeps its place by a size of 1 to `left`. */
static inline void sd_book_reduce(sd_book *b, uint32_t slot, int64_t left, int64_t size) {
  const sd_bucket *bucket = sd_book_bucket(b, slot);
  const uint32_t place = sd_bucket_place(slot), level = bucket->level[place];
  sd_book_set_size(b, slot, size);
  sd_book_level_at(b, level)->size -= left - size;
  sd_book_touch(b, sd_bucket_side(bucket, place), level);
}

/* Changes size, price or both. The order keeps its place only at the same price with no greater size. */
static inline int sd_book_change(sd_book *b, sd_pool *pool, uint32_t slot, int64_t price, int64_t size,
                                 uint32_t level) {
  sd_bucket *bucket = sd_book_bucket(b, slot);
  const uint32_t place = sd_bucket_place(slot);
  const int64_t left = sd_book_size(b, slot);
  const int side = sd_bucket_side(bucket, place);
  if (price == sd_book_price(b, slot) && size <= left) {
    sd_book_reduce(b, slot, left, size);
    return SD_BOOK_DONE;
  }
  if (!sd_book_reserve(b, pool, side, 0)) return SD_BOOK_NO_MEMORY;
  if (SD_UNLIKELY(sd_book_is_wide(b, size))) {
    const int code = sd_book_make_wide(b, pool, slot, bucket->id[place], side, price, size);
    if (code != SD_BOOK_DONE) return code;
  }
  sd_book_take_from_level(b, side, bucket->level[place], left);
  sd_book_set_size(b, slot, size);
  bucket->stamp[place] = sd_book_next_stamp(b, side);
  bucket->level[place] = sd_book_add_to_level(b, side, price, size, level);
  return SD_BOOK_DONE;
}

/* Replaces the order by a new one of its side at the end of a queue. If the new one's id is already another order's, only removes the old
 * one. */
static inline int sd_book_replace(sd_book *b, sd_pool *pool, uint32_t slot, uint64_t id, int64_t price, int64_t size,
                                  uint32_t level) {
  const int side = sd_bucket_side(sd_book_bucket(b, slot), sd_bucket_place(slot));
  if (!sd_book_reserve(b, pool, side, 0)) return SD_BOOK_NO_MEMORY;
  if (SD_UNLIKELY(sd_book_is_wide(b, size))) {
    const int code = sd_book_make_wide(b, pool, slot, id, side, price, size);
    if (code < SD_BOOK_DONE) return code;
  }
  sd_book_remove(b, slot, sd_book_size(b, slot));
  return sd_book_add(b, pool, id, side, price, size, level);
}
