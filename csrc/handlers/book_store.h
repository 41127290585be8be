/* One symbol's resting orders, by id, and its price levels.
 *
 * What a tick costs is the cache lines it has to fetch and the branches that nobody can foresee. So orders lie in a hash table
 * and nowhere else, in buckets of two lines whose ids are compared all at once. They are not linked into their level's queue:
 * each has a stamp, which rises with every order that comes to the end of a queue, and a question sorts by it; no tick has to
 * know who stands before whom. An order knows its level by a number that stays the same as long as the level is there: a cancel
 * or a fill goes from the order to its level and looks for nothing. Only who has a price and no order looks it up, in a sorted
 * ladder a side with the best one last, because that is where most changes are; and only a level that comes or goes changes a
 * ladder. What every tick needs of a book is one line. All of it is the symbol's own: who holds its strand may use it, nobody
 * else.
 *
 * A file may have been made to be slow. Nobody can choose ids that share a bucket, because the hash has a key that each process
 * draws anew; results do not depend on it. And a ladder has SD_NEAR levels at most: worse ones lie in chunks (deep.h), and
 * their changes cost the logarithm of how many there are.
 *
 * A bucket takes 128 bytes for six orders, and eleven of twenty places are taken before there are more, by a third or a half: an
 * order takes 39 bytes where the table is full, and never more than 59 right after it grew (the first six take 256 in all). With
 * fuller tables, or buckets of three, too many orders find their bucket full: what those cost is more than the memory saves.
 *
 * A size has 64 bits, of which a bucket keeps the lower half: feeds whose sizes have 32 bits on the wire need no more. The first
 * size that needs its upper half makes the book a wide one: it gets a table of upper halves beside its buckets, 32 bytes for
 * each, and keeps it until its buckets are given back. No answer depends on it.
 * A book that is all zero is empty.
 */
#ifndef SD_HANDLERS_BOOK_STORE_H
#define SD_HANDLERS_BOOK_STORE_H

#include <stdint.h>
#if defined(__SSE2__)
#include <emmintrin.h>
#endif

#include "base/atomic.h"
#include "handlers/deep.h"
#include "handlers/ladder.h"
#include "handlers/pool.h"

enum { SD_BUCKET_ORDERS = 6, SD_PLACE_BITS = 3 };

typedef struct sd_bucket {
  uint64_t id[SD_BUCKET_ORDERS];   /* 0 where the place is free */
  uint32_t size[SD_BUCKET_ORDERS]; /* the lower half */
  uint32_t level[SD_BUCKET_ORDERS];
  uint32_t stamp[SD_BUCKET_ORDERS]; /* twice when it came to the end of its queue, plus its side */
  uint32_t passed;                  /* orders that found no place up to here and lie further on */
  uint16_t passed_ids;              /* a bit for each of their ids, and of those that have gone since there was none */
  uint16_t taken;                   /* a bit for each place that is not free, and SD_STRAY bits */
} sd_bucket;

_Static_assert(sizeof(sd_bucket) == 2 * SD_LINE, "a bucket is two cache lines");

/* The order in this place found its first bucket full. */
#define SD_STRAY(place) (256u << (place))

typedef struct sd_level {
  int64_t price;
  int64_t size; /* of all its orders */
  uint32_t orders;
  uint32_t side; /* without orders: the next level that is nobody's, plus one */
} sd_level;

typedef struct sd_book {
  sd_bucket *buckets; /* by hash of the id; what finds its bucket full goes on to the next */
  sd_level *levels;   /* in no order; before them a ladder a side */
  uint32_t *high;     /* the upper halves of sizes, by slot; NULL: no order needs one */
  uint32_t n_buckets;
  uint32_t live, full; /* orders, and how many there may be before the table grows */
  uint32_t stamps;     /* given out; see SD_STAMPS */
  uint32_t free;       /* a level that is nobody's, plus one; 0: there is none */
  uint32_t top[2];     /* the best level of a side that has one */
  uint32_t changed;    /* SD_TOP and SD_LADDER bits: for who shows it, who takes them off */
  uint16_t n[2];       /* levels in the ladder of a side: its best ones */
  uint16_t room;       /* in each ladder */
  /* `room`; 0 while a side has levels beyond its ladder: a level may then need more than a place in it */
  uint16_t easy;
} sd_book;

