/* One symbol's resting orders, by id, and its price levels.
 *
 * A tick costs the cache lines that it has to fetch, and the branches that nobody can predict. So orders lie only in a hash table, in
 * buckets of two lines whose ids are compared all at once. They are not linked into their level's queue. Each has a stamp instead, which
 * rises with every order that comes to the end of a queue; a question sorts by it, and no tick has to know the order before another one.
 * An order knows its level by a number that stays the same as long as the level exists. So a cancel or a fill goes from the order to its
 * level, and searches nothing. Only a tick with a price and no order searches for the level, in a sorted ladder per side. The best price
 * is last, because most changes are there. And only a level that comes or goes changes a ladder. Every tick needs only one line of the
 * book itself. All of it belongs to the symbol: only the owner of its strand may use it.
 *
 * A file may have been made to be slow. Nobody can choose ids that share a bucket, because the hash has a key that each process draws
 * anew; results do not depend on it. And a ladder has at most SD_NEAR levels. Worse ones lie in chunks (deep.h), where a change costs the
 * logarithm of their number.
 *
 * A bucket takes 128 bytes for six orders. The table grows, by a third or a half, when eleven of twenty places are taken. So an order
 * takes 39 bytes in a full table, and never more than 59 right after it grew (the first six take 256 in all). In fuller tables, or with
 * buckets of three, too many orders would find their bucket full, and that costs more than the memory saves.
 *
 * A size has 64 bits, of which a bucket keeps the lower half: feeds whose sizes have 32 bits on the wire need no more. The first size
 * that needs its upper half makes the book wide: it gets a table of upper halves beside its buckets, 32 bytes for each, and keeps it
 * until its buckets are given back. No answer depends on it. A book that is all zero is empty. */
#pragma once

#include <stdint.h>

#include "base/atomic.h"
#include "memory/relative.h"

enum { SD_BUCKET_ORDERS = 6, SD_PLACE_BITS = 3 };

typedef struct sd_bucket {
  uint64_t id[SD_BUCKET_ORDERS];   /* 0 where the place is free */
  uint32_t size[SD_BUCKET_ORDERS]; /* the lower half */
  uint32_t level[SD_BUCKET_ORDERS];
  uint32_t stamp[SD_BUCKET_ORDERS]; /* its number when it came to the end of its queue, times two, plus its side */
  uint32_t passed;                  /* how many orders found no place up to here and lie further on */
  uint16_t passed_ids;              /* a bit for each of their ids, and of the ids that left since there were none */
  uint16_t taken;                   /* a bit for each place that is not free, and SD_STRAY bits */
} sd_bucket;

_Static_assert(sizeof(sd_bucket) == 2 * SD_LINE, "a bucket is two cache lines");

/* The order in this place found its first bucket full. */
#define SD_STRAY(place) (256u << (place))

typedef struct sd_level {
  int64_t price;
  int64_t size; /* of all its orders */
  uint32_t orders;
  uint32_t side; /* of a level without orders: the next free level, plus one */
} sd_level;

typedef struct sd_book {
  sd_relative buckets; /* sd_bucket by hash of the id; an order that finds its bucket full lies in a later one */
  sd_relative levels;  /* sd_level in no order; before them one ladder per side */
  sd_relative high;    /* uint32_t, the upper halves of sizes, by slot; unset: no order needs one */
  uint32_t n_buckets;
  uint32_t live, full; /* orders, and how many there may be before the table grows */
  uint32_t stamps;     /* how many were given out; see SD_STAMPS */
  uint32_t free;       /* a free level, plus one; 0: there is none */
  uint32_t top[2];     /* the best level of a side that has one */
  uint32_t changed;    /* SD_TOP and SD_LADDER bits; the reader that shows the book clears them */
  uint16_t n[2];       /* per side, levels in the ladder: its best ones */
  uint16_t capacity;   /* of each ladder */
  /* `capacity`; 0 while a side has levels beyond its ladder, because a level may then need more than a place in the ladder */
  uint16_t easy;
} sd_book;

_Static_assert(sizeof(sd_book) == SD_LINE, "a book is a cache line");

static inline sd_bucket *sd_book_buckets(const sd_book *b) { return sd_relative_get(&b->buckets); }

static inline sd_level *sd_book_level_at(const sd_book *b, uint32_t level) {
  return (sd_level *)sd_relative_get(&b->levels) + level;
}

/* NULL: no order needs one. */
static inline uint32_t *sd_book_high(const sd_book *b) { return sd_relative_or_null(&b->high); }

/* Moves the book *from to *to, which is unset or empty. *from is unset afterwards. */
static inline void sd_book_move(sd_book *to, const sd_book *from) {
  *to = *from;
  sd_relative_set(&to->buckets, sd_relative_or_null(&from->buckets));
  sd_relative_set(&to->levels, sd_relative_or_null(&from->levels));
  sd_relative_set(&to->high, sd_relative_or_null(&from->high));
}

/* A side's best level changed, or became another one; and: levels came or went. */
#define SD_TOP(side) (1u << (side))
#define SD_LADDER 4u

/* After so many stamps, a book numbers its orders again. */
#define SD_STAMPS (UINT32_C(1) << 31)
