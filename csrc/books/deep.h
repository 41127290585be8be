/* The levels of a side that lie far below its best price.
 *
 * A sorted array is the fastest place for the levels near the top, because changes there move a few keys. But a level that comes or goes
 * at the array's far end moves all of it, and a file may do that with every tick. So an array holds at most SD_NEAR levels. The worse
 * ones lie here, in a tree of chunks of sorted keys. A change moves at most half a kilobyte in each chunk on its way, and more than one
 * chunk only once in SD_CHUNK / 2 changes.
 *
 * Keys are those of ladder.h: greater is better. The owner keeps two rules. Every level in the array is better than every one here. The
 * array has at least SD_NEAR_MIN levels while there are some here. A side that is all zero is empty. The pools own its memory. */
#pragma once

#include <stdint.h>

#include "memory/pool.h"
#include "memory/relative.h"

enum { SD_NEAR = 512, SD_NEAR_MIN = 64, SD_CHUNK = 62, SD_DEEP_HEIGHT = 12 };

typedef struct sd_deep_chunk {
  sd_relative next; /* of a spare one, the next one */
  uint64_t n;       /* 0 only in a spare one */
  uint64_t
      keys[SD_CHUNK]; /* the worst first. Above the lowest chunks: no key below is less, but the first chunk's may be */
  union {
    int64_t values[SD_CHUNK];
    /* For a chunk that is not one of the lowest: how far from its own beginning the chunks below begin. So these values may move within
     * the chunk. */
    int64_t below[SD_CHUNK];
  };
} sd_deep_chunk;

_Static_assert(SD_NEAR_MIN + SD_CHUNK <= SD_NEAR, "an array that is refilled has room");

typedef struct sd_deep {
  sd_relative root;  /* sd_deep_chunk */
  sd_relative spare; /* sd_deep_chunk, the first of them */
  uint32_t height;   /* chunks on the way from the root to a key, both ends included; 0: the side is empty */
  uint32_t spares;
  uint32_t levels;
  uint32_t taken; /* chunks, with the spare ones */
} sd_deep;

/* Moves the side *from to *to; *from is unset afterwards. */
void sd_deep_move(sd_deep *to, const sd_deep *from);
/* Gets memory for one sd_deep_insert or sd_deep_push. Zero: no memory. */
int sd_deep_reserve(sd_deep *d, sd_pool *pool);

/* Where a key is, or belongs, from the lowest chunk up. It is valid until the side changes. */
typedef struct sd_deep_place {
  struct {
    sd_deep_chunk *chunk;
    uint64_t at;
  } step[SD_DEEP_HEIGHT];
} sd_deep_place;

/* Zero: the key is not here. The side must not be empty. */
int sd_deep_find(const sd_deep *d, uint64_t key, sd_deep_place *place);
static inline int64_t *sd_deep_value(const sd_deep_place *place) {
  return &place->step[0].chunk->values[place->step[0].at];
}
/* Adds a key, which must not be here yet, to a side that has reserved memory. */
void sd_deep_insert(sd_deep *d, sd_deep_place *place, uint64_t key, int64_t value);
void sd_deep_remove(sd_deep *d, sd_deep_place *place);
/* The worst key of a side that is not empty. */
uint64_t sd_deep_worst(const sd_deep *d);
/* Removes all keys better than this one. */
void sd_deep_cut(sd_deep *d, uint64_t key);
void sd_deep_clear(sd_deep *d);

/* Makes a new best chunk for n levels, whose worst has this key, on a side that has reserved memory. The caller writes its keys and
 * values. */
sd_deep_chunk *sd_deep_push(sd_deep *d, uint64_t worst, uint32_t n);
/* The best chunk of a side that is not empty, and its end. */
const sd_deep_chunk *sd_deep_best(const sd_deep *d);
void sd_deep_pop(sd_deep *d);

/* Reads a side, the best level first. Begins as all zeros. Zero: there are no more. */
typedef struct sd_deep_cursor {
  sd_deep_place place;
} sd_deep_cursor;

int sd_deep_next(const sd_deep *d, sd_deep_cursor *cursor, uint64_t *key, int64_t *value);

static inline uint64_t sd_deep_bytes(const sd_deep *d) { return d->taken * (uint64_t)sizeof(sd_deep_chunk); }
