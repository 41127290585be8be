#include "books/depth_side.h"

#include <string.h>

static uint64_t array_bytes(uint32_t capacity) {
  return capacity ? SD_LADDER_BEST * sizeof(int64_t) + capacity * (sizeof(int64_t) + sizeof(int64_t)) : 0;
}

uint64_t sd_depth_side_bytes(const sd_depth_side *s) { return array_bytes(s->capacity) + sd_deep_bytes(&s->deep); }

static int grow(sd_depth_side *s, sd_pool *pool, uint32_t max_levels) {
  uint32_t capacity = sd_ladder_grown(s->capacity);
  if (capacity > max_levels) capacity = max_levels;
  if (capacity > SD_NEAR) capacity = SD_NEAR;
  uint64_t *piece = sd_pool_take(pool, array_bytes(capacity));
  if (!piece) return 0;
  uint64_t *keys = sd_ladder_begin(piece), *old = sd_relative_or_null(&s->keys);
  if (s->n) {
    memcpy(keys, old, s->n * sizeof *keys);
    memcpy(keys + capacity, sd_depth_sizes(s), s->n * sizeof(int64_t));
  }
  if (old) sd_pool_give(pool, old - SD_LADDER_BEST, array_bytes(s->capacity));
  sd_relative_set(&s->keys, keys);
  s->capacity = capacity;
  return 1;
}

int sd_depth_make_longer(sd_depth_side *s, sd_pool *pool, uint32_t max_levels) {
  if (s->n == s->capacity && s->capacity < SD_NEAR) return grow(s, pool, max_levels);
  if (!sd_deep_reserve(&s->deep, pool)) return 0;
  if (s->n < SD_NEAR) return 1;
  s->n = sd_ladder_spill(sd_depth_keys(s), sd_depth_sizes(s), sizeof(int64_t), s->n, &s->deep);
  return sd_deep_reserve(&s->deep, pool);
}

void sd_depth_fill(sd_depth_side *s) {
  s->n = sd_ladder_refill(sd_depth_keys(s), sd_depth_sizes(s), sizeof(int64_t), s->n, &s->deep);
}

void sd_depth_drop_worst(sd_depth_side *s) {
  if (!s->deep.levels) {
    sd_depth_take(s, 0);
    return;
  }
  sd_deep_place place;
  sd_deep_find(&s->deep, sd_deep_worst(&s->deep), &place);
  sd_deep_remove(&s->deep, &place);
}
