#include "outside/books.h"

#include <string.h>
#include <time.h>

#include "books/book_ahead.h"
#include "books/depth.h"
#include "books/depth_layout.h"
#include "sd_error.h"

_Static_assert((int)SD_OUTSIDE_LEVELS <= (int)SD_NEAR_MIN, "the best levels are in the ladder");

/* Whether `bytes` bytes from `at` on lie within the mapping. A reader may see half of one state and half of the next. So each address is
 * checked before it is followed, and each number that leads to an address is read once. */
static int inside(const sd_outside *o, uintptr_t at, uint64_t bytes) {
  const uintptr_t base = (uintptr_t)o->space.base;
  return at >= base && at - base <= o->space.reserved && bytes <= o->space.reserved - (at - base);
}

#define ONCE(field) (*(const volatile __typeof__(field) *)&(field))

/* Returns the address that a field refers to, if n objects of `size` bytes fit there; 0: not within the mapping. */
static uintptr_t named(const sd_outside *o, const sd_relative *field, uint64_t n, uint64_t size) {
  const int64_t distance = ONCE(field->distance);
  const uintptr_t at = (uintptr_t)field + (uintptr_t)distance;
  return distance && at % sizeof(uint64_t) == 0 && n <= o->space.reserved / size && inside(o, at, n * size) ? at : 0;
}

/* Copies the best levels of a ladder. Zero: the parts that were read do not fit together. */
static int ladder(const sd_outside *o, const sd_book *b, int side, int only_top, sd_book_level *to, uint32_t *n) {
  const uint32_t levels = ONCE(b->n[side]), capacity = ONCE(b->capacity);
  *n = levels < SD_OUTSIDE_LEVELS ? levels : SD_OUTSIDE_LEVELS;
  if (!levels) return 1;
  const uintptr_t first = named(o, &b->levels, 1, sizeof(sd_level));
  if (!first || levels > capacity || capacity > SD_NEAR) return 0;
  const uintptr_t keys_at = sd_ladder_keys_at(first, capacity, side),
                  numbers_at = sd_ladder_numbers_at(first, capacity, side);
  if (!inside(o, keys_at, levels * sizeof(uint64_t)) || !inside(o, numbers_at, levels * sizeof(uint32_t))) return 0;
  for (uint32_t i = 0; i < *n; i++) {
    const uint64_t key = ((const uint64_t *)keys_at)[levels - 1 - i];
    const uint32_t number = ONCE(((const uint32_t *)numbers_at)[levels - 1 - i]);
    const sd_level *level = (const sd_level *)first + number;
    if (!inside(o, (uintptr_t)level, sizeof *level)) return 0;
    to[i] = (sd_book_level){sd_ladder_price(side, key), level->size, only_top ? 0 : level->orders};
  }
  return 1;
}

static int read_orders(const sd_outside *o, uint64_t offset, uint32_t symbol, uint32_t place, sd_outside_book *to) {
  const sd_books *books = sd_space_at(&o->space, offset);
  if (!inside(o, (uintptr_t)books, sizeof *books) || symbol >= ONCE(books->n)) return 0;
  const sd_book *b = (const sd_book *)named(o, &books->book, symbol + UINT64_C(1), sizeof *b);
  if (!b) return 0;
  b += symbol;
  uint8_t tops = 0;
  to->publishers = 1;
  if (!ONCE(books->publishers.distance)) {
    if (place) return 0;
  } else {
    const sd_publishers *p = (const sd_publishers *)named(o, &books->publishers, symbol + UINT64_C(1), sizeof *p);
    if (!p) return 0;
    p += symbol;
    const uint32_t n = ONCE(p->n);
    const int several = ONCE(p->all.distance) != 0;
    if (n > (several ? SD_MAX_PUBLISHERS : 1) || ((several || place) && place >= n)) return 0;
    to->publishers = n;
    to->publisher = p->id;
    tops = p->tops;
    if (several) {
      const sd_publisher *all = (const sd_publisher *)named(o, &p->all, n, sizeof *all);
      if (!all) return 0;
      b = &all[place].book;
      tops = all[place].tops;
      to->publisher = all[place].id;
    }
  }
  return ladder(o, b, SD_ASK, tops & SD_TOP(SD_ASK), to->asks, &to->n_asks) &&
         ladder(o, b, SD_BID, tops & SD_TOP(SD_BID), to->bids, &to->n_bids);
}

static int side_levels(const sd_outside *o, const sd_depth_side *s, int side, sd_book_level *to, uint32_t *n) {
  const uint32_t levels = ONCE(s->n), capacity = ONCE(s->capacity);
  *n = levels < SD_OUTSIDE_LEVELS ? levels : SD_OUTSIDE_LEVELS;
  if (!levels) return 1;
  const uint64_t *keys = (const uint64_t *)named(o, &s->keys, 2 * (uint64_t)capacity, sizeof *keys);
  if (!keys || levels > capacity) return 0;
  for (uint32_t i = 0; i < *n; i++) {
    const uint32_t at = levels - 1 - i;
    to[i] = (sd_book_level){sd_ladder_price(side, keys[at]), (int64_t)keys[capacity + at], 0};
  }
  return 1;
}

static int read_levels(const sd_outside *o, uint64_t offset, uint32_t symbol, uint32_t place, sd_outside_book *to) {
  const sd_depths *depths = sd_space_at(&o->space, offset);
  if (place || !inside(o, (uintptr_t)depths, sizeof *depths) || symbol >= ONCE(depths->n)) return 0;
  const sd_depth *d = (const sd_depth *)named(o, &depths->book, symbol + UINT64_C(1), sizeof *d);
  if (!d) return 0;
  d += symbol;
  to->publishers = to->of_levels = 1;
  return side_levels(o, &d->side[SD_ASK], SD_ASK, to->asks, &to->n_asks) &&
         side_levels(o, &d->side[SD_BID], SD_BID, to->bids, &to->n_bids);
}

int sd_outside_book_of(sd_outside *o, uint64_t offset, int of_levels, uint32_t symbol, uint32_t place,
                       uint64_t patience_ns, sd_outside_book *book) {
  const uint32_t strand = symbol < o->d.arena->n_symbols ? ONCE(o->d.map[symbol]) : SD_NONE;
  if (strand >= o->d.arena->n_strands || offset > o->space.reserved || offset % (2 * SD_LINE)) return SD_E_FORMAT;
  sd_strand *s = &o->d.strands[strand];
  sd_patience patience = sd_patience_of(patience_ns);
  for (;;) {
    const uint64_t word = sd_strand_look(s);
    memset(book, 0, sizeof *book);
    const int whole = (of_levels ? read_levels : read_orders)(o, offset, symbol, place, book);
    if (sd_strand_unchanged(s, word)) return whole ? SD_OK : SD_E_FORMAT;
    if (sd_patience_ends(&patience)) return SD_AGAIN;
  }
}
