#include "books/book_shown.h"

void sd_shown_clear(int64_t *shown, uint32_t top) {
  for (int side = 0; side < 2; side++) {
    int64_t *prices = sd_shown_side(shown, top, side);
    for (uint32_t i = 0; i < top; i++) prices[i] = SD_UNDEF_PRICE;
    memset(prices + top, 0, 2 * top * sizeof *prices);
  }
}

static inline int write_level(int64_t *shown, uint32_t top, uint32_t rank, int64_t price, int64_t size,
                              int64_t orders) {
  int64_t *at = shown + rank;
  const int64_t was = (at[0] ^ price) | (at[top] ^ size) | (at[2 * top] ^ orders);
  at[0] = price;
  at[top] = size;
  at[2 * top] = orders;
  return was != 0;
}

int sd_shown_from(const sd_book *b, int side, uint32_t rank, uint32_t top, int counted, int64_t *shown) {
  int64_t *to = sd_shown_side(shown, top, side);
  const uint32_t n = b->n[side];
  int changed = 0;
  if (rank < top && rank < n) {
    const uint32_t *best = &sd_book_numbers(b, side)[n - 1], end = n < top ? n : top;
    for (; rank < end; rank++) {
      const sd_level *l = sd_book_level_at(b, *(best - rank));
      changed |= write_level(to, top, rank, l->price, l->size, counted ? l->orders : 0);
    }
  }
  /* Behind the first place without a level there are only others. */
  for (; rank < top && to[rank] != SD_UNDEF_PRICE; rank++) changed |= write_level(to, top, rank, SD_UNDEF_PRICE, 0, 0);
  return changed;
}

int sd_shown_price(const sd_book *b, int side, int64_t price, uint32_t top, int64_t *shown) {
  const uint32_t n = b->n[side];
  const uint64_t key = sd_ladder_key(side, price), *keys = sd_book_keys(b, side);
  /* Most ticks of a long book are about worse prices than the row has. The ladder says so: it is in the caches, and the row is not. */
  if (n >= top && key < keys[n - top]) return 0;
  const uint32_t at = n ? sd_ladder_find(keys, n, key) : 0, is = at < n && keys[at] == key, rank = n - at - is;
  if (rank >= top) return 0;
  int64_t *to = sd_shown_side(shown, top, side);
  if (is && to[rank] == price) {
    const sd_level *l = sd_book_level_at(b, sd_book_numbers(b, side)[at]);
    return write_level(to, top, rank, price, l->size, l->orders);
  }
  return sd_shown_from(b, side, rank, top, 1, shown);
}
