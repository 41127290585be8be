/* Segments: strands queue their records in them. A bounded pool hands them out through a cache per participant.
 *
 * A segment is one line of header followed by records, about 2 KB together. That is small enough that a strand with one tick holds little
 * memory, and large enough that a handler gets runs of ticks. Segments are referred to by index, never by pointer. If the dispatcher has
 * outputs or timers, a segment is longer: one position per record follows the records.
 *
 * Only the thread that holds a participant may call sd_segment_get and sd_segment_put with that participant's cache. The shared free list
 * holds runs of SD_FREE_RUN segments. A cache that holds two runs gives one back, so that segments freed by workers get back to
 * publishers. Both are arrays of indices, so nobody touches the lines of a free segment. */
#pragma once

#include <stddef.h>

#include "base/atomic.h"
#include "memory/space.h"
#if defined(SD_MODEL_STRANDS)
typedef struct sd_position sd_position; /* the model's records have no positions */
#else
#include "sd_handler.h"
#endif

enum {
  SD_SEGMENTS_AHEAD = 4,  /* how far down its cache a segment is prefetched before it is handed out */
  SD_SEGMENTS_MORE = 1024 /* segments to allocate at once, if the space is attachable */
};

#if defined(SD_MODEL_STRANDS)
/* For the models of strands and tokens: a segment is a structure of two records, and a "byte" is a record. The checker has to see each
 * record to find races on it. */
enum { SD_FREE_RUN = 2, SD_SEGMENT_BYTES = 1, SD_SEGMENT_HEADER = 0, SD_MODEL_RECORDS = 2 };
typedef SD_PLAIN(uint64_t) sd_byte;
#else
#if defined(SD_MODEL_SCHEDULER)
enum { SD_FREE_RUN = 2, SD_SEGMENT_BYTES = 2048, SD_SEGMENT_HEADER = SD_LINE };
#else
/* cffi: begin */
enum { SD_FREE_RUN = 64, SD_SEGMENT_BYTES = 2048, SD_SEGMENT_HEADER = SD_LINE };
/* cffi: end */
#endif
typedef unsigned char sd_byte;
#endif

typedef struct sd_segment {
  sd_a32 next; /* in a strand: the segment that follows */
#if defined(SD_MODEL_STRANDS)
  sd_byte record[SD_MODEL_RECORDS];
#endif
} sd_segment;

typedef struct sd_segment_cache {
  SD_PLAIN(uint32_t) count;
  SD_PLAIN(uint32_t) index[2 * SD_FREE_RUN]; /* a LIFO */
} sd_segment_cache;

/* Shared; lies in the arena, next to the stack of runs. */
typedef struct sd_free_list {
  sd_a32 lock;
  SD_PLAIN(uint32_t) runs;   /* full runs on the stack */
  SD_PLAIN(uint32_t) unused; /* segments from here to n_segments have never been handed out */
  SD_PLAIN(uint32_t) filled; /* segments below this have memory */
  uint32_t n_segments;
} sd_free_list;

/* One process's access to the pool. */
typedef struct sd_segment_pool {
  sd_free_list *list;
  SD_PLAIN(uint32_t) * stack; /* one run after another; protected by the free list's lock */
#if defined(SD_MODEL_STRANDS)
  sd_segment *segments;
#else
  sd_byte *segments;
#endif
  size_t segment_bytes;
  uint32_t record_size;
  uint32_t records;      /* per segment */
  uint32_t positions_at; /* bytes from the start of a segment to its records' positions; 0: there are no positions */
  sd_space *space;
} sd_segment_pool;

#if defined(SD_MODEL_STRANDS)
static inline sd_segment *sd_segment_at(const sd_segment_pool *pool, uint32_t index) {
  return &pool->segments[sd_model_index(index)];
}
static inline sd_byte *sd_segment_record(const sd_segment_pool *pool, uint32_t index, uint32_t at) {
  return &sd_segment_at(pool, index)->record[at];
}
static inline void sd_copy(sd_byte *to, const sd_byte *from, size_t n) {
  for (size_t i = 0; i < n; i++) to[i] = (uint64_t)from[i];
}
#else
static inline sd_segment *sd_segment_at(const sd_segment_pool *pool, uint32_t index) {
  return (sd_segment *)(pool->segments + (size_t)index * pool->segment_bytes);
}

