/* A side's price levels: sorted keys, of which the greatest is the best one and lies last, and beside each a value.
 *
 * A book of orders has the numbers of its levels as values, of 4 bytes, and a book of levels their sizes, of 8. The keys and the values of
 * a side lie in arrays of their own, because only the keys are searched. A ladder has at most SD_NEAR levels; worse ones lie in chunks
 * (deep.h). */
#pragma once

#include <stdint.h>
#include <string.h>

#include "base/atomic.h"
#include "books/deep.h"

enum { SD_ASK = 0, SD_BID = 1 };

#define SD_LADDER_ZERO (UINT64_C(1) << 63)

/* A price as a ladder keeps it: greater is better on both sides. It is unsigned, because compilers then count comparisons by the carry.
 * It has no branch, because sides come in no order. */
static inline uint64_t sd_ladder_key(int side, int64_t price) {
  return (uint64_t)price * (uint64_t)(2 * side - 1) ^ SD_LADDER_ZERO;
}

static inline int64_t sd_ladder_price(int side, uint64_t key) {
  return (int64_t)((key ^ SD_LADDER_ZERO) * (uint64_t)(2 * side - 1));
}

/* The next capacity of something that grows: 4, 6, 8, 12, 16 and so on. */
static inline uint32_t sd_ladder_grown(uint32_t capacity) {
  return !capacity ? 4 : capacity & (capacity - 1) ? capacity / 3 * 4 : capacity / 2 * 3;
}

/* So many keys are compared at once. Before a side's first key lie as many that are worse than any. */
enum { SD_LADDER_BEST = 8 };

#define SD_LADDER_WORST 0

/* Where the keys of a side without levels begin, in a piece of memory with space for SD_LADDER_BEST more. */
static inline uint64_t *sd_ladder_begin(uint64_t *piece) {
  for (int i = 0; i < SD_LADDER_BEST; i++) piece[i] = SD_LADDER_WORST;
  return piece + SD_LADDER_BEST;
}

/* The first of n keys that is not worse, when all of the best few are not worse. Searches in growing steps, and then by halves. */
static inline uint32_t sd_ladder_find_deep(const uint64_t *keys, uint32_t n, uint64_t key) {
  if (n == 0 || keys[0] >= key) return 0;
  uint32_t high = n > SD_LADDER_BEST ? n - SD_LADDER_BEST : 0, step = SD_LADDER_BEST, low;
  while (step <= high && keys[high - step] >= key) {
    high -= step;
    step *= 2;
  }
  low = step <= high ? high - step + 1 : 0;
  for (uint32_t left = high - low; left;) {
    uint32_t half = (left + 1) / 2;
    low += half & -(uint32_t)(keys[low + half - 1] < key);
    left -= half;
  }
  return low;
}

/* The first of n keys that is not worse: where the key is, or belongs. Most are among the best few, which are all compared. So no branch
 * depends on how many there are or on where the key belongs, and no comparison waits for another one. */
static inline uint32_t sd_ladder_find(const uint64_t *keys, uint32_t n, uint64_t key) {
  uint32_t worse = 0;
  for (int i = -SD_LADDER_BEST; i < 0; i++) worse += keys[(int64_t)n + i] < key;
  return SD_LIKELY(worse != 0) ? n - SD_LADDER_BEST + worse : sd_ladder_find_deep(keys, n, key);
}

/* Values of `width` bytes, which is 4 or 8. */
SD_INLINE int64_t sd_ladder_value(const void *values, size_t width, uint32_t at) {
  return width == sizeof(uint32_t) ? (int64_t)((const uint32_t *)values)[at] : ((const int64_t *)values)[at];
}

SD_INLINE void sd_ladder_set(void *values, size_t width, uint32_t at, int64_t value) {
  if (width == sizeof(uint32_t)) ((uint32_t *)values)[at] = (uint32_t)value;
  else ((int64_t *)values)[at] = value;
}

enum { SD_LADDER_FEW = 16 };

/* Adds a level at a place of the n. Most places are near the end, where a call of memmove would cost more. */
SD_INLINE void sd_ladder_put(uint64_t *keys, void *values, size_t width, uint32_t n, uint32_t at, uint64_t key,
                             int64_t value) {
  if (SD_UNLIKELY(n - at > SD_LADDER_FEW)) {
    memmove(&keys[at + 1], &keys[at], (n - at) * sizeof *keys);
    memmove((char *)values + (at + 1) * width, (char *)values + at * width, (n - at) * width);
  } else {
    for (uint32_t i = n; i > at; i--) {
      keys[i] = keys[i - 1];
      sd_ladder_set(values, width, i, sd_ladder_value(values, width, i - 1));
    }
  }
  keys[at] = key;
  sd_ladder_set(values, width, at, value);
}

/* Removes the level at a place of the n. */
SD_INLINE void sd_ladder_take(uint64_t *keys, void *values, size_t width, uint32_t n, uint32_t at) {
  const uint32_t after = n - at - 1;
  if (SD_UNLIKELY(after > SD_LADDER_FEW)) {
    memmove(&keys[at], &keys[at + 1], after * sizeof *keys);
    memmove((char *)values + at * width, (char *)values + (at + 1) * width, after * width);
    return;
  }
  for (uint32_t i = at; i < at + after; i++) {
    keys[i] = keys[i + 1];
    sd_ladder_set(values, width, i, sd_ladder_value(values, width, i + 1));
  }
}

/* Moves the worst of the n levels of a full ladder to the chunks, which have reserved memory. Returns how many stay. */
SD_INLINE uint32_t sd_ladder_spill(uint64_t *keys, void *values, size_t width, uint32_t n, sd_deep *deep) {
  const uint32_t left = n - SD_CHUNK;
  sd_deep_chunk *chunk = sd_deep_push(deep, keys[0], SD_CHUNK);
  memcpy(chunk->keys, keys, sizeof chunk->keys);
  for (uint32_t i = 0; i < SD_CHUNK; i++) chunk->values[i] = sd_ladder_value(values, width, i);
  memmove(keys, &keys[SD_CHUNK], left * sizeof *keys);
  memmove(values, (char *)values + SD_CHUNK * width, left * width);
  return left;
}

/* Moves levels back from the chunks to a ladder that has become short. Returns how many it has. */
SD_INLINE uint32_t sd_ladder_refill(uint64_t *keys, void *values, size_t width, uint32_t n, sd_deep *deep) {
  while (deep->levels && n < SD_NEAR_MIN) {
    const sd_deep_chunk *chunk = sd_deep_best(deep);
    const uint32_t more = (uint32_t)chunk->n;
    memmove(&keys[more], keys, n * sizeof *keys);
    memmove((char *)values + more * width, values, n * width);
    memcpy(keys, chunk->keys, more * sizeof *keys);
    for (uint32_t i = 0; i < more; i++) sd_ladder_set(values, width, i, chunk->values[i]);
    n += more;
    sd_deep_pop(deep);
  }
  return n;
}
