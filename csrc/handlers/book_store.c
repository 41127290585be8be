#include "handlers/book_store.h"

#include <stdlib.h>

enum { FIRST_ROOM = 4, FIRST_BYTES = 256, MOST_ROOM = 1 << 28, MOST_BUCKETS = 1 << 28 };

static uint64_t bucket_bytes(uint32_t n) { return n * (uint64_t)sizeof(sd_bucket); }

/* Of both sides. */
static uint64_t ladder_bytes(uint32_t room) { return 2 * (uint64_t)room * (sizeof(int64_t) + sizeof(sd_level)); }

uint64_t sd_book_order_bytes(const sd_book *b) { return bucket_bytes(b->n_buckets); }

uint64_t sd_book_level_bytes(const sd_book *b) { return ladder_bytes(b->room); }

/* ---- the table */

/* The first free place from its bucket on, and those that it passes note it. */
static uint32_t take_first(sd_book *b, uint64_t hash) {
  uint64_t free;
  uint32_t at = sd_book_home(b, hash);
  while (!(free = sd_bucket_free(sd_bucket_tags(&b->buckets[at])))) {
    if (b->buckets[at].passed != SD_PASSED_MOST) b->buckets[at].passed++;
    at = sd_book_next_bucket(b, at);
  }
  return at << 3 | sd_bucket_take(&b->buckets[at], hash, free);
}

uint32_t sd_book_search_slot(sd_book *b, uint64_t id) {
  if (sd_book_find(b, id) != SD_NO_ORDER) return SD_NO_ORDER;
  return take_first(b, sd_book_hash(id));
}

int sd_book_grow_orders(sd_book *b, sd_pool *pool) {
  const sd_book old = *b;
  uint64_t n = (b->n_buckets ? sd_pool_larger(bucket_bytes(b->n_buckets)) : FIRST_BYTES) / sizeof(sd_bucket);
  sd_bucket *buckets = n > MOST_BUCKETS ? NULL : sd_pool_take(pool, bucket_bytes((uint32_t)n));
  if (!buckets) return 0;
  memset(buckets, 0, bucket_bytes((uint32_t)n));
  b->buckets = buckets;
  b->n_buckets = (uint32_t)n;
  b->full = (uint32_t)(n * SD_BUCKET_ORDERS * 3 / 4);
  for (uint32_t i = 0; i < old.n_buckets; i++) {
    for (uint32_t place = 0; place < SD_BUCKET_ORDERS; place++) {
      const sd_order *o = &old.buckets[i].order[place];
      if (o->size) *sd_book_at(b, take_first(b, sd_book_hash(o->id))) = *o;
    }
  }
  sd_pool_give(pool, old.buckets, bucket_bytes(old.n_buckets));
  return 1;
}

/* ---- levels */

int sd_book_grow_ladder(sd_book *b, sd_pool *pool) {
  const sd_book old = *b;
  uint32_t room = b->room ? 2 * b->room : FIRST_ROOM;
  int64_t *ladder = room > MOST_ROOM ? NULL : sd_pool_take(pool, ladder_bytes(room));
  if (!ladder) return 0;
  b->ladder = ladder;
  b->room = room;
  for (int side = 0; side < 2 && old.ladder; side++) {
    memcpy(sd_book_keys(b, side), sd_book_keys(&old, side), b->n[side] * sizeof(int64_t));
    memcpy(sd_book_levels(b, side), sd_book_levels(&old, side), b->n[side] * sizeof(sd_level));
  }
  sd_pool_give(pool, old.ladder, ladder_bytes(old.room));
  return 1;
}

/* ---- stamps */

static int earlier(const void *left, const void *right) {
  uint32_t a = (*(sd_order *const *)left)->stamp, b = (*(sd_order *const *)right)->stamp;
  return (a > b) - (a < b);
}

/* From 0 on, in the order of the stamps there are. */
int sd_book_stamp_again(sd_book *b, sd_pool *pool) {
  const size_t bytes = (b->live + 1) * sizeof(sd_order *);
  sd_order **all = sd_pool_take(pool, bytes);
  if (!all) return 0;
  uint32_t n = 0;
  for (uint32_t i = 0; i < b->n_buckets; i++)
    for (uint32_t place = 0; place < SD_BUCKET_ORDERS; place++)
      if (b->buckets[i].order[place].size) all[n++] = &b->buckets[i].order[place];
  qsort(all, n, sizeof *all, earlier);
  for (uint32_t i = 0; i < n; i++) all[i]->stamp = i << 1 | (all[i]->stamp & 1);
  b->stamps = n;
  sd_pool_give(pool, all, bytes);
  return 1;
}

void sd_book_clear(sd_book *b) {
  if (b->buckets) memset(b->buckets, 0, bucket_bytes(b->n_buckets));
  b->live = b->stamps = 0;
  b->n[0] = b->n[1] = 0;
  b->best = 1u << SD_ASK | 1u << SD_BID;
}