static inline sd_byte *sd_segment_record(const sd_segment_pool *pool, uint32_t index, uint32_t at) {
  return pool->segments + (size_t)index * pool->segment_bytes + SD_SEGMENT_HEADER + (size_t)at * pool->record_size;
}

static inline void sd_copy(sd_byte *to, const sd_byte *from, size_t n) { __builtin_memcpy(to, from, n); }

/* Returns the position of the record at `at`, as for sd_segment_record; NULL if records have no positions. */
static inline sd_position *sd_segment_position(const sd_segment_pool *pool, uint32_t index, uint32_t at) {
  if (!pool->positions_at) return NULL;
  return (sd_position *)(pool->segments + (size_t)index * pool->segment_bytes + pool->positions_at) + at;
}
#endif

#if defined(SD_MODEL_STRANDS)
static inline void sd_segments_fill(sd_segment_pool *pool, uint32_t n) {}
#else
/* Gives the next n segments memory, or those that are left if there are fewer. If the system has none, `filled` stays as it is. Under the
 * free list's lock. */
static inline void sd_segments_fill(sd_segment_pool *pool, uint32_t n) {
  sd_free_list *list = pool->list;
  const uint32_t left = list->n_segments - list->filled;
  if (n > left) n = left;
  if (!n) return;
  const uint64_t at = sd_space_offset(pool->space, sd_segment_at(pool, list->filled));
  if (!sd_space_fill(pool->space, at, n * (uint64_t)pool->segment_bytes)) list->filled = list->filled + n;
}
#endif

/* Fills an empty cache with a run of freed segments, or else with segments that have never been used. */
static inline void sd_segment_refill(sd_segment_pool *pool, sd_segment_cache *cache) {
  sd_free_list *list = pool->list;
  uint32_t count;
  sd_lock(&list->lock);
  if (list->runs) {
    uint32_t from = (list->runs - 1) * SD_FREE_RUN;
    for (uint32_t i = 0; i < SD_FREE_RUN; i++) cache->index[i] = (uint32_t)pool->stack[from + i];
    count = SD_FREE_RUN;
    list->runs = list->runs - 1;
  } else {
    uint32_t first = list->unused;
    if (SD_UNLIKELY(list->filled - first < SD_FREE_RUN)) sd_segments_fill(pool, SD_SEGMENTS_MORE);
    uint32_t left = list->filled - first;
    count = left < SD_FREE_RUN ? left : SD_FREE_RUN;
    for (uint32_t i = 0; i < count; i++) cache->index[i] = first + count - 1 - i;
    list->unused = first + count;
  }
  sd_unlock(&list->lock);
  cache->count = count;
}

/* Returns a segment whose `next` is SD_NONE; SD_NONE: the pool is empty. */
static inline uint32_t sd_segment_get(sd_segment_pool *pool, sd_segment_cache *cache) {
  if (cache->count == 0) {
    sd_segment_refill(pool, cache);
    if (cache->count == 0) return SD_NONE;
  }
  cache->count = cache->count - 1;
  uint32_t index = cache->index[cache->count];
  /* B1: relaxed; the add to pending (P2) publishes it to the strand's owner. */
  sd_store(&sd_segment_at(pool, index)->next, SD_NONE, relaxed, B1);
  return index;
}

/* Moves the cache's older run to the shared free list. */
static inline void sd_segment_share(sd_segment_pool *pool, sd_segment_cache *cache) {
  sd_free_list *list = pool->list;
  sd_lock(&list->lock);
  uint32_t to = list->runs * SD_FREE_RUN;
  for (uint32_t i = 0; i < SD_FREE_RUN; i++) pool->stack[to + i] = (uint32_t)cache->index[i];
  list->runs = list->runs + 1;
  sd_unlock(&list->lock);
  for (uint32_t i = 0; i < SD_FREE_RUN; i++) cache->index[i] = (uint32_t)cache->index[SD_FREE_RUN + i];
  cache->count = cache->count - SD_FREE_RUN;
}

static inline void sd_segment_put(sd_segment_pool *pool, sd_segment_cache *cache, uint32_t index) {
  cache->index[cache->count] = index;
  cache->count = cache->count + 1;
  if (cache->count == 2 * SD_FREE_RUN) sd_segment_share(pool, cache);
}
