#include "books/book.h"

#include <stdio.h>
#include <string.h>

#include "base/atomic.h"
#include "books/book_apply.h"
#include "books/book_events.h"
#include "books/book_store.h"
#include "sd_error.h"

sd_books *sd_books_create(struct sd_space *space, uint64_t n, uint32_t start, int per_publisher, uint32_t top) {
  if (n == 0 || n > SIZE_MAX / sizeof(sd_book)) return NULL;
  sd_books *books = sd_space_get(space, sizeof *books, _Alignof(sd_books));
  if (!books) return NULL;
  sd_book_draw_key();
  books->n = n;
  books->top = top;
  books->key = sd_book_key;
  sd_pool pool = sd_pools_of(&books->pools, space, 0);
  sd_book *all = sd_pool_take_zeros(&pool, n * sizeof *all);
  sd_publishers *publishers = per_publisher ? sd_pool_take_zeros(&pool, n * sizeof *publishers) : NULL;
  if (!all || (per_publisher && !publishers)) return NULL;
  sd_relative_set(&books->book, all);
  sd_relative_set(&books->publishers, publishers);
  for (uint64_t i = 0; start && i < n; i++) all[i].stamps = start;
  return books;
}

int sd_books_adopt(sd_books *books, struct sd_space *space) {
  if (!memcmp(&books->key, &sd_book_key, sizeof sd_book_key)) return SD_OK;
  sd_pool pool = sd_pools_of(&books->pools, space, 0);
  sd_book *all = sd_books_all(books);
  sd_publishers *publishers = sd_books_of_publishers(books);
  for (uint64_t i = 0; i < books->n; i++) {
    sd_publisher *several = publishers ? sd_publishers_all(&publishers[i]) : NULL;
    const uint32_t n = several ? publishers[i].n : 1;
    for (uint32_t at = 0; at < n; at++)
      if (!sd_book_rehash(several ? &several[at].book : &all[i], &pool)) return SD_E_NO_MEMORY;
  }
  books->key = sd_book_key;
  return SD_OK;
}

/* ---- a batch */

static int64_t fail(sd_context *ctx, int32_t code, const char *what, uint32_t number, int64_t at) {
  ctx->error_code = code;
  snprintf(ctx->message, sizeof ctx->message, what, number);
  return at;
}

int64_t sd_book_fail(sd_context *ctx, const sd_books *books, const sd_tick *t, int fault, int64_t at) {
  if (fault == NO_MEMORY)
    return fail(ctx, fault, "no memory for one more order beside %u", book_of(sd_books_all(books), t)->live, at);
  if (fault == NO_BOOK) return fail(ctx, fault, "no book was made for symbol %u", t->instrument_id, at);
  if (fault == TOO_MANY)
    return fail(ctx, fault, "symbol %u: more than 64 publishers: replay them from a file for each few of them",
                t->instrument_id, at);
  if (fault == NO_VOLUME)
    return fail(ctx, fault, "symbol %u: its volume is beyond 2**63 - 1: read its sizes in a coarser unit",
                t->instrument_id, at);
  return fail(ctx, fault,
              "symbol %u: the sizes at one price add up to more than 2**63 - 1: read its sizes in a coarser unit",
              t->instrument_id, at);
}

void sd_ahead_book(void *rows, const sd_tick *ticks, int64_t n, const sd_context *ctx) {
  const sd_books *books = ((const sd_book_params *)ctx->params)->books;
  sd_book *all = sd_books_all(books);
  for (int64_t i = 0; i < n; i++)
    if (sd_has_book(books, &ticks[i])) ask_for_book(all, rows, &ticks[i], ctx->row_stride);
  for (int64_t i = 0; i < n; i++)
    if (sd_has_book(books, &ticks[i])) ask_for_order(all, &ticks[i]);
  for (int64_t i = 0; i < n; i++)
    if (sd_has_book(books, &ticks[i])) ask_for_its_level(all, &ticks[i]);
}

static inline int handle(const sd_book_params *params, sd_pool *pool, sd_book *b, sd_book_row *row, const sd_tick *t,
                         sd_guess guess) {
  if (SD_UNLIKELY(row->ticks == 0)) row->bid_price = row->ask_price = SD_UNDEF_PRICE;
  if (SD_UNLIKELY(params->rules.fills_report)) return sd_book_record(params, pool, row, t, guess);
  sd_change c = {b, pool, row, guess.order, guess.level};
  const int fault = apply(&c, t, &params->rules);
  if (SD_UNLIKELY(fault)) return fault;
  show(b, row, t);
  return 0;
}

void sd_stages_begin(sd_stages *s) {
  sd_book *all = sd_books_all(s->books);
  uint64_t i;
  for (i = 0; i < AHEAD && i < s->end; i++) {
    if (sd_has_book(s->books, &s->ticks[i])) ask_for_book(all, s->rows, &s->ticks[i], s->stride);
    else s->end = i;
  }
  for (i = 0; i < AHEAD - STAGE && i < s->end; i++) ask_for_order(all, &s->ticks[i]);
  for (i = 0; i < AHEAD - 2 * STAGE && i < s->end; i++) s->guesses[i] = ask_for_its_level(all, &s->ticks[i]);
}

int sd_book_step(const sd_book_params *params, sd_pool *pool, sd_book_row *row, const sd_tick *t, sd_guess guess,
                 sd_context *ctx) {
  const sd_books *books = params->books;
  const int fault =
      sd_has_book(books, t) ? handle(params, pool, book_of(sd_books_all(books), t), row, t, guess) : NO_BOOK;
  return SD_UNLIKELY(fault) ? (int)sd_book_fail(ctx, books, t, fault, -1) : 0;
}

int64_t sd_handle_book(void *rows, const sd_tick *ticks, int64_t n, sd_context *ctx) {
  const sd_book_params *params = ctx->params;
  const sd_books *books = params->books;
  sd_book *all = sd_books_all(books);
  sd_pool pool = sd_pools_of(&params->books->pools, params->space, ctx->participant);
  const uint64_t stride = ctx->row_stride;
  sd_stages s = {.books = books, .rows = rows, .ticks = ticks, .stride = stride, .end = (uint64_t)n};
  sd_stages_begin(&s);
  for (uint64_t i = 0; i < s.end; i++) {
    const sd_guess guess = sd_stages_move(&s, books, all, rows, ticks, stride, i);
    sd_book *b = book_of(all, &ticks[i]);
    sd_book_row *row = row_of(rows, &ticks[i], stride);
    const int fault = handle(params, &pool, b, row, &ticks[i], guess);
    if (SD_UNLIKELY(fault)) return sd_book_fail(ctx, books, &ticks[i], fault, (int64_t)i);
  }
  if (SD_UNLIKELY(s.end < (uint64_t)n)) return sd_book_fail(ctx, books, &ticks[s.end], NO_BOOK, (int64_t)s.end);
  return n;
}
