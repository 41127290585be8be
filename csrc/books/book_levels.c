#include "books/book_levels.h"

#include <string.h>

enum { MAX_RECORDS = 1 << 29 };

/* Lies before the ladders of a book whose ladders have reached their greatest length. */
typedef struct sd_book_deep {
  sd_deep side[2];
  uint64_t records; /* so many levels have memory */
} sd_book_deep;

static void move_deep(sd_book_deep *to, const sd_book_deep *from) {
  for (int side = 0; side < 2; side++) sd_deep_move(&to->side[side], &from->side[side]);
}

/* Bytes of both ladders, with what lies before them. */
static uint64_t ladder_bytes(uint32_t capacity) {
  const uint64_t keys =
      2 * ((uint64_t)capacity * (sizeof(int64_t) + sizeof(uint32_t)) + SD_LADDER_BEST * sizeof(int64_t));
  return capacity == SD_NEAR ? keys + sizeof(sd_book_deep) : keys;
}

static sd_book_deep *deep_of(const sd_book *b) {
  return b->capacity == SD_NEAR ? (sd_book_deep *)((unsigned char *)sd_book_level_at(b, 0) - ladder_bytes(SD_NEAR))
                                : NULL;
}

static uint64_t records_of(const sd_book *b) { return b->capacity == SD_NEAR ? deep_of(b)->records : 2 * b->capacity; }

static uint64_t level_bytes(uint32_t capacity, uint64_t records) {
  return capacity ? ladder_bytes(capacity) + records * sizeof(sd_level) : 0;
}

uint64_t sd_book_level_bytes(const sd_book *b) {
  const sd_book_deep *deep = deep_of(b);
  const uint64_t chunks = deep ? sd_deep_bytes(&deep->side[SD_ASK]) + sd_deep_bytes(&deep->side[SD_BID]) : 0;
  return level_bytes(b->capacity, records_of(b)) + chunks;
}

/* Frees a level. */
static void give_record(sd_book *b, uint32_t level) {
  sd_level *l = sd_book_level_at(b, level);
  l->orders = 0;
  l->side = b->free;
  b->free = level + 1;
}

/* Zero: no memory. */
static int move_levels(sd_book *b, sd_pool *pool, uint32_t capacity, uint64_t records) {
  const uint32_t old_capacity = b->capacity;
  const uint64_t old_records = records_of(b);
  const sd_book_deep *old_deep = deep_of(b);
  const uint64_t *old_keys[] = {sd_book_keys(b, SD_ASK), sd_book_keys(b, SD_BID)};
  const uint32_t *old_numbers[] = {sd_book_numbers(b, SD_ASK), sd_book_numbers(b, SD_BID)};
  sd_level *old = sd_book_level_at(b, 0);
  unsigned char *piece = records > MAX_RECORDS ? NULL : sd_pool_take(pool, level_bytes(capacity, records));
  if (!piece) return 0;
  sd_relative_set(&b->levels, piece + ladder_bytes(capacity));
  b->capacity = (uint16_t)capacity;
  if (capacity == SD_NEAR) {
    sd_book_deep *deep = deep_of(b);
    if (old_deep) move_deep(deep, old_deep);
    else memset(deep, 0, sizeof *deep);
    deep->records = records;
  }
  if (old_capacity) memcpy(sd_book_level_at(b, 0), old, old_records * sizeof(sd_level));
  for (int side = 0; side < 2 && old_capacity; side++) {
    memcpy(sd_book_keys(b, side), old_keys[side], b->n[side] * sizeof(int64_t));
    memcpy(sd_book_numbers(b, side), old_numbers[side], b->n[side] * sizeof(uint32_t));
  }
  for (int side = 0; side < 2; side++) sd_ladder_begin(sd_book_keys(b, side) - SD_LADDER_BEST);
  for (uint64_t i = records; i-- > old_records;) give_record(b, (uint32_t)i);
  if (old_capacity)
    sd_pool_give(pool, (unsigned char *)old - ladder_bytes(old_capacity), level_bytes(old_capacity, old_records));
  return 1;
}

/* Moves levels back from the chunks to a ladder that has become short. */
static SD_NOINLINE void refill(sd_book *b, int side, sd_book_deep *all) {
  uint32_t *numbers = sd_book_numbers(b, side);
  b->n[side] =
      (uint16_t)sd_ladder_refill(sd_book_keys(b, side), numbers, sizeof *numbers, b->n[side], &all->side[side]);
  if (!all->side[SD_ASK].levels && !all->side[SD_BID].levels) b->easy = b->capacity;
}

