/* One side of a book of price levels. What most ticks need is inlined.
 *
 * A level is a key, as in ladder.h, and a size. A side that is all zero is empty. The pools own its memory. */
#pragma once

#include <stdint.h>

#include "books/ladder.h"
#include "memory/pool.h"

/* Behind the keys, up to their capacity, lie the sizes in the same order. */
typedef struct sd_depth_side {
  sd_relative keys; /* uint64_t; unset: it never had a level */
  uint32_t n, capacity;
  sd_deep deep;
} sd_depth_side;

static inline uint64_t *sd_depth_keys(const sd_depth_side *s) { return sd_relative_get(&s->keys); }

static inline int64_t *sd_depth_sizes(const sd_depth_side *s) { return (int64_t *)sd_depth_keys(s) + s->capacity; }

static inline uint32_t sd_depth_side_levels(const sd_depth_side *s) { return s->n + s->deep.levels; }

/* Where a key is in the array, or belongs. */
static inline uint32_t sd_depth_place(const sd_depth_side *s, uint64_t key) {
  return s->n ? sd_ladder_find(sd_depth_keys(s), s->n, key) : 0;
}

static inline void sd_depth_take(sd_depth_side *s, uint32_t at) {
  sd_ladder_take(sd_depth_keys(s), sd_depth_sizes(s), sizeof(int64_t), s->n--, at);
}

static inline void sd_depth_put(sd_depth_side *s, uint32_t at, uint64_t key, int64_t size) {
  sd_ladder_put(sd_depth_keys(s), sd_depth_sizes(s), sizeof(int64_t), s->n++, at, key, size);
}

/* Fills an array that has become short, from the chunks. */
void sd_depth_fill(sd_depth_side *s);

static inline void sd_depth_refill(sd_depth_side *s) {
  if (SD_UNLIKELY(s->deep.levels) && s->n < SD_NEAR_MIN) sd_depth_fill(s);
}

/* Makes the array longer, or gets memory for one more level in the chunks. Zero: no memory. */
int sd_depth_make_longer(sd_depth_side *s, sd_pool *pool, uint32_t max_levels);

/* Gets memory for one more level. Zero: no memory. */
static inline int sd_depth_reserve(sd_depth_side *s, sd_pool *pool, uint32_t max_levels) {
  return SD_LIKELY(s->n < s->capacity && !s->deep.levels) || sd_depth_make_longer(s, pool, max_levels);
}

void sd_depth_drop_worst(sd_depth_side *s);

/* Memory of the array, and of the chunks. */
uint64_t sd_depth_side_bytes(const sd_depth_side *s);
