/* Searching a side's prices, which lie as sorted keys: greater is better, the best one last. */
#ifndef SD_BOOKS_LADDER_H
#define SD_BOOKS_LADDER_H

#include <stdint.h>

#include "base/atomic.h"

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

#endif
