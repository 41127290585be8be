/* Asks for the memory that ticks will touch, ahead of them.
 *
 * A tick touches its book and row, then a bucket of orders or the best prices of a side, then a level: each is found through the one
 * before. So a tick passes stages. Some ticks before its turn, its books are asked for, then its orders, then its level; so no stage
 * waits for what it has just asked for. What a stage found is only a guess when the tick's turn comes, and is checked then. */
#pragma once

#include <stdint.h>

#include "base/atomic.h"
#include "books/book_row.h"
#include "books/book_store.h"
#include "books/publishers.h"

struct sd_books {
  uint64_t n;
  sd_relative book;       /* sd_book by symbol */
  sd_relative publishers; /* sd_publishers by symbol; unset: each symbol has one book */
  uint32_t top;           /* levels of each side that a row shows behind its sd_book_row (book_shown.h) */
  sd_hash_key key;        /* says which bucket an id is in: for other processes, which have keys of their own */
  sd_pools pools;
};

/* The books of all symbols. */
static inline sd_book *sd_books_all(const sd_books *books) { return sd_relative_get(&books->book); }

/* Of all symbols; NULL: each symbol has one book. */
static inline sd_publishers *sd_books_of_publishers(const sd_books *books) {
  return sd_relative_or_null(&books->publishers);
}

/* How many ticks lie between two stages: enough for what was asked for to arrive, and few enough for it to stay in the first-level cache,
 * of which each tick uses about ten lines. */
enum { STAGE = 4, AHEAD = 3 * STAGE, GUESSES = 2 * STAGE };

/* The slot of a tick's order and the level of its price, as they were a stage before its turn. */
typedef struct sd_guess {
  uint32_t order, level;
} sd_guess;

static inline int side_of_tick(const sd_tick *t) { return t->side == 'B' ? SD_BID : SD_ASK; }

/* Actions about an order that is there. */
static inline uint32_t is_change(char action) {
  const uint32_t set = 1u << ('C' - '@') | 1u << ('F' - '@') | 1u << ('M' - '@');
  return set >> (action & 31) & 1;
}

static inline void ask_for_bucket(const sd_book *b, uint64_t id) {
  const uint32_t at = sd_book_home(b, sd_book_hash(id));
  const uint32_t *high = sd_book_high(b);
  const uintptr_t home = (uintptr_t)sd_book_buckets(b) + sizeof(sd_bucket) * (uintptr_t)at;
  sd_prefetch_write((const char *)home);
  sd_prefetch_write((const char *)(home + SD_LINE));
  if (SD_UNLIKELY(high)) sd_prefetch_write((const char *)&high[at << SD_PLACE_BITS]);
}

/* The best eight prices and the numbers of their levels. */
static inline void ask_for_ladder(const sd_book *b, int side) {
  const uintptr_t keys = sd_book_keys_at(b, side) + b->n[side] * sizeof(int64_t);
  sd_prefetch((const char *)(keys - sizeof(int64_t)));
  sd_prefetch((const char *)(keys - SD_LINE));
  const uintptr_t numbers = sd_book_numbers_at(b, side) + b->n[side] * sizeof(uint32_t);
  sd_prefetch((const char *)(numbers - sizeof(uint32_t)));
  sd_prefetch((const char *)(numbers - 4 * sizeof(uint32_t)));
}

static inline void ask_for_level(const sd_book *b, uint32_t level) {
  const uintptr_t at = (uintptr_t)sd_book_level_at(b, level);
  sd_prefetch_write((const char *)at);
  /* One level in four lies on two lines. */
  sd_prefetch_write((const char *)(at + sizeof(sd_level) - 1));
}

static inline sd_book *book_of(sd_book *all, const sd_tick *t) { return &all[t->instrument_id]; }

static inline sd_book_row *row_of(unsigned char *rows, const sd_tick *t, uint64_t stride) {
  return (sd_book_row *)(rows + t->instrument_id * stride);
}

static inline void ask_for_book(sd_book *all, unsigned char *rows, const sd_tick *t, uint64_t stride) {
  sd_prefetch_write(book_of(all, t));
  sd_prefetch_write(row_of(rows, t, stride));
}

static inline void ask_for_order(sd_book *all, const sd_tick *t) {
  const sd_book *b = book_of(all, t);
  ask_for_bucket(b, t->order_id);
  /* For an add. Other ticks seldom need it, and have no side yet; but nobody can predict which tick it is, and a branch would cost more. */
  ask_for_ladder(b, side_of_tick(t));
}

SD_INLINE sd_guess ask_for_its_level(sd_book *all, const sd_tick *t) {
  const sd_book *b = book_of(all, t);
  sd_guess guess = {SD_NO_ORDER, SD_NO_LEVEL};
  if (t->action == 'A') {
    /* A price without a level will get the free level. */
    guess.level = sd_book_level_of(b, side_of_tick(t), t->price, b->free - 1);
    ask_for_level(b, guess.level);
  } else if (is_change(t->action)) {
    guess.order = sd_book_find(b, t->order_id);
    if (SD_UNLIKELY(guess.order == SD_NO_ORDER)) return guess;
    const sd_bucket *bucket = sd_book_bucket(b, guess.order);
    const uint32_t place = sd_bucket_place(guess.order);
    ask_for_level(b, bucket->level[place]);
    /* If this is the level's last order, the level goes too. */
    ask_for_ladder(b, sd_bucket_side(bucket, place));
    if (t->action == 'M') ask_for_bucket(b, t->ref_id);
  }
  return guess;
}

/* The stages that a call's ticks pass before their turn. */
typedef struct sd_stages {
  const sd_books *books;
  unsigned char *rows;
  const sd_tick *ticks;
  uint64_t stride;
  uint64_t end; /* ticks from here on have no book, or do not exist */
  sd_guess guesses[GUESSES];
} sd_stages;

static inline int sd_has_book(const sd_books *books, const sd_tick *t) { return t->instrument_id < books->n; }

/* Runs the stages of the first ticks, each as far as it is ahead of the first tick's turn. */
void sd_stages_begin(sd_stages *s);

/* Applies a tick to its book, and shows it in the row. Nonzero: it failed, and *ctx says why. */
int sd_book_step(const sd_book_params *params, sd_pool *pool, sd_book_row *row, const sd_tick *t, sd_guess guess,
                 sd_context *ctx);

/* Moves the stages on by one tick, and returns what they found about tick i, whose turn it is. Ticks come in order. `s` has the other
 * arguments too: a loop that keeps them in registers gives them. */
SD_INLINE sd_guess sd_stages_move(sd_stages *s, const sd_books *books, sd_book *all, unsigned char *rows,
                                  const sd_tick *ticks, uint64_t stride, uint64_t i) {
  const uint64_t first = i + AHEAD, second = first - STAGE, third = second - STAGE;
  if (SD_LIKELY(first < s->end)) {
    if (SD_LIKELY(sd_has_book(books, &ticks[first]))) ask_for_book(all, rows, &ticks[first], stride);
    else s->end = first;
  }
  if (SD_LIKELY(second < s->end)) ask_for_order(all, &ticks[second]);
  if (SD_LIKELY(third < s->end)) s->guesses[third % GUESSES] = ask_for_its_level(all, &ticks[third]);
  return s->guesses[i % GUESSES];
}

SD_INLINE sd_guess sd_stages_next(sd_stages *s, uint64_t i) {
  return sd_stages_move(s, s->books, sd_books_all(s->books), s->rows, s->ticks, s->stride, i);
}
