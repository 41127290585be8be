/* Where the orders of a book lie: a hash table by id.
 *
 * A slot names an order's place: eight times its bucket, plus its place there. The order keeps its slot until it goes or the table grows.
 * */
#pragma once

#if defined(__SSE2__)
#include <emmintrin.h>
#endif

#include "books/book_layout.h"
#include "memory/pool.h"

/* Gets memory for one more order. Zero: no memory, and the book is as it was. */
int sd_book_grow_orders(sd_book *b, sd_pool *pool);
/* Puts all orders into a new table of the same size, by this process's key: the old one was made by another. Zero: no memory, and the
 * book is as it was. */
int sd_book_rehash(sd_book *b, sd_pool *pool);
/* Gets the table of the upper halves of sizes. Zero: no memory. */
int sd_book_take_high(sd_book *b, sd_pool *pool);
/* Takes all orders out, and leaves the levels as they are. */
void sd_book_clear_table(sd_book *b, sd_pool *pool);
/* Bytes of its orders. */
uint64_t sd_book_order_bytes(const sd_book *b);

#define SD_NO_ORDER UINT32_MAX

static inline sd_bucket *sd_book_bucket(const sd_book *b, uint32_t slot) {
  return sd_book_buckets(b) + (slot >> SD_PLACE_BITS);
}

static inline uint32_t sd_bucket_place(uint32_t slot) { return slot & ((1 << SD_PLACE_BITS) - 1); }

static inline int sd_bucket_side(const sd_bucket *bucket, uint32_t place) { return (int)(bucket->stamp[place] & 1); }

/* A free place has an id too, and an order may have the same one. */
static inline int sd_bucket_has(const sd_bucket *bucket, uint32_t place, uint64_t id) {
  return bucket->id[place] == id && bucket->taken >> place & 1;
}

static inline int64_t sd_book_size(const sd_book *b, uint32_t slot) {
  const int64_t low = sd_book_bucket(b, slot)->size[sd_bucket_place(slot)];
  const uint32_t *high = sd_book_high(b);
  return SD_UNLIKELY(high) ? (int64_t)high[slot] << 32 | low : low;
}

static inline void sd_book_set_size(sd_book *b, uint32_t slot, int64_t size) {
  sd_book_bucket(b, slot)->size[sd_bucket_place(slot)] = (uint32_t)size;
  uint32_t *high = sd_book_high(b);
  if (SD_UNLIKELY(high)) high[slot] = (uint32_t)(size >> 32);
}

/* Drawn at random once per process, so that nobody can tell which ids share a bucket. */
typedef struct sd_hash_key {
  uint64_t mask, factor;
} sd_hash_key;

extern sd_hash_key sd_book_key;

void sd_book_draw_key(void);

/* One product alone would keep ids at equal distances at equal distances, and for some keys these coincide. */
static inline uint64_t sd_hash_with(const sd_hash_key *key, uint64_t id) {
  const uint64_t product = (id ^ key->mask) * key->factor;
  return (product ^ product >> 32) * UINT64_C(0x9E3779B97F4A7C15);
}

static inline uint64_t sd_book_hash(uint64_t id) { return sd_hash_with(&sd_book_key, id); }

/* The bucket to look at first. */
static inline uint32_t sd_book_home(const sd_book *b, uint64_t hash) {
  return (uint32_t)((hash >> 32) * b->n_buckets >> 32);
}

static inline uint32_t sd_book_next_bucket(const sd_book *b, uint32_t bucket) {
  return bucket + 1 == b->n_buckets ? 0 : bucket + 1;
}

/* An id's bit among those that passed a bucket. */
static inline uint32_t sd_bucket_bit(uint64_t hash) { return UINT32_C(1) << (hash >> 28 & 15); }

/* A bit for each place whose id may be this one; with vectors of 32 bits, it compares the lower half. It has no branch, because nobody
 * can predict the place. */
