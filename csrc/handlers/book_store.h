/* One symbol's resting orders, by id, and its price levels.
 *
 * What a tick costs is the cache lines it has to fetch and the branches that nobody can foresee. So orders lie in a hash table
 * and nowhere else, in buckets of two lines whose tags are compared all at once. They are not linked into their level's queue:
 * each has a stamp, which rises with every order that comes to the end of a queue, and a question sorts by it; no tick has to
 * know who stands before whom. A level is found by its price, in a sorted ladder a side with the best one last, because that is
 * where most changes are. What every tick needs of a book is one line. All of it is the symbol's own: who holds its strand may
 * use it, nobody else.
 *
 * A bucket takes 128 bytes for five orders, and three of four places are taken before there are more, by a third or a half: an
 * order takes 34 bytes where the table is full, and never more than 52 right after it grew (the first seven take 256 in all).
 * A book that is all zero is empty.
 */
#ifndef SD_HANDLERS_BOOK_STORE_H
#define SD_HANDLERS_BOOK_STORE_H

#include <stdint.h>
#include <string.h>

#include "handlers/ladder.h"
#include "handlers/pool.h"
#include "sd_atomic.h"

typedef struct sd_order {
  uint64_t id;
  int64_t price;
  uint32_t size;  /* 0: the place is free */
  uint32_t stamp; /* twice when it came to the end of its queue, plus its side */
} sd_order;

enum { SD_BUCKET_ORDERS = 5 };

typedef struct sd_bucket {
  uint8_t tag[SD_BUCKET_ORDERS]; /* 0x80 and seven bits of the id's hash; 0: the place is free */
  uint8_t passed; /* orders that found no place up to here and lie further on; SD_PASSED_MOST: who knows */
  uint8_t unused[2];
  sd_order order[SD_BUCKET_ORDERS];
} sd_bucket;

enum { SD_PASSED_MOST = UINT8_MAX };

_Static_assert(sizeof(sd_bucket) == 128, "a bucket is two cache lines");

typedef struct sd_level {
  uint64_t size; /* of all its orders */
  uint64_t orders;
} sd_level;

typedef struct sd_book {
  sd_bucket *buckets; /* by hash of the id; what finds its bucket full goes on to the next */
  int64_t *ladder;    /* keys of the asks, worst first, then of the bids; then the levels of both in the same order */
  uint32_t n_buckets;
  uint32_t live, full; /* orders, and how many there may be before the table grows */
  uint32_t stamps;     /* given out; see SD_STAMPS */
  uint32_t n[2];       /* levels of a side */
  uint32_t room;       /* for levels of each side */
  uint32_t
      best; /* bits of the sides whose best level is another, or has changed: for who shows it, who takes them off */
  uint32_t unused[4];
} sd_book;

_Static_assert(sizeof(sd_book) == 64, "a book is a cache line");

/* A book that has given out so many stamps its orders again. */
#define SD_STAMPS (UINT32_C(1) << 31)

/* What sd_book_add did. */
enum { SD_BOOK_NO_MEMORY = 0, SD_BOOK_ADDED = 1, SD_BOOK_DUPLICATE = 2 };

/* Room for one more order, for one more level a side, for more stamps. Zero: no memory, and the book is as it was. */
int sd_book_grow_orders(sd_book *b, sd_pool *pool);
int sd_book_grow_ladder(sd_book *b, sd_pool *pool);
int sd_book_stamp_again(sd_book *b, sd_pool *pool);
void sd_book_clear(sd_book *b);
/* Bytes of its orders, and of its levels. */
uint64_t sd_book_order_bytes(const sd_book *b);
uint64_t sd_book_level_bytes(const sd_book *b);

/* ---- the table
 *
 * A slot names an order's place: eight times its bucket, and its number there. It is the order's until the order goes or the
 * table grows. */

#define SD_NO_ORDER UINT32_MAX

static inline sd_order *sd_book_at(const sd_book *b, uint32_t slot) { return &b->buckets[slot >> 3].order[slot & 7]; }

static inline int sd_order_side(const sd_order *o) { return (int)(o->stamp & 1); }

static inline uint64_t sd_book_hash(uint64_t id) { return id * UINT64_C(0x9E3779B97F4A7C15); }

/* The bucket that is looked at first. */
static inline uint32_t sd_book_home(const sd_book *b, uint64_t hash) {
  return (uint32_t)((hash >> 32) * b->n_buckets >> 32);
}

static inline uint32_t sd_book_next_bucket(const sd_book *b, uint32_t bucket) {
  return bucket + 1 == b->n_buckets ? 0 : bucket + 1;
}

static inline uint8_t sd_book_tag(uint64_t hash) { return (uint8_t)(0x80 | hash >> 25); }

/* The tags of a bucket in one word, and a byte in the place of each. */
#define SD_TAGS(byte) ((byte) * UINT64_C(0x0101010101))

