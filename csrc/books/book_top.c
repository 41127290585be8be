/* The handler of books whose rows show levels. It has a file of its own, so that the code of rows without levels is as if there were no
 * others. */
#include "books/book.h"
#include "books/book_apply.h"
#include "books/book_events.h"

/* Handles a tick. *changed: levels that the row shows have changed. */
static inline int handle_top(const sd_book_params *params, sd_pool *pool, sd_book *b, sd_book_row *row,
                             const sd_tick *t, sd_guess guess, uint32_t top, int *changed) {
  int64_t *shown = sd_row_shown(row);
  const int is_first = row->ticks == 0;
  if (SD_UNLIKELY(is_first)) {
    row->bid_price = row->ask_price = SD_UNDEF_PRICE;
    sd_shown_clear(shown, top);
  }
  if (SD_UNLIKELY(params->rules.fills_report)) {
    const int fault = sd_book_record(params, pool, row, t, guess);
    *changed = sd_books_of_publishers(params->books)[t->instrument_id].relevelled;
    return fault;
  }
  sd_change c = {b, pool, row, guess.order, guess.level};
  const sd_touched touched = touched_by(&c, t);
  const int fault = apply(&c, t, &params->rules);
  if (SD_UNLIKELY(fault)) return fault;
  show(b, row, t);
  if (SD_UNLIKELY(touched.all || is_first)) {
    *changed = sd_shown_from(b, SD_BID, 0, top, 1, shown);
    *changed |= sd_shown_from(b, SD_ASK, 0, top, 1, shown);
  } else if (SD_LIKELY(touched.n == 1)) {
    *changed = sd_shown_price(b, touched.side[0], touched.price[0], top, shown);
  } else if (touched.n) {
    const uint32_t one = sd_book_rank(b, touched.side[0], touched.price[0]),
                   other = sd_book_rank(b, touched.side[1], touched.price[1]);
    *changed = sd_shown_from(b, touched.side[0], one < other ? one : other, top, 1, shown);
  }
  return 0;
}

/* Nonzero: no memory for the record. */
static SD_NOINLINE int emit_levels(sd_context *ctx, int64_t i, sd_book_row *row, const sd_tick *t, uint32_t top) {
  int64_t *record = sd_emit_reserve(ctx, 0, i);
  if (!record) return -1;
  record[0] = t->ts_event;
  memcpy(record + 1, sd_row_shown(row), sd_shown_bytes(top));
  return 0;
}

int64_t sd_handle_book_top(void *rows, const sd_tick *ticks, int64_t n, sd_context *ctx) {
  const sd_book_params *params = ctx->params;
  const sd_books *books = params->books;
  sd_book *all = sd_books_all(books);
  sd_pool pool = sd_pools_of(&params->books->pools, params->space, ctx->participant);
  const uint64_t stride = ctx->row_stride;
  const uint32_t top = books->top;
  sd_stages s = {.books = books, .rows = rows, .ticks = ticks, .stride = stride, .end = (uint64_t)n};
  sd_stages_begin(&s);
  for (uint64_t i = 0; i < s.end; i++) {
    const sd_guess guess = sd_stages_move(&s, books, all, rows, ticks, stride, i);
    const sd_tick *t = &ticks[i];
    /* The first line of a row was asked for with its book. Its levels lie on the lines behind, and a tick may need any of these. */
    if (SD_LIKELY(i + STAGE < s.end)) {
      const char *next = (const char *)sd_row_shown(row_of(rows, &ticks[i + STAGE], stride));
      for (size_t at = 0; at < sd_shown_bytes(top); at += SD_LINE) sd_prefetch_write(next + at);
    }
    sd_book_row *row = row_of(rows, t, stride);
    int changed = 0;
    const int fault = handle_top(params, &pool, book_of(all, t), row, t, guess, top, &changed);
    if (SD_UNLIKELY(fault)) return sd_book_fail(ctx, books, t, fault, (int64_t)i);
    if (changed && params->emits && emit_levels(ctx, (int64_t)i, row, t, top)) return (int64_t)i;
  }
  if (SD_UNLIKELY(s.end < (uint64_t)n)) return sd_book_fail(ctx, books, &ticks[s.end], NO_BOOK, (int64_t)s.end);
  return n;
}
