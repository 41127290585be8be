/* The levels of a side that lie far below its best price.
 *
 * A sorted array is the fastest place for the levels near the top: changes there move a few keys. But a level that comes or goes
 * at the array's far end moves all of it, and a file may do that with every tick. So an array holds SD_NEAR levels at most. The
 * worse ones lie here, in chunks of sorted keys; a directory of the chunks is sorted too. A change moves one chunk at most, and a
 * new chunk moves the directory, which happens once in SD_CHUNK / 2 levels.
 *
 * Keys are those of ladder.h: greater is better. The owner keeps two rules. Every level in the array is better than every one
 * here. The array has SD_NEAR_LEAST levels at least as long as there are some here.
 * A side that is all zero is empty. Its memory goes with the pools.
 */
#ifndef SD_HANDLERS_DEEP_H
#define SD_HANDLERS_DEEP_H

#include <stdint.h>

#include "handlers/pool.h"

enum { SD_NEAR = 512, SD_NEAR_LEAST = 64, SD_CHUNK = 254 };

typedef struct sd_chunk {
  struct sd_chunk *next; /* of a spare one */
  uint64_t n;
  int64_t keys[SD_CHUNK]; /* the worst first */
  int64_t values[SD_CHUNK];
} sd_chunk;

_Static_assert(SD_NEAR_LEAST + SD_CHUNK <= SD_NEAR, "an array that is refilled has room");

typedef struct sd_chunk_at {
  int64_t from; /* no key of the chunk is below it; INT64_MIN for the first one */
  sd_chunk *chunk;
} sd_chunk_at;

typedef struct sd_deep {
  sd_chunk_at *at; /* the worst chunk first; none is empty */
  sd_chunk *spare;
  uint32_t chunks, room;
  uint32_t levels; /* in all chunks */
  uint32_t taken;  /* chunks, with the spare ones */
} sd_deep;

/* Makes room for one more chunk, which sd_deep_insert and sd_deep_push may need. Zero: no memory. */
int sd_deep_reserve(sd_deep *d, sd_pool *pool);

/* Where a key is, or belongs: it stands until the side changes. */
typedef struct sd_deep_place {
  uint32_t chunk, at;
} sd_deep_place;

/* Zero: the key is not here. Of a side that is not empty. */
int sd_deep_find(const sd_deep *d, int64_t key, sd_deep_place *place);
static inline int64_t *sd_deep_value(const sd_deep *d, sd_deep_place place) {
  return &d->at[place.chunk].chunk->values[place.at];
}
/* Adds a key that is not here where it belongs, on a side that has reserved. */
void sd_deep_insert(sd_deep *d, sd_deep_place place, int64_t key, int64_t value);
void sd_deep_remove(sd_deep *d, sd_deep_place place);
/* Removes all keys better than this one. */
void sd_deep_cut(sd_deep *d, int64_t key);
void sd_deep_clear(sd_deep *d);

/* A new best chunk for n levels, of which the worst has this key, on a side that has reserved. The caller writes its keys and
 * values. */
sd_chunk *sd_deep_push(sd_deep *d, int64_t worst, uint32_t n);
/* The best chunk of a side that is not empty, and its end. */
static inline const sd_chunk *sd_deep_best(const sd_deep *d) { return d->at[d->chunks - 1].chunk; }
void sd_deep_pop(sd_deep *d);

/* Reads a side, the best level first: begins as {d->chunks, 0}. Zero: there are no more. */
typedef struct sd_deep_cursor {
  uint64_t chunk, left;
} sd_deep_cursor;

int sd_deep_next(const sd_deep *d, sd_deep_cursor *cursor, int64_t *key, int64_t *value);

static inline uint64_t sd_deep_bytes(const sd_deep *d) {
  return d->room * (uint64_t)sizeof *d->at + d->taken * (uint64_t)sizeof(sd_chunk);
}

#endif