_Static_assert(sizeof(sd_book) == SD_LINE, "a book is a cache line");

/* A side's best level is another, or has changed; there are more levels or fewer. */
#define SD_TOP(side) (1u << (side))
#define SD_LADDER 4u

/* A book that has given out so many stamps its orders again. */
#define SD_STAMPS (UINT32_C(1) << 31)

/* What a change did. With the first two the book is as it was. */
enum {
  SD_BOOK_NO_MEMORY = 0,
  SD_BOOK_TOO_LARGE = 1, /* the sizes of a level would add up to more than 2^63 - 1 */
  SD_BOOK_DONE = 2,
  SD_BOOK_DUPLICATE = 3 /* the new order's id is an order's already: it was left out */
};

/* Room for one more order, for one more level of a side, for more stamps. Zero: no memory, and the book is as it was. */
int sd_book_grow_orders(sd_book *b, sd_pool *pool);
int sd_book_grow_levels(sd_book *b, sd_pool *pool, int side);
int sd_book_stamp_again(sd_book *b, sd_pool *pool);
void sd_book_clear(sd_book *b, sd_pool *pool);
/* Bytes of its orders, and of its levels. */
uint64_t sd_book_order_bytes(const sd_book *b);
uint64_t sd_book_level_bytes(const sd_book *b);

/* ---- the table
 *
 * A slot names an order's place: eight times its bucket, and its number there. It is the order's until the order goes or the
 * table grows. */

#define SD_NO_ORDER UINT32_MAX

static inline sd_bucket *sd_book_bucket(const sd_book *b, uint32_t slot) { return &b->buckets[slot >> SD_PLACE_BITS]; }

static inline uint32_t sd_bucket_place(uint32_t slot) { return slot & ((1 << SD_PLACE_BITS) - 1); }

static inline int sd_bucket_side(const sd_bucket *bucket, uint32_t place) { return (int)(bucket->stamp[place] & 1); }

/* Also a free place has an id that an order may have. */
static inline int sd_bucket_has(const sd_bucket *bucket, uint32_t place, uint64_t id) {
  return bucket->id[place] == id && bucket->taken >> place & 1;
}

static inline int64_t sd_book_size(const sd_book *b, uint32_t slot) {
  const int64_t low = sd_book_bucket(b, slot)->size[sd_bucket_place(slot)];
  return SD_UNLIKELY(b->high) ? (int64_t)b->high[slot] << 32 | low : low;
}

static inline void sd_book_set_size(sd_book *b, uint32_t slot, int64_t size) {
  sd_book_bucket(b, slot)->size[sd_bucket_place(slot)] = (uint32_t)size;
  if (SD_UNLIKELY(b->high)) b->high[slot] = (uint32_t)(size >> 32);
}

static inline int64_t sd_book_price(const sd_book *b, uint32_t slot) {
  return b->levels[sd_book_bucket(b, slot)->level[sd_bucket_place(slot)]].price;
}

/* Drawn at random once in a process. Without it nobody can tell which ids share a bucket. */
typedef struct sd_hash_key {
  uint64_t mask, factor;
} sd_hash_key;

extern sd_hash_key sd_book_key;

void sd_book_draw_key(void);

/* One product alone would keep ids at equal distances at equal distances, and for some keys these fall together. */
static inline uint64_t sd_book_hash(uint64_t id) {
  const uint64_t product = (id ^ sd_book_key.mask) * sd_book_key.factor;
  return (product ^ product >> 32) * UINT64_C(0x9E3779B97F4A7C15);
}

/* The bucket that is looked at first. */
static inline uint32_t sd_book_home(const sd_book *b, uint64_t hash) {
  return (uint32_t)((hash >> 32) * b->n_buckets >> 32);
}

static inline uint32_t sd_book_next_bucket(const sd_book *b, uint32_t bucket) {
  return bucket + 1 == b->n_buckets ? 0 : bucket + 1;
}

/* An id's bit among those that passed a bucket. */
static inline uint32_t sd_bucket_bit(uint64_t hash) { return UINT32_C(1) << (hash >> 28 & 15); }