static inline uint64_t sd_bucket_tags(const sd_bucket *bucket) {
  uint64_t tags;
  memcpy(&tags, bucket, sizeof tags);
  return tags;
}

/* The high bits of the places that may hold a tag: all that do are among them. */
static inline uint64_t sd_bucket_match(uint64_t tags, uint8_t tag) {
  uint64_t differ = tags ^ SD_TAGS(tag);
  return (differ - SD_TAGS(0x01)) & ~differ & SD_TAGS(0x80);
}

static inline uint64_t sd_bucket_free(uint64_t tags) { return ~tags & SD_TAGS(0x80); }

static inline uint32_t sd_bucket_place(uint64_t bits) { return (uint32_t)__builtin_ctzll(bits) >> 3; }

/* The slot of an order; SD_NO_ORDER: there is none. */
static inline uint32_t sd_book_find(const sd_book *b, uint64_t id) {
  if (SD_UNLIKELY(!b->live)) return SD_NO_ORDER;
  const uint64_t hash = sd_book_hash(id);
  const uint32_t home = sd_book_home(b, hash);
  uint32_t at = home;
  do {
    const sd_bucket *bucket = &b->buckets[at];
    uint64_t may = sd_bucket_match(sd_bucket_tags(bucket), sd_book_tag(hash));
    for (; may; may &= may - 1) {
      const sd_order *o = &bucket->order[sd_bucket_place(may)];
      if (SD_LIKELY(o->id == id && o->size)) return at << 3 | sd_bucket_place(may);
    }
    if (SD_LIKELY(!bucket->passed)) break;
    at = sd_book_next_bucket(b, at);
  } while (at != home);
  return SD_NO_ORDER;
}

static inline uint32_t sd_bucket_take(sd_bucket *bucket, uint64_t hash, uint64_t free) {
  uint32_t place = sd_bucket_place(free);
  bucket->tag[place] = sd_book_tag(hash);
  return place;
}

/* The same as sd_book_take_slot where the first bucket alone does not tell. */
uint32_t sd_book_search_slot(sd_book *b, uint64_t id);

/* A slot for an id, taken; SD_NO_ORDER: it is an order's already. There has to be room. */
static inline uint32_t sd_book_take_slot(sd_book *b, uint64_t id) {
  const uint64_t hash = sd_book_hash(id);
  const uint32_t home = sd_book_home(b, hash);
  sd_bucket *bucket = &b->buckets[home];
  const uint64_t tags = sd_bucket_tags(bucket), free = sd_bucket_free(tags);
  if (SD_UNLIKELY(bucket->passed || !free || sd_bucket_match(tags, sd_book_tag(hash))))
    return sd_book_search_slot(b, id);
  return home << 3 | sd_bucket_take(bucket, hash, free);
}

static inline void sd_book_free_slot(sd_book *b, uint32_t slot) {
  sd_order *o = sd_book_at(b, slot);
  b->buckets[slot >> 3].tag[slot & 7] = 0;
  o->size = 0;
  for (uint32_t at = sd_book_home(b, sd_book_hash(o->id)); SD_UNLIKELY(at != slot >> 3);
       at = sd_book_next_bucket(b, at))
    if (b->buckets[at].passed != SD_PASSED_MOST) b->buckets[at].passed--;
}

/* ---- levels
 *
 * `rung` is what sd_book_rung said of the price some time ago: a guess. */

static inline int64_t *sd_book_keys(const sd_book *b, int side) { return b->ladder + (b->room & -(uint32_t)side); }

static inline sd_level *sd_book_levels(const sd_book *b, int side) {
  return (sd_level *)(b->ladder + 2 * (uint64_t)b->room) + (b->room & -(uint32_t)side);
}

#define SD_NO_RUNG UINT32_MAX

/* The first rung of a side's ladder that is not worse than a key: where its level is, or belongs. */
static inline uint32_t sd_book_rung(const sd_book *b, int side, int64_t key) {
  return sd_ladder_find(sd_book_keys(b, side), b->n[side], key);
}

static inline uint32_t sd_book_rung_now(const sd_book *b, int side, int64_t key, uint32_t rung) {
  return SD_LIKELY(rung < b->n[side] && sd_book_keys(b, side)[rung] == key) ? rung : sd_book_rung(b, side, key);
}

/* Notes a change of a level. */
static inline void sd_book_touch(sd_book *b, int side, uint32_t rung) {
  b->best |= (uint32_t)(rung + 1 >= b->n[side]) << side;
}

