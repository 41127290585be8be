/* The best levels of a book that a row shows behind its sd_book_row: for bids and then for asks, `top` prices, `top` sizes and `top` counts
 * of orders, best first. Where there is no level, these are SD_UNDEF_PRICE, 0 and 0.
 *
 * A tick changes one price, or two if an order moves. The levels that are better than a changed price stay as they are, before and after
 * the change. So a row is written again from the rank of the best changed price on, and not at all if that price is beyond `top`. */
#pragma once

#include "books/book_levels.h"
#include "books/book_row.h"
#include "sd_handler.h"

/* As a rank: nothing has to be written again. */
enum { SD_NOT_SHOWN = 255 };

_Static_assert(SD_TOP_MAX < (int)SD_NOT_SHOWN && SD_TOP_MAX <= (int)SD_NEAR_MIN, "a ladder has all levels of a row");

/* A side's levels in a row that shows `top` of them. */
static inline int64_t *sd_shown_side(int64_t *shown, uint32_t top, int side) {
  return shown + (side == SD_BID ? 0 : 3 * (size_t)top);
}

static inline int64_t *sd_row_shown(sd_book_row *row) { return (int64_t *)(row + 1); }

static inline size_t sd_shown_bytes(uint32_t top) { return 6 * (size_t)top * sizeof(int64_t); }

/* Shows a book without levels. */
void sd_shown_clear(int64_t *shown, uint32_t top);

/* How many levels of a side are better than a price: its rank. Ranks of levels beyond the ladder are the ladder's length. */
static inline uint32_t sd_book_rank(const sd_book *b, int side, int64_t price) {
  const uint32_t n = b->n[side];
  if (SD_UNLIKELY(n == 0)) return 0;
  const uint64_t key = sd_ladder_key(side, price), *keys = sd_book_keys(b, side);
  const uint32_t at = sd_ladder_find(keys, n, key);
  return n - at - (at < n && keys[at] == key);
}

/* Writes a side's levels from a rank on. `counted`: the feed says how many orders a level has. Nonzero: something has changed. */
int sd_shown_from(const sd_book *b, int side, uint32_t rank, uint32_t top, int counted, int64_t *shown);

/* The same after a change of one price. */
int sd_shown_price(const sd_book *b, int side, int64_t price, uint32_t top, int64_t *shown);

/* The prices that a tick may change: of the order that it names, and its own. */
typedef struct sd_touched {
  int64_t price[2];
  int side[2];
  uint32_t n;
  int all; /* any price of both sides */
} sd_touched;
