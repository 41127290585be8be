#include "handlers/book_store.h"

#include <stdlib.h>
#include <string.h>

enum { FIRST_BYTES = 256, MOST_ROOM = 1 << 28, MOST_BUCKETS = 1 << 27 };

static uint64_t bucket_bytes(uint32_t n) { return n * (uint64_t)sizeof(sd_bucket); }

/* Of both sides. */
static uint64_t ladder_bytes(uint32_t room) {
  return 2 * ((uint64_t)room * (sizeof(int64_t) + sizeof(uint32_t)) + SD_LADDER_BEST * sizeof(int64_t));
}

static uint64_t level_bytes(uint32_t room) {
  return room ? ladder_bytes(room) + 2 * (uint64_t)room * sizeof(sd_level) : 0;
}

uint64_t sd_book_order_bytes(const sd_book *b) { return bucket_bytes(b->n_buckets); }

uint64_t sd_book_level_bytes(const sd_book *b) { return level_bytes(b->room); }

/* ---- the table */

uint32_t sd_book_search(const sd_book *b, uint64_t id) {
  const uint64_t hash = sd_book_hash(id);
  const uint32_t home = sd_book_home(b, hash);
  uint32_t at = home;
  do {
    const sd_bucket *bucket = &b->buckets[at];
    for (uint32_t place = 0; place < SD_BUCKET_ORDERS; place++)
      if (bucket->id[place] == id && bucket->size[place]) return at << SD_PLACE_BITS | place;
    if (!(bucket->passed_ids & sd_bucket_bit(hash))) break;
    at = sd_book_next_bucket(b, at);
  } while (at != home);
  return SD_NO_ORDER;
}

uint32_t sd_book_pass(sd_book *b, uint64_t hash) {
  uint32_t place, at = sd_book_home(b, hash);
  do {
    sd_bucket *full = &b->buckets[at];
    full->passed++;
    full->passed_ids |= (uint16_t)sd_bucket_bit(hash);
    at = sd_book_next_bucket(b, at);
  } while ((place = sd_bucket_free(&b->buckets[at])) == SD_BUCKET_ORDERS);
  return at << SD_PLACE_BITS | place;
}

void sd_book_unpass(sd_book *b, uint64_t hash, uint32_t bucket) {
  for (uint32_t at = sd_book_home(b, hash); at != bucket; at = sd_book_next_bucket(b, at)) {
    sd_bucket *passed = &b->buckets[at];
    if (--passed->passed == 0) passed->passed_ids = 0;
  }
}

int sd_book_grow_orders(sd_book *b, sd_pool *pool) {
  const sd_book old = *b;
  uint64_t n = (b->n_buckets ? sd_pool_larger(bucket_bytes(b->n_buckets)) : FIRST_BYTES) / sizeof(sd_bucket);
  sd_bucket *buckets = n > MOST_BUCKETS ? NULL : sd_pool_take(pool, bucket_bytes((uint32_t)n));
  if (!buckets) return 0;
  memset(buckets, 0, bucket_bytes((uint32_t)n));
  b->buckets = buckets;
  b->n_buckets = (uint32_t)n;
  b->full = (uint32_t)(n * SD_BUCKET_ORDERS * 11 / 20);
  for (uint32_t i = 0; i < old.n_buckets; i++) {
    const sd_bucket *from = &old.buckets[i];
    for (uint32_t place = 0; place < SD_BUCKET_ORDERS; place++) {
      if (!from->size[place]) continue;
      const uint32_t slot = sd_book_slot_for(b, from->id[place]);
      sd_bucket *to = sd_book_bucket(b, slot);
      to->taken |= (uint16_t)(1u << sd_bucket_place(slot));
      to->id[sd_bucket_place(slot)] = from->id[place];
      to->size[sd_bucket_place(slot)] = from->size[place];
      to->level[sd_bucket_place(slot)] = from->level[place];
      to->stamp[sd_bucket_place(slot)] = from->stamp[place];
    }
  }
  sd_pool_give(pool, old.buckets, bucket_bytes(old.n_buckets));
  return 1;
}

/* ---- levels */

/* Those from a number on are nobody's; the lowest one is taken first. */
static void free_levels(sd_book *b, uint32_t from) {
  for (uint32_t i = 2 * b->room; i-- > from;) {
    b->levels[i].orders = 0;
    b->levels[i].side = b->free;
    b->free = i + 1;
  }
}