/* More of a price; its level is made if it is not there, for which there is room. */
static inline void sd_book_add_to_level(sd_book *b, int side, int64_t price, uint32_t size, uint32_t rung) {
  int64_t *keys = sd_book_keys(b, side), key = sd_ladder_key(side, price);
  sd_level *levels = sd_book_levels(b, side);
  uint32_t n = b->n[side], at = sd_book_rung_now(b, side, key, rung);
  if (at == n || keys[at] != key) {
    for (uint32_t i = n; i > at; i--) {
      keys[i] = keys[i - 1];
      levels[i] = levels[i - 1];
    }
    keys[at] = key;
    levels[at] = (sd_level){0, 0};
    b->n[side] = n + 1;
  }
  levels[at].size += size;
  levels[at].orders++;
  sd_book_touch(b, side, at);
}

static inline void sd_book_take_from_level(sd_book *b, const sd_order *o, uint32_t rung) {
  int side = sd_order_side(o);
  sd_level *levels = sd_book_levels(b, side);
  uint32_t at = sd_book_rung_now(b, side, sd_ladder_key(side, o->price), rung);
  levels[at].size -= o->size;
  sd_book_touch(b, side, at);
  if (--levels[at].orders) return;
  int64_t *keys = sd_book_keys(b, side);
  uint32_t n = --b->n[side];
  for (; at < n; at++) {
    keys[at] = keys[at + 1];
    levels[at] = levels[at + 1];
  }
}

/* ---- orders */

static inline uint32_t sd_book_next_stamp(sd_book *b, int side) { return b->stamps++ << 1 | (uint32_t)side; }

/* All that an order may need that goes to the end of a queue, before anything is changed. Zero: no memory. */
static inline int sd_book_make_room(sd_book *b, sd_pool *pool, int side, uint32_t more) {
  if (SD_UNLIKELY(b->live + more > b->full) && !sd_book_grow_orders(b, pool)) return 0;
  if (SD_UNLIKELY(b->n[side] == b->room) && !sd_book_grow_ladder(b, pool)) return 0;
  return SD_LIKELY(b->stamps < SD_STAMPS) || sd_book_stamp_again(b, pool);
}

/* A new order at the end of its level's queue, unless its id is there already. Without memory the book is as it was. */
static inline int sd_book_add(sd_book *b, sd_pool *pool, uint64_t id, int side, int64_t price, uint32_t size,
                              uint32_t rung) {
  if (SD_UNLIKELY(!sd_book_make_room(b, pool, side, 1))) return SD_BOOK_NO_MEMORY;
  uint32_t slot = sd_book_take_slot(b, id);
  if (SD_UNLIKELY(slot == SD_NO_ORDER)) return SD_BOOK_DUPLICATE;
  *sd_book_at(b, slot) = (sd_order){id, price, size, sd_book_next_stamp(b, side)};
  b->live++;
  sd_book_add_to_level(b, side, price, size, rung);
  return SD_BOOK_ADDED;
}

static inline void sd_book_remove(sd_book *b, uint32_t slot, uint32_t rung) {
  sd_book_take_from_level(b, sd_book_at(b, slot), rung);
  sd_book_free_slot(b, slot);
  b->live--;
}

/* Less of an order that keeps its place; by less than what is left. */
static inline void sd_book_reduce(sd_book *b, uint32_t slot, uint32_t by, uint32_t rung) {
  sd_order *o = sd_book_at(b, slot);
  int side = sd_order_side(o);
  uint32_t at = sd_book_rung_now(b, side, sd_ladder_key(side, o->price), rung);
  o->size -= by;
  sd_book_levels(b, side)[at].size -= by;
  sd_book_touch(b, side, at);
}

/* Another size, price or both. It keeps its place only with the same price and no more size. Zero: no memory, as it was. */
static inline int sd_book_change(sd_book *b, sd_pool *pool, uint32_t slot, int64_t price, uint32_t size,
                                 uint32_t rung) {
  sd_order *o = sd_book_at(b, slot);
  int side = sd_order_side(o);
  if (price == o->price && size <= o->size) {
    sd_book_reduce(b, slot, o->size - size, rung);
    return 1;
  }
  if (!sd_book_make_room(b, pool, side, 0)) return 0;
  sd_book_take_from_level(b, o, rung);
  *o = (sd_order){o->id, price, size, sd_book_next_stamp(b, side)};
  sd_book_add_to_level(b, side, price, size, SD_NO_RUNG);
  return 1;
}

/* The order gives way to a new one of its side at the end of a queue, unless that one's id is another order's already: then it
 * only goes. As sd_book_add. */
static inline int sd_book_replace(sd_book *b, sd_pool *pool, uint32_t slot, uint64_t id, int64_t price, uint32_t size,
                                  uint32_t rung) {
  int side = sd_order_side(sd_book_at(b, slot));
  if (!sd_book_make_room(b, pool, side, 0)) return SD_BOOK_NO_MEMORY;
  sd_book_remove(b, slot, rung);
  return sd_book_add(b, pool, id, side, price, size, SD_NO_RUNG);
}

#endif
