#include "books/book_store.h"

#include <stdlib.h>

int sd_book_make_wide(sd_book *b, sd_pool *pool, uint32_t slot, uint64_t id, int side, int64_t price, int64_t size) {
  if (!sd_book_high(b) && !sd_book_take_high(b, pool)) return SD_BOOK_NO_MEMORY;
  const uint32_t level = sd_book_find_level(b, side, price);
  if (level == SD_NO_LEVEL) return SD_BOOK_DONE;
  int64_t rest = sd_book_level_at(b, level)->size;
  if (slot != SD_NO_ORDER && sd_book_bucket(b, slot)->level[sd_bucket_place(slot)] == level)
    rest -= sd_book_size(b, slot);
  if (size <= INT64_MAX - rest) return SD_BOOK_DONE;
  const uint32_t there = sd_book_find(b, id);
  return there == SD_NO_ORDER || there == slot ? SD_BOOK_TOO_LARGE : SD_BOOK_DUPLICATE;
}

typedef struct sd_stamped {
  uint32_t stamp, slot;
} sd_stamped;

static int earlier(const void *left, const void *right) {
  const uint32_t a = ((const sd_stamped *)left)->stamp, b = ((const sd_stamped *)right)->stamp;
  return (a > b) - (a < b);
}

/* Numbers the orders again from 0 on, in the order of their stamps. */
int sd_book_stamp_again(sd_book *b, sd_pool *pool) {
  const size_t bytes = (b->live + UINT64_C(1)) * sizeof(sd_stamped);
  sd_stamped *all = sd_pool_take(pool, bytes);
  if (!all) return 0;
  uint32_t n = 0;
  for (uint32_t slot = 0; (slot = sd_book_order_from(b, slot)) != SD_NO_ORDER; slot++)
    all[n++] = (sd_stamped){sd_book_bucket(b, slot)->stamp[sd_bucket_place(slot)], slot};
  qsort(all, n, sizeof *all, earlier);
  for (uint32_t i = 0; i < n; i++)
    sd_book_bucket(b, all[i].slot)->stamp[sd_bucket_place(all[i].slot)] = i << 1 | (all[i].stamp & 1);
  b->stamps = n;
  sd_pool_give(pool, all, bytes);
  return 1;
}

void sd_book_clear(sd_book *b, sd_pool *pool) {
  sd_book_clear_table(b, pool);
  sd_book_clear_levels(b);
  b->stamps = 0;
}
