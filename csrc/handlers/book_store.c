#include "handlers/book_store.h"

#include <stdlib.h>

int sd_book_make_wide(sd_book *b, sd_pool *pool, uint32_t slot, uint64_t id, int side, int64_t price, int64_t size) {
  if (!b->high && !sd_book_take_high(b, pool)) return SD_BOOK_NO_MEMORY;
  const uint32_t level = sd_book_find_level(b, side, price);
  if (level == SD_NO_LEVEL) return SD_BOOK_DONE;
  int64_t rest = b->levels[level].size;
  if (slot != SD_NO_ORDER && sd_book_bucket(b, slot)->level[sd_bucket_place(slot)] == level)
    rest -= sd_book_size(b, slot);
  if (size <= INT64_MAX - rest) return SD_BOOK_DONE;
  const uint32_t there = sd_book_find(b, id);
  return there == SD_NO_ORDER || there == slot ? SD_BOOK_TOO_LARGE : SD_BOOK_DUPLICATE;
}

static int earlier(const void *left, const void *right) {
  uint32_t a = **(uint32_t *const *)left, b = **(uint32_t *const *)right;
  return (a > b) - (a < b);
}

/* From 0 on, in the order of the stamps there are. */
int sd_book_stamp_again(sd_book *b, sd_pool *pool) {
  const size_t bytes = (b->live + 1) * sizeof(uint32_t *);
  uint32_t **all = sd_pool_take(pool, bytes);
  if (!all) return 0;
  uint32_t n = 0;
  for (uint32_t i = 0; i < b->n_buckets; i++)
    for (uint32_t place = 0; place < SD_BUCKET_ORDERS; place++)
      if (b->buckets[i].taken >> place & 1) all[n++] = &b->buckets[i].stamp[place];
  qsort(all, n, sizeof *all, earlier);
  for (uint32_t i = 0; i < n; i++) *all[i] = i << 1 | (*all[i] & 1);
  b->stamps = n;
  sd_pool_give(pool, all, bytes);
  return 1;
}

void sd_book_clear(sd_book *b, sd_pool *pool) {
  sd_book_clear_table(b, pool);
  sd_book_clear_levels(b);
  b->stamps = 0;
}