/* A bit for each place whose id may be this one: where there are vectors of 32 bits, by its lower half. No branch: which place it
 * is, nobody can foresee. */
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

/* The same as sd_book_find where the first bucket alone does not tell. */
uint32_t sd_book_search(const sd_book *b, uint64_t id);

/* The slot of an order; SD_NO_ORDER: there is none. */
static inline uint32_t sd_book_find(const sd_book *b, uint64_t id) {
  if (SD_UNLIKELY(!b->live)) return SD_NO_ORDER;
  const uint32_t home = sd_book_home(b, sd_book_hash(id));
  const sd_bucket *bucket = &b->buckets[home];
  const uint32_t place = (uint32_t)__builtin_ctz(sd_bucket_like(bucket, id) | 1u << (SD_BUCKET_ORDERS - 1));
  if (SD_LIKELY(sd_bucket_has(bucket, place, id))) return home << SD_PLACE_BITS | place;
  return sd_book_search(b, id);
}

/* The first free place; SD_BUCKET_ORDERS: none. */
static inline uint32_t sd_bucket_free(const sd_bucket *bucket) {
  return (uint32_t)__builtin_ctz(~(uint32_t)bucket->taken);
}

/* The slot for an id whose first bucket is full, marked as a stray's. There has to be room. */
uint32_t sd_book_pass(sd_book *b, uint64_t hash);

/* A slot for an id; SD_NO_ORDER: it is an order's already. There has to be room. */
static inline uint32_t sd_book_slot_for(sd_book *b, uint64_t id) {
  const uint64_t hash = sd_book_hash(id);
  const uint32_t home = sd_book_home(b, hash);
  const sd_bucket *bucket = &b->buckets[home];
  const uint32_t place = sd_bucket_free(bucket);
  const uint32_t maybe = (bucket->passed_ids & sd_bucket_bit(hash)) | sd_bucket_like(bucket, id);
  if (SD_UNLIKELY(maybe) && sd_book_search(b, id) != SD_NO_ORDER) return SD_NO_ORDER;
  return SD_LIKELY(place < SD_BUCKET_ORDERS) ? home << SD_PLACE_BITS | place : sd_book_pass(b, hash);
}

/* An order goes from a bucket that is not its first. */
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

/* ---- levels
 *
 * Before the levels lie the keys of asks and of bids, each with SD_LADDER_BEST before them that are worse than any, and before
 * these the numbers of their levels. A level's number is its own until it has no order. `level`, where a function takes one, is
 * a guess at the number of a price. */

#define SD_NO_LEVEL UINT32_MAX

/* Where they begin, also of a book without any: to be asked for. */
static inline uintptr_t sd_book_keys_at(const sd_book *b, int side) {
  const uintptr_t room = (uintptr_t)b->room + SD_LADDER_BEST;
  return (uintptr_t)b->levels - ((room << side) - SD_LADDER_BEST) * sizeof(int64_t);
}

static inline uintptr_t sd_book_numbers_at(const sd_book *b, int side) {
  const uintptr_t room = b->room, keys = 2 * (room + SD_LADDER_BEST) * sizeof(int64_t);
  return (uintptr_t)b->levels - keys - (room << side) * sizeof(uint32_t);
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
  const sd_level *l = &b->levels[level];
  return l->price == price && l->side == (uint32_t)side && l->orders;
}

/* How many there are, and their numbers from the best one on, by a cursor that begins as zeros. Zero: there are no more. */
typedef struct sd_level_cursor {
  uint64_t read;
  sd_deep_cursor deep;
} sd_level_cursor;

uint32_t sd_book_deep_levels(const sd_book *b, int side);

static inline uint32_t sd_book_count_levels(const sd_book *b, int side) {
  return b->n[side] + (SD_LIKELY(b->easy == b->room) ? 0 : sd_book_deep_levels(b, side));
}

int sd_book_next_level(const sd_book *b, int side, sd_level_cursor *cursor, uint32_t *level);

/* A new level, without orders, for which there has to be room; and the end of one. */
uint32_t sd_book_make_level(sd_book *b, int side, int64_t price);
void sd_book_drop_level(sd_book *b, int side, uint32_t level);

