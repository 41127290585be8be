#include "books/book_table.h"

#include <pthread.h>
#include <string.h>
#include <sys/random.h>
#include <time.h>

/* A clear gives a table back, and does not fill it with zeros, if it has less than one order in SPARSE buckets. */
enum { FIRST_BYTES = 256, MAX_BUCKETS = 1 << 27, SPARSE = 16 };

/* ---- the key of the hash */

sd_hash_key sd_book_key;

static void draw_key(void) {
  if (getrandom(&sd_book_key, sizeof sd_book_key, 0) != (ssize_t)sizeof sd_book_key) {
    struct timespec now;
    clock_gettime(CLOCK_REALTIME, &now);
    sd_book_key.mask = (uint64_t)now.tv_nsec * UINT64_C(0x9E3779B97F4A7C15) ^ (uintptr_t)&now;
    sd_book_key.factor = ((uint64_t)now.tv_sec ^ (uintptr_t)&sd_book_key) * UINT64_C(0xD1B54A32D192ED03);
  }
  sd_book_key.factor |= 1;
}

void sd_book_draw_key(void) {
  static pthread_once_t once = PTHREAD_ONCE_INIT;
  pthread_once(&once, draw_key);
}

/* ---- orders */

static uint64_t bucket_bytes(uint32_t n) { return n * (uint64_t)sizeof(sd_bucket); }

/* Bytes of the upper halves for so many buckets. */
static uint64_t high_bytes(uint32_t n) { return n * (sizeof(uint32_t) << SD_PLACE_BITS); }

uint64_t sd_book_order_bytes(const sd_book *b) {
  return bucket_bytes(b->n_buckets) + (sd_book_high(b) ? high_bytes(b->n_buckets) : 0);
}

uint32_t sd_book_search(const sd_book *b, uint64_t id, uint64_t hash) {
  const sd_bucket *buckets = sd_book_buckets(b);
  const uint32_t home = sd_book_home(b, hash);
  uint32_t at = home;
  do {
    const sd_bucket *bucket = &buckets[at];
    for (uint32_t place = 0; place < SD_BUCKET_ORDERS; place++)
      if (sd_bucket_has(bucket, place, id)) return at << SD_PLACE_BITS | place;
    if (!(bucket->passed_ids & sd_bucket_bit(hash))) break;
    at = sd_book_next_bucket(b, at);
  } while (at != home);
  return SD_NO_ORDER;
}

uint32_t sd_book_pass(sd_book *b, uint64_t hash) {
  sd_bucket *buckets = sd_book_buckets(b);
  uint32_t place, at = sd_book_home(b, hash);
  do {
    sd_bucket *full = &buckets[at];
    full->passed++;
    full->passed_ids |= (uint16_t)sd_bucket_bit(hash);
    at = sd_book_next_bucket(b, at);
  } while ((place = sd_bucket_free(&buckets[at])) == SD_BUCKET_ORDERS);
  buckets[at].taken |= (uint16_t)SD_STRAY(place);
  return at << SD_PLACE_BITS | place;
}

void sd_book_unpass(sd_book *b, uint64_t id, uint32_t bucket) {
  sd_bucket *buckets = sd_book_buckets(b);
  const uint64_t hash = sd_book_hash(id);
  for (uint32_t at = sd_book_home(b, hash); at != bucket; at = sd_book_next_bucket(b, at)) {
    sd_bucket *passed = &buckets[at];
    if (--passed->passed == 0) passed->passed_ids = 0;
  }
}

/* Moves all orders into a new table of n buckets. Zero: no memory, and the book is as it was. */
static int move_orders(sd_book *b, sd_pool *pool, uint64_t n) {
  const uint32_t old_n = b->n_buckets;
  sd_bucket *const old = old_n ? sd_book_buckets(b) : NULL;
  uint32_t *const old_high = sd_book_high(b);
  sd_bucket *buckets = n > MAX_BUCKETS ? NULL : sd_pool_take(pool, bucket_bytes((uint32_t)n));
  uint32_t *high = old_high && buckets ? sd_pool_take(pool, high_bytes((uint32_t)n)) : NULL;
  if (!buckets || (old_high && !high)) {
    sd_pool_give(pool, buckets, bucket_bytes((uint32_t)n));
    return 0;
  }
  memset(buckets, 0, bucket_bytes((uint32_t)n));
  sd_relative_set(&b->buckets, buckets);
  sd_relative_set(&b->high, high);
  b->n_buckets = (uint32_t)n;
  b->full = (uint32_t)(n * SD_BUCKET_ORDERS * 11 / 20);
  for (uint32_t i = 0; i < old_n; i++) {
    const sd_bucket *from = &old[i];
    for (uint32_t place = 0; place < SD_BUCKET_ORDERS; place++) {
      if (!(from->taken >> place & 1)) continue;
      const uint32_t slot = sd_book_slot_for(b, from->id[place]);
      sd_bucket *to = sd_book_bucket(b, slot);
      to->taken |= (uint16_t)(1u << sd_bucket_place(slot));
      to->id[sd_bucket_place(slot)] = from->id[place];
      to->size[sd_bucket_place(slot)] = from->size[place];
      if (high) high[slot] = old_high[i << SD_PLACE_BITS | place];
      to->level[sd_bucket_place(slot)] = from->level[place];
      to->stamp[sd_bucket_place(slot)] = from->stamp[place];
    }
  }
  sd_pool_give(pool, old, bucket_bytes(old_n));
  sd_pool_give(pool, old_high, high_bytes(old_n));
  return 1;
}

int sd_book_grow_orders(sd_book *b, sd_pool *pool) {
  const uint64_t bytes = b->n_buckets ? sd_pool_larger(bucket_bytes(b->n_buckets)) : FIRST_BYTES;
  return move_orders(b, pool, bytes / sizeof(sd_bucket));
}

int sd_book_rehash(sd_book *b, sd_pool *pool) { return !b->n_buckets || move_orders(b, pool, b->n_buckets); }

int sd_book_take_high(sd_book *b, sd_pool *pool) {
  uint32_t *high = sd_pool_take_zeros(pool, high_bytes(b->n_buckets));
  sd_relative_set(&b->high, high);
  return high != NULL;
}

void sd_book_clear_table(sd_book *b, sd_pool *pool) {
  const uint64_t bytes = bucket_bytes(b->n_buckets);
  if (!b->live) return;
  if (b->live < b->n_buckets / SPARSE) {
    sd_pool_give(pool, sd_book_buckets(b), bytes);
    sd_pool_give(pool, sd_book_high(b), high_bytes(b->n_buckets));
    sd_relative_set(&b->buckets, NULL);
    sd_relative_set(&b->high, NULL);
    b->n_buckets = b->full = 0;
  } else {
    memset(sd_book_buckets(b), 0, bytes);
  }
  b->live = 0;
}