int sd_book_grow_levels(sd_book *b, sd_pool *pool, int side) {
  if (b->capacity < SD_NEAR) {
    const uint32_t capacity = sd_ladder_grown(b->capacity);
    if (!move_levels(b, pool, capacity, 2 * capacity)) return 0;
    b->easy = b->capacity;
    return 1;
  }
  sd_deep *deep = &deep_of(b)->side[side];
  if (!sd_deep_reserve(deep, pool)) return 0;
  if (b->n[side] == SD_NEAR) {
    uint32_t *numbers = sd_book_numbers(b, side);
    b->n[side] = (uint16_t)sd_ladder_spill(sd_book_keys(b, side), numbers, sizeof *numbers, SD_NEAR, deep);
    b->easy = 0;
    if (!sd_deep_reserve(deep, pool)) return 0;
  }
  return b->free || move_levels(b, pool, SD_NEAR, records_of(b) / 2 * 3);
}

uint32_t sd_book_deep_levels(const sd_book *b, int side) { return deep_of(b)->side[side].levels; }

int sd_book_next_level(const sd_book *b, int side, sd_level_cursor *cursor, uint32_t *level) {
  if (cursor->read < b->n[side]) {
    *level = sd_book_numbers(b, side)[b->n[side] - ++cursor->read];
    return 1;
  }
  if (b->easy == b->capacity) return 0;
  const sd_deep *deep = &deep_of(b)->side[side];
  uint64_t key;
  int64_t number;
  if (!sd_deep_next(deep, &cursor->deep, &key, &number)) return 0;
  *level = (uint32_t)number;
  return 1;
}

static uint32_t take_record(sd_book *b, int side, int64_t price) {
  const uint32_t level = b->free - 1;
  sd_level *l = sd_book_level_at(b, level);
  b->free = l->side;
  *l = (sd_level){price, 0, 0, (uint32_t)side};
  b->changed |= SD_LADDER;
  return level;
}

static uint32_t make_deep_level(sd_book *b, int side, int64_t price) {
  sd_deep *deep = &deep_of(b)->side[side];
  const uint64_t key = sd_ladder_key(side, price);
  sd_deep_place place;
  if (sd_deep_find(deep, key, &place)) return (uint32_t)*sd_deep_value(&place);
  const uint32_t level = take_record(b, side, price);
  sd_deep_insert(deep, &place, key, level);
  return level;
}

uint32_t sd_book_make_level(sd_book *b, int side, int64_t price) {
  uint64_t *keys = sd_book_keys(b, side);
  uint32_t *numbers = sd_book_numbers(b, side);
  const uint64_t key = sd_ladder_key(side, price);
  if (SD_UNLIKELY(b->easy != b->capacity) && key < keys[0] && sd_book_deep_levels(b, side))
    return make_deep_level(b, side, price);
  const uint32_t at = sd_ladder_find(keys, b->n[side], key);
  if (at < b->n[side] && keys[at] == key) return numbers[at];
  const uint32_t level = take_record(b, side, price);
  sd_ladder_put(keys, numbers, sizeof *numbers, b->n[side]++, at, key, level);
  b->top[side] = numbers[b->n[side] - 1];
  return level;
}

void sd_book_drop_level(sd_book *b, int side, uint32_t level) {
  uint64_t *keys = sd_book_keys(b, side);
  uint32_t *numbers = sd_book_numbers(b, side);
  const uint64_t key = sd_ladder_key(side, sd_book_level_at(b, level)->price);
  const uint32_t at = sd_ladder_find(keys, b->n[side], key);
  if (SD_LIKELY(keys[at] == key)) {
    sd_ladder_take(keys, numbers, sizeof *numbers, b->n[side]--, at);
    if (SD_UNLIKELY(b->easy != b->capacity) && b->n[side] < SD_NEAR_MIN) refill(b, side, deep_of(b));
    if (b->n[side]) b->top[side] = numbers[b->n[side] - 1];
  } else {
    sd_book_deep *deep = deep_of(b);
    sd_deep_place place;
    sd_deep_find(&deep->side[side], key, &place);
    sd_deep_remove(&deep->side[side], &place);
    if (!deep->side[SD_ASK].levels && !deep->side[SD_BID].levels) b->easy = b->capacity;
  }
  b->changed |= SD_LADDER;
  give_record(b, level);
}

uint32_t sd_book_find_level(const sd_book *b, int side, int64_t price) {
  const uint32_t near = sd_book_level_of(b, side, price, SD_NO_LEVEL);
  if (near != SD_NO_LEVEL || b->easy == b->capacity || !sd_book_deep_levels(b, side)) return near;
  const sd_deep *deep = &deep_of(b)->side[side];
  sd_deep_place place;
  return sd_deep_find(deep, sd_ladder_key(side, price), &place) ? (uint32_t)*sd_deep_value(&place) : SD_NO_LEVEL;
}

void sd_book_clear_levels(sd_book *b) {
  for (int side = 0; side < 2; side++) {
    sd_level_cursor cursor = {0};
    for (uint32_t level; sd_book_next_level(b, side, &cursor, &level);) give_record(b, level);
    if (b->easy != b->capacity) sd_deep_clear(&deep_of(b)->side[side]);
    b->n[side] = 0;
  }
  b->easy = b->capacity;
  b->changed = SD_TOP(SD_ASK) | SD_TOP(SD_BID) | SD_LADDER;
}