/* Notes a change of a level. */
static inline void sd_book_touch(sd_book *b, int side, uint32_t level) {
  b->changed |= (uint32_t)(level == b->top[side]) << side;
}

/* More of a price; its level is made if it is not there, for which there has to be room. Returns the level. */
static inline uint32_t sd_book_add_to_level(sd_book *b, int side, int64_t price, int64_t size, uint32_t level) {
  if (SD_UNLIKELY(!sd_book_is_level(b, side, price, level))) level = sd_book_make_level(b, side, price);
  b->levels[level].size += size;
  b->levels[level].orders++;
  sd_book_touch(b, side, level);
  return level;
}

static inline void sd_book_take_from_level(sd_book *b, int side, uint32_t level, int64_t size) {
  sd_book_touch(b, side, level);
  b->levels[level].size -= size;
  if (--b->levels[level].orders == 0) sd_book_drop_level(b, side, level);
}

/* ---- orders */

static inline uint32_t sd_book_next_stamp(sd_book *b, int side) { return b->stamps++ << 1 | (uint32_t)side; }

/* All that an order may need that goes to the end of a queue, before anything is changed. Zero: no memory. */
static inline int sd_book_make_room(sd_book *b, sd_pool *pool, int side, uint32_t more) {
  if (SD_UNLIKELY(b->live + more > b->full) && !sd_book_grow_orders(b, pool)) return 0;
  if (SD_UNLIKELY(b->n[side] >= b->easy) && !sd_book_grow_levels(b, pool, side)) return 0;
  return SD_LIKELY(b->stamps < SD_STAMPS) || sd_book_stamp_again(b, pool);
}

static inline int sd_book_is_wide(const sd_book *b, int64_t size) { return size > UINT32_MAX || b->high; }

/* Lets a book keep the upper half of a size, where it has room for the order that brings it. `slot` is the order that gives way
 * to it, or SD_NO_ORDER. SD_BOOK_DONE: it may come; SD_BOOK_DUPLICATE: its id is another order's, and no level holds it. */
int sd_book_make_wide(sd_book *b, sd_pool *pool, uint32_t slot, uint64_t id, int side, int64_t price, int64_t size);

/* A new order at the end of its level's queue, unless its id is there already. */
static inline int sd_book_add(sd_book *b, sd_pool *pool, uint64_t id, int side, int64_t price, int64_t size,
                              uint32_t level) {
  if (SD_UNLIKELY(!sd_book_make_room(b, pool, side, 1))) return SD_BOOK_NO_MEMORY;
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

/* A size of 1 to `left` for an order that keeps its place. */
static inline void sd_book_reduce(sd_book *b, uint32_t slot, int64_t left, int64_t size) {
  const sd_bucket *bucket = sd_book_bucket(b, slot);
  const uint32_t place = sd_bucket_place(slot), level = bucket->level[place];
  sd_book_set_size(b, slot, size);
  b->levels[level].size -= left - size;
  sd_book_touch(b, sd_bucket_side(bucket, place), level);
}

/* Another size, price or both. It keeps its place only with the same price and no more size. */
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
  if (!sd_book_make_room(b, pool, side, 0)) return SD_BOOK_NO_MEMORY;
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

/* The order gives way to a new one of its side at the end of a queue, unless that one's id is another order's already: then it
 * only goes. */
static inline int sd_book_replace(sd_book *b, sd_pool *pool, uint32_t slot, uint64_t id, int64_t price, int64_t size,
                                  uint32_t level) {
  const int side = sd_bucket_side(sd_book_bucket(b, slot), sd_bucket_place(slot));
  if (!sd_book_make_room(b, pool, side, 0)) return SD_BOOK_NO_MEMORY;
  if (SD_UNLIKELY(sd_book_is_wide(b, size))) {
    const int code = sd_book_make_wide(b, pool, slot, id, side, price, size);
    if (code < SD_BOOK_DONE) return code;
  }
  sd_book_remove(b, slot, sd_book_size(b, slot));
  return sd_book_add(b, pool, id, side, price, size, level);
}

#endif
