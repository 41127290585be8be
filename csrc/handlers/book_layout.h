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
#ifndef SD_HANDLERS_BOOK_LAYOUT_H
#define SD_HANDLERS_BOOK_LAYOUT_H

#include <stdint.h>

#include "base/atomic.h"
#include "memory/relative.h"

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
  sd_relative buckets; /* sd_bucket by hash of the id; what finds its bucket full goes on to the next */
  sd_relative levels;  /* sd_level in no order; before them a ladder a side */
  sd_relative high;    /* uint32_t, the upper halves of sizes, by slot; nothing: no order needs one */
  uint32_t n_buckets;
  uint32_t live, full; /* orders, and how many there may be before the table grows */
  uint32_t stamps;     /* given out; see SD_STAMPS */
  uint32_t free;       /* a level that is nobody's, plus one; 0: there is none */
  uint32_t top[2];     /* the best level of a side that has one */
  uint32_t changed;    /* SD_TOP and SD_LADDER bits: for who shows it, who takes them off */
  uint16_t n[2];       /* levels in the ladder of a side: its best ones */
  uint16_t capacity;   /* in each ladder */
  /* `capacity`; 0 while a side has levels beyond its ladder: a level may then need more than a place in it */
  uint16_t easy;
} sd_book;

_Static_assert(sizeof(sd_book) == SD_LINE, "a book is a cache line");

static inline sd_bucket *sd_book_buckets(const sd_book *b) { return sd_relative_get(&b->buckets); }

static inline sd_level *sd_book_level_at(const sd_book *b, uint32_t level) {
  return (sd_level *)sd_relative_get(&b->levels) + level;
}

/* NULL: no order needs one. */
static inline uint32_t *sd_book_high(const sd_book *b) { return sd_relative_or_null(&b->high); }

/* Makes *to, which is no book or an empty one, the book that *from was; from then on *from is none. */
static inline void sd_book_move(sd_book *to, const sd_book *from) {
  *to = *from;
  sd_relative_set(&to->buckets, sd_relative_or_null(&from->buckets));
  sd_relative_set(&to->levels, sd_relative_or_null(&from->levels));
  sd_relative_set(&to->high, sd_relative_or_null(&from->high));
}

/* A side's best level is another, or has changed; there are more levels or fewer. */
#define SD_TOP(side) (1u << (side))
#define SD_LADDER 4u

/* A book that has given out so many stamps its orders again. */
#define SD_STAMPS (UINT32_C(1) << 31)

#endif
