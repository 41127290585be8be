/* A growing list of [from, to) ranges of sequence numbers in rising order. Neighbours that touch become one. Ranges beyond the bound are
 * counted, never dropped in silence. One thread at a time. */
#pragma once

#include <stdint.h>
#include <stdlib.h>

enum { SD_RANGES_MAX = 1 << 20 };

/* cffi: begin */
typedef struct sd_range {
  uint64_t from;
  uint64_t to;
} sd_range;
/* cffi: end */

typedef struct sd_ranges {
  sd_range *at;
  uint64_t count;
  uint64_t capacity;
  uint64_t messages; /* in all ranges, including those not listed */
  uint64_t unlisted; /* ranges beyond the bound, or for which there was no memory */
} sd_ranges;

static inline void sd_ranges_add(sd_ranges *r, uint64_t from, uint64_t to) {
  if (from >= to) return;
  r->messages += to - from;
  if (r->count > 0 && r->unlisted == 0 && r->at[r->count - 1].to == from) {
    r->at[r->count - 1].to = to;
    return;
  }
  if (r->count == r->capacity && r->capacity < SD_RANGES_MAX) {
    uint64_t capacity = r->capacity ? 2 * r->capacity : 64;
    sd_range *grown = realloc(r->at, capacity * sizeof *grown);
    if (grown) {
      r->at = grown;
      r->capacity = capacity;
    }
  }
  if (r->count == r->capacity || r->unlisted > 0) {
    r->unlisted++;
    return;
  }
  r->at[r->count++] = (sd_range){from, to};
}

/* How many of [from, to) are in the listed ranges. */
static inline uint64_t sd_ranges_overlap(const sd_ranges *r, uint64_t from, uint64_t to) {
  uint64_t low = 0;
  uint64_t high = r->count;
  while (low < high) {
    uint64_t middle = low + (high - low) / 2;
    if (r->at[middle].to <= from) low = middle + 1;
    else high = middle;
  }
  uint64_t found = 0;
  for (; low < r->count && r->at[low].from < to; low++) {
    uint64_t begin = r->at[low].from > from ? r->at[low].from : from;
    uint64_t end = r->at[low].to < to ? r->at[low].to : to;
    found += end - begin;
  }
  return found;
}

static inline void sd_ranges_free(sd_ranges *r) { free(r->at); }
