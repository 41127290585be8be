/* What books do for a stream of ticks, counted in steps instead of timed: of `book`, or with OF_DEPTH of `depth`.
 *
 * Each tick costs TICK steps: the lines of its book, row, bucket and level. Further steps are the buckets that a search passes,
 * and each kilobyte or less that is copied, moved or set to zero at once. Comparisons are not counted: searches go by halves. */
#define _GNU_SOURCE
#include <stdint.h>
#include <stdio.h>
#include <string.h>

enum { TICK = 10 };

static uint64_t steps;

static inline size_t counted(size_t bytes) {
  steps += (bytes + 1023) / 1024;
  return bytes;
}

#define memcpy(to, from, n) memcpy(to, from, counted(n))
#define memmove(to, from, n) memmove(to, from, counted(n))
#define memset(to, byte, n) memset(to, byte, counted(n))
#include "books/book_store.h"
#define sd_book_next_bucket(b, at) (steps++, sd_book_next_bucket(b, at))

#include "books/deep.c"
#include "memory/pool.c"
#include "memory/space.c"
#ifdef OF_DEPTH
#include "books/depth.c"
#include "books/depth_side.c"
#else
#include "books/book.c"
#include "books/book_events.c"
#include "books/book_levels.c"
#include "books/book_shown.c"
#include "books/book_store.c"
#include "books/book_table.c"
#include "books/publishers.c"
#endif

static unsigned char row[4096];
static sd_space *space;

/* Steps for ticks of symbol 0; 0: one of them was not handled. */
#ifdef OF_DEPTH
uint64_t steps_of(const sd_tick *ticks, int64_t n, uint32_t max_levels) {
  if (sd_space_create(0, 0, &space)) return 0;
  sd_depths *depths = sd_depths_create(space, 1);
  const sd_depth_params params = {
      .depths = depths, .space = space, .top = 5, .max_levels = max_levels, .rules.flags = {.best = 4, .snapshot = 32}};
#else
uint64_t steps_of(const sd_tick *ticks, int64_t n, uint64_t mask, uint64_t factor) {
  if (sd_space_create(0, 0, &space)) return 0;
  sd_books *books = sd_books_create(space, 1, 0, 0, 0);
  const sd_book_params params = {.books = books, .space = space};
  sd_book_key = (sd_hash_key){mask, factor};
#endif
  sd_context ctx = {.params = &params, .row_stride = sizeof row};
  memset(row, 0, sizeof row);
  steps = (uint64_t)n * TICK;
#ifdef OF_DEPTH
  const int64_t done = sd_handle_depth(row, ticks, n, &ctx);
#else
  const int64_t done = sd_handle_book(row, ticks, n, &ctx);
#endif
  sd_space_destroy(space);
  return done == n ? steps : 0;
}