static inline uint32_t sd_bucket_like(const sd_bucket *bucket, uint64_t id) {
#if defined(__SSE2__)
  const __m128i half = _mm_set1_epi32((int)(uint32_t)id);
  const float *ids = (const float *)bucket->id;
  const __m128 a = _mm_load_ps(ids), b = _mm_load_ps(ids + 4), c = _mm_load_ps(ids + 8);
  const __m128i ab = _mm_cmpeq_epi32(_mm_castps_si128(_mm_shuffle_ps(a, b, _MM_SHUFFLE(2, 0, 2, 0))), half);
  const __m128i cc = _mm_cmpeq_epi32(_mm_castps_si128(_mm_shuffle_ps(c, c, _MM_SHUFFLE(2, 0, 2, 0))), half);
  const __m128i is = _mm_packs_epi16(_mm_packs_epi32(ab, cc), _mm_setzero_si128());
  return (uint32_t)_mm_movemask_epi8(is) & ((1u << SD_BUCKET_ORDERS) - 1);
#else
  uint32_t like = 0;
  for (uint32_t i = 0; i < SD_BUCKET_ORDERS; i++) like |= (uint32_t)(bucket->id[i] == id) << i;
  return like;
#endif
}

/* Finds the slot of an order that its first bucket alone does not decide; SD_NO_ORDER: there is none. */
uint32_t sd_book_search(const sd_book *b, uint64_t id, uint64_t hash);

/* The slot of an order; SD_NO_ORDER: there is none. */
static inline uint32_t sd_book_find_hashed(const sd_book *b, uint64_t id, uint64_t hash) {
  if (SD_UNLIKELY(!b->live)) return SD_NO_ORDER;
  const uint32_t home = sd_book_home(b, hash);
  const sd_bucket *bucket = sd_book_buckets(b) + home;
  const uint32_t place = (uint32_t)__builtin_ctz(sd_bucket_like(bucket, id) | 1u << (SD_BUCKET_ORDERS - 1));
  if (SD_LIKELY(sd_bucket_has(bucket, place, id))) return home << SD_PLACE_BITS | place;
  return sd_book_search(b, id, hash);
}

/* With this process's key. */
static inline uint32_t sd_book_find(const sd_book *b, uint64_t id) {
  return sd_book_find_hashed(b, id, sd_book_hash(id));
}

/* The first free place; SD_BUCKET_ORDERS: none. */
static inline uint32_t sd_bucket_free(const sd_bucket *bucket) {
  return (uint32_t)__builtin_ctz(~(uint32_t)bucket->taken);
}

/* Finds a slot for an id whose first bucket is full, and marks it as a stray's. The caller has reserved memory. */
uint32_t sd_book_pass(sd_book *b, uint64_t hash);

/* Finds a slot for an id; SD_NO_ORDER: an order has this id already. The caller has reserved memory. */
static inline uint32_t sd_book_slot_for(sd_book *b, uint64_t id) {
  const uint64_t hash = sd_book_hash(id);
  const uint32_t home = sd_book_home(b, hash);
  const sd_bucket *bucket = sd_book_buckets(b) + home;
  const uint32_t place = sd_bucket_free(bucket);
  const uint32_t maybe = (bucket->passed_ids & sd_bucket_bit(hash)) | sd_bucket_like(bucket, id);
  if (SD_UNLIKELY(maybe) && sd_book_search(b, id, hash) != SD_NO_ORDER) return SD_NO_ORDER;
  return SD_LIKELY(place < SD_BUCKET_ORDERS) ? home << SD_PLACE_BITS | place : sd_book_pass(b, hash);
}

/* An order leaves a bucket that is not its first one. */
void sd_book_unpass(sd_book *b, uint64_t id, uint32_t bucket);

static inline void sd_book_free_slot(sd_book *b, uint32_t slot) {
  sd_bucket *bucket = sd_book_bucket(b, slot);
  const uint32_t place = sd_bucket_place(slot);
  if (SD_UNLIKELY(bucket->taken & SD_STRAY(place))) sd_book_unpass(b, bucket->id[place], slot >> SD_PLACE_BITS);
  bucket->taken &= (uint16_t)~(1u << place | SD_STRAY(place));
  bucket->id[place] = 0;
}

/* The first order from a slot on; SD_NO_ORDER: there is none. */
static inline uint32_t sd_book_order_from(const sd_book *b, uint32_t slot) {
  for (; slot >> SD_PLACE_BITS < b->n_buckets; slot++)
    if (sd_book_bucket(b, slot)->taken >> sd_bucket_place(slot) & 1) return slot;
  return SD_NO_ORDER;
}

static inline int sd_book_side(const sd_book *b, uint32_t slot) {
  return sd_bucket_side(sd_book_bucket(b, slot), sd_bucket_place(slot));
}