int sd_book_grow_levels(sd_book *b, sd_pool *pool) {
  const sd_book old = *b;
  uint32_t room = sd_ladder_room(b->room);
  unsigned char *piece = room > MOST_ROOM ? NULL : sd_pool_take(pool, level_bytes(room));
  if (!piece) return 0;
  b->levels = (sd_level *)(piece + ladder_bytes(room));
  b->room = room;
  if (old.room) memcpy(b->levels, old.levels, 2 * (uint64_t)old.room * sizeof(sd_level));
  for (int side = 0; side < 2 && old.room; side++) {
    memcpy(sd_book_keys(b, side), sd_book_keys(&old, side), b->n[side] * sizeof(int64_t));
    memcpy(sd_book_numbers(b, side), sd_book_numbers(&old, side), b->n[side] * sizeof(uint32_t));
  }
  for (int side = 0; side < 2; side++) sd_ladder_begin(sd_book_keys(b, side) - SD_LADDER_BEST);
  free_levels(b, 2 * old.room);
  if (old.room) sd_pool_give(pool, (unsigned char *)old.levels - ladder_bytes(old.room), level_bytes(old.room));
  return 1;
}

uint32_t sd_book_make_level(sd_book *b, int side, int64_t price) {
  int64_t *keys = sd_book_keys(b, side);
  uint32_t *numbers = sd_book_numbers(b, side);
  const int64_t key = sd_ladder_key(side, price);
  const uint32_t at = sd_ladder_find(keys, b->n[side], key);
  if (at < b->n[side] && keys[at] == key) return numbers[at];
  const uint32_t level = b->free - 1;
  sd_level *l = &b->levels[level];
  b->free = l->side;
  *l = (sd_level){price, 0, 0, (uint32_t)side};
  for (uint32_t i = b->n[side]++; i > at; i--) {
    keys[i] = keys[i - 1];
    numbers[i] = numbers[i - 1];
  }
  keys[at] = key;
  numbers[at] = level;
  b->top[side] = numbers[b->n[side] - 1];
  b->changed |= SD_LADDER;
  return level;
}

void sd_book_drop_level(sd_book *b, int side, uint32_t level) {
  int64_t *keys = sd_book_keys(b, side);
  uint32_t *numbers = sd_book_numbers(b, side);
  sd_level *l = &b->levels[level];
  uint32_t at = sd_ladder_find(keys, b->n[side], sd_ladder_key(side, l->price));
  const uint32_t n = --b->n[side];
  for (; at < n; at++) {
    keys[at] = keys[at + 1];
    numbers[at] = numbers[at + 1];
  }
  if (n) b->top[side] = numbers[n - 1];
  b->changed |= SD_LADDER;
  l->side = b->free;
  b->free = level + 1;
}

/* ---- stamps */

static int earlier(const void *left, const void *right) {
  uint32_t a = **(uint32_t *const *)left, b = **(uint32_t *const *)right;
  return (a > b) - (a < b);
}

/* From 0 on, in the order of the stamps there are. */
int sd_book_stamp_again(sd_book *b, sd_pool *pool) {
  const size_t bytes = (b->live + 1) * sizeof(uint32_t *);
  uint32_t **all = sd_pool_take(pool, bytes);
  if (!all) return 0;
  uint32_t n = 0;
  for (uint32_t i = 0; i < b->n_buckets; i++)
    for (uint32_t place = 0; place < SD_BUCKET_ORDERS; place++)
      if (b->buckets[i].size[place]) all[n++] = &b->buckets[i].stamp[place];
  qsort(all, n, sizeof *all, earlier);
  for (uint32_t i = 0; i < n; i++) *all[i] = i << 1 | (*all[i] & 1);
  b->stamps = n;
  sd_pool_give(pool, all, bytes);
  return 1;
}

void sd_book_clear(sd_book *b) {
  if (b->buckets) memset(b->buckets, 0, bucket_bytes(b->n_buckets));
  b->live = b->stamps = 0;
  b->n[0] = b->n[1] = b->free = 0;
  free_levels(b, 0);
  b->changed = SD_TOP(SD_ASK) | SD_TOP(SD_BID) | SD_LADDER;
}
