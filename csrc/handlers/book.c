#include "handlers/book.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "handlers/book_ahead.h"
#include "handlers/book_store.h"
#include "sd_atomic.h"

sd_books *sd_books_create(uint64_t n, uint32_t start, int per_publisher) {
  if (n == 0 || n > SIZE_MAX / sizeof(sd_book)) return NULL;
  sd_books *books = aligned_alloc(_Alignof(sd_books), sizeof *books);
  if (!books) return NULL;
  sd_book_draw_key();
  sd_pools_init(&books->pools);
  books->n = n;
  sd_pool *pool = sd_pools_of(&books->pools, 0);
  books->book = sd_pool_take_zeros(pool, n * sizeof(sd_book));
  books->publishers = per_publisher ? sd_pool_take_zeros(pool, n * sizeof(sd_publishers)) : NULL;
  if (!books->book || (per_publisher && !books->publishers)) {
    sd_pools_destroy(&books->pools);
    free(books);
    return NULL;
  }
  for (uint64_t i = 0; start && i < n; i++) books->book[i].stamps = start;
  return books;
}

void sd_books_destroy(sd_books *books) {
  if (!books) return;
  sd_pools_destroy(&books->pools);
  free(books);
}

/* ---- one tick */

/* What keeps a tick from being handled. */
enum { NO_MEMORY = 1, NO_BOOK = 2, NO_VOLUME = 3, TOO_LARGE = 4, TOO_MANY = 5 };

/* What a tick is applied to, and with what guesses: the slot of the order it speaks of, the level its price has. */
typedef struct sd_change {
  sd_book *book;
  sd_pool *pool;
  sd_book_row *row;
  uint32_t order, level;
} sd_change;

/* Nonzero: no volume holds the sum. */
static int trade(sd_book_row *row, const sd_tick *t, const sd_trade_rules *rules, int64_t resting) {
  const int64_t price = sd_trade_price(t, resting);
  int64_t volume;
  if (!sd_is_trade(t, rules) || t->size <= 0) return 0;
  if (SD_UNLIKELY(price == SD_UNDEF_PRICE)) {
    row->unusable += t->action == 'T';
    return 0;
  }
  if (SD_UNLIKELY(__builtin_add_overflow(row->volume, t->size, &volume))) return NO_VOLUME;
  row->volume = volume;
  row->trades++;
  row->last_price = price;
  return 0;
}

static inline uint32_t find(const sd_change *c, uint64_t id) {
  const sd_book *b = c->book;
  if (SD_LIKELY(c->order >> SD_PLACE_BITS < b->n_buckets)) {
    const sd_bucket *bucket = sd_book_bucket(b, c->order);
    const uint32_t place = sd_bucket_place(c->order);
    if (SD_LIKELY(sd_bucket_has(bucket, place, id))) return c->order;
  }
  return sd_book_find(b, id);
}

/* Takes `size` off an order of `left`, all of it where no more is left. */
static inline void take(sd_change *c, uint32_t order, int64_t left, int64_t size) {
  if (SD_UNLIKELY(size > left)) c->row->clipped++;
  if (size < left) sd_book_reduce(c->book, order, left, left - size);
  else sd_book_remove(c->book, order, left);
}

static int usable(const sd_tick *t) { return t->price != SD_UNDEF_PRICE && t->price != INT64_MIN && t->size > 0; }

/* What a change did: zero, or what keeps the tick from being handled. */
static inline int done(sd_change *c, int code) {
  c->row->duplicates += code == SD_BOOK_DUPLICATE;
  if (SD_LIKELY(code >= SD_BOOK_DONE)) return 0;
  return code == SD_BOOK_TOO_LARGE ? TOO_LARGE : NO_MEMORY;
}

static inline int add(sd_change *c, const sd_tick *t) {
  if (SD_UNLIKELY(!usable(t) || (t->side != 'A' && t->side != 'B'))) {
    c->row->unusable++;
    return 0;
  }
  return done(c, sd_book_add(c->book, c->pool, t->order_id, side_of_tick(t), t->price, t->size, c->level));
}

static int change(sd_change *c, const sd_tick *t, uint32_t order) {
  if (!usable(t)) {
    c->row->unusable++;
    /* The exchange has taken the old order off, whatever the new one is. */
    if (t->ref_id != 0) sd_book_remove(c->book, order, sd_book_size(c->book, order));
    return 0;
  }
  if (t->ref_id == 0) return done(c, sd_book_change(c->book, c->pool, order, t->price, t->size, c->level));
  return done(c, sd_book_replace(c->book, c->pool, order, t->ref_id, t->price, t->size, c->level));
}

/* Zero, or what keeps the tick from being handled. In line wherever it is called: one call serves all feeds but Databento's. */
static inline __attribute__((always_inline)) int apply(sd_change *c, const sd_tick *t, const sd_trade_rules *rules) {
  uint32_t order;
  int64_t left;
  int fault;
  sd_book *b = c->book;
  switch (t->action) {
  case 'A':
    return add(c, t);
  case 'C':
    order = find(c, t->order_id);
    if (SD_UNLIKELY(order == SD_NO_ORDER)) {
      c->row->unknown++;
    } else if (SD_UNLIKELY(t->size < 0)) {
      c->row->unusable++;
    } else {
      left = sd_book_size(b, order);
      take(c, order, left, t->size || rules->fills_report ? t->size : left);
    }
    return 0;
  case 'F':
    if (rules->fills_report) return 0;
    if (SD_UNLIKELY(t->size < 0)) {
      c->row->unusable++;
      return 0;
    }
    order = find(c, t->order_id);
    if (SD_UNLIKELY(order == SD_NO_ORDER)) {
      c->row->unknown++;
      return trade(c->row, t, rules, SD_UNDEF_PRICE);
    }
    fault = trade(c->row, t, rules, sd_book_price(b, order));
    if (SD_LIKELY(!fault)) take(c, order, sd_book_size(b, order), t->size);
    return fault;
  case 'M':
    order = find(c, t->order_id);
    if (SD_LIKELY(order != SD_NO_ORDER)) return change(c, t, order);
    if (rules->fills_report) return add(c, t);
    c->row->unknown++;
    return 0;
  case 'R':
    sd_book_clear(b, c->pool);
    if (sd_is_day(t)) c->row->state = 0;
    return 0;
  case 'T':
    return trade(c->row, t, rules, SD_UNDEF_PRICE);
  default:
    if (t->kind == SD_KIND_STATUS && (t->flags == 'H' || t->flags == 'P' || t->flags == 'Q' || t->flags == 'T'))
      c->row->state = t->flags;
    return 0;
  }
}

static inline void show_best(const sd_book *b, int side, sd_book_row *row) {
  const sd_level *best = &b->levels[b->top[side]];
  const int is = b->n[side] != 0;
  *(side == SD_BID ? &row->bid_price : &row->ask_price) = is ? best->price : SD_UNDEF_PRICE;
  *(side == SD_BID ? &row->bid_size : &row->ask_size) = is ? best->size : 0;
  *(side == SD_BID ? &row->bid_orders : &row->ask_orders) = is ? (int32_t)best->orders : 0;
}

/* Brings what a row shows of a book up to date. What has not changed is not even looked at. */
static inline void show_book(sd_book *b, sd_book_row *row) {
  if (b->changed) {
    /* Which of the two it is, nobody can foresee. */
    const uint32_t tops = b->changed & (SD_TOP(SD_ASK) | SD_TOP(SD_BID));
    if (tops) {
      show_best(b, (int)(tops >> SD_BID), row);
      if (SD_UNLIKELY(tops == (SD_TOP(SD_ASK) | SD_TOP(SD_BID)))) show_best(b, SD_ASK, row);
    }
    if (b->changed & SD_LADDER) {
      row->bid_levels = (int32_t)sd_book_count_levels(b, SD_BID);
      row->ask_levels = (int32_t)sd_book_count_levels(b, SD_ASK);
    }
    b->changed = 0;
  }
  row->orders = (int32_t)b->live;
}

static inline int is_crossed(const sd_book *b, const sd_book_row *row) {
  return SD_UNLIKELY(row->bid_price >= row->ask_price) && b->n[SD_BID] && b->n[SD_ASK];
}

static inline void show(sd_book *b, sd_book_row *row, const sd_tick *t) {
  show_book(b, row);
  row->ticks++;
  row->last_ts_recv = t->ts_recv;
  if (is_crossed(b, row)) row->crossed++;
}

/* ---- one tick of Databento's: publishers.h */

static void remove_side(sd_book *b, int side) {
  if (!b->n[side]) return;
  for (uint32_t slot = 0; (slot = sd_book_order_from(b, slot)) != SD_NO_ORDER; slot++)
    if (sd_book_side(b, slot) == side) sd_book_remove(b, slot, sd_book_size(b, slot));
}

/* The tick is a side's top, and all of the side. Without a price the side is empty. */
static int set_top(sd_change *c, const sd_tick *t, uint8_t *tops) {
  const int side = side_of_tick(t), is_empty = t->price == SD_UNDEF_PRICE;
  if ((t->side != 'A' && t->side != 'B') || (!is_empty && !usable(t))) {
    c->row->unusable++;
    return 0;
  }
  /* Once it tells tops, a side has no order but its top: so it is searched for others only once. */
  if (*tops & SD_TOP(side)) {
    const uint32_t order = sd_book_find(c->book, sd_top_id(side));
    if (order != SD_NO_ORDER) sd_book_remove(c->book, order, sd_book_size(c->book, order));
  } else {
    remove_side(c->book, side);
    *tops |= (uint8_t)SD_TOP(side);
  }
  if (is_empty) return 0;
  return done(c, sd_book_add(c->book, c->pool, sd_top_id(side), side, t->price, t->size, SD_NO_LEVEL));
}

/* Applies a record of an order, a trade or a clear to its publisher's book. Zero, or what keeps it from being handled. */
static inline int apply_record(sd_change *c, const sd_tick *t, const sd_trade_rules *rules, uint8_t *tops) {
  const int is_new = t->action == 'A' || t->action == 'M';
  if (is_new && t->flags & SD_EVENT_TOP) return set_top(c, t, tops);
  if (is_new && *tops & SD_TOP(side_of_tick(t))) {
    c->row->unusable++;
    return 0;
  }
  if (t->action == 'R') *tops = 0;
  return apply(c, t, rules);
}

/* The end of an event: the rows show what it left. */
static inline void show_event(const sd_publishers *p, const sd_publisher_view *view, sd_book_row *row) {
  show_book(view->book, view->shown);
  if (SD_UNLIKELY(*view->tops)) {
    /* Nobody says how many orders make a top. */
    if (*view->tops & SD_TOP(SD_BID)) view->shown->bid_orders = 0;
    if (*view->tops & SD_TOP(SD_ASK)) view->shown->ask_orders = 0;
    view->shown->orders -= (int32_t)sd_count_tops(view->book, *view->tops);
  }
  if (is_crossed(view->book, view->shown)) row->crossed++;
  sd_publishers_show(p, row);
}

static void begin_day(sd_publishers *p, const sd_change *c) {
  for (uint32_t i = 0; i < p->n; i++) {
    const sd_publisher_view view = sd_publisher_at(p, c->book, c->row, i);
    sd_book_clear(view.book, c->pool);
    *view.tops = 0;
    show_event(p, &view, c->row);
  }
  c->row->state = 0;
}

static SD_NOINLINE int handle_record(const sd_book_params *params, sd_change c, const sd_tick *t) {
  sd_publishers *p = &params->books->publishers[t->instrument_id];
  uint8_t no_tops = 0;
  sd_publisher_view view = {c.book, &no_tops, c.row};
  if (t->kind != SD_KIND_STATUS) {
    const int code = sd_publisher_find(p, c.pool, c.book, c.row, t->publisher_id, &view);
    if (code != SD_PUBLISHER_FOUND) return code == SD_PUBLISHER_NO_MEMORY ? NO_MEMORY : TOO_MANY;
    if (view.book != c.book) c = (sd_change){view.book, c.pool, c.row, SD_NO_ORDER, SD_NO_LEVEL};
  }
  if (sd_is_day(t)) {
    begin_day(p, &c);
  } else {
    const int fault = apply_record(&c, t, &params->rules, view.tops);
    if (SD_UNLIKELY(fault)) return fault;
  }
  if (sd_ends_event(t)) show_event(p, &view, c.row);
  c.row->ticks++;
  c.row->last_ts_recv = t->ts_recv;
  return 0;
}

/* ---- a batch */

static int64_t fail(sd_context *ctx, int32_t code, const char *what, uint32_t number, int64_t at) {
  ctx->error_code = code;
  snprintf(ctx->message, sizeof ctx->message, what, number);
  return at;
}

static SD_NOINLINE int64_t fail_on(sd_context *ctx, const sd_books *books, const sd_tick *t, int fault, int64_t at) {
  if (fault == NO_MEMORY)
    return fail(ctx, fault, "no memory for one more order beside %u", book_of(books, t)->live, at);
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

static inline int has_book(const sd_books *books, const sd_tick *t) { return t->instrument_id < books->n; }

void sd_ahead_book(void *rows, const sd_tick *ticks, int64_t n, const sd_context *ctx) {
  const sd_books *books = ((const sd_book_params *)ctx->params)->books;
  for (int64_t i = 0; i < n; i++)
    if (has_book(books, &ticks[i])) ask_for_book(books, rows, &ticks[i], ctx->row_stride);
  for (int64_t i = 0; i < n; i++)
    if (has_book(books, &ticks[i])) ask_for_order(books, &ticks[i]);
  for (int64_t i = 0; i < n; i++)
    if (has_book(books, &ticks[i])) ask_for_its_level(books, &ticks[i]);
}

static inline int handle(const sd_book_params *params, sd_pool *pool, unsigned char *rows, const sd_tick *t,
                         uint64_t stride, sd_guess guess) {
  sd_book *b = book_of(params->books, t);
  sd_book_row *row = row_of(rows, t, stride);
  if (SD_UNLIKELY(row->ticks == 0)) row->bid_price = row->ask_price = SD_UNDEF_PRICE;
  sd_change c = {b, pool, row, guess.order, guess.level};
  if (SD_UNLIKELY(params->rules.fills_report)) return handle_record(params, c, t);
  const int fault = apply(&c, t, &params->rules);
  if (SD_UNLIKELY(fault)) return fault;
  show(b, row, t);
  return 0;
}

/* What a batch's ticks pass before their turn. */
typedef struct sd_stages {
  const sd_books *books;
  unsigned char *rows;
  const sd_tick *ticks;
  uint64_t stride;
  uint64_t end; /* ticks from here on have no book, or are not there */
  sd_guess guesses[GUESSES];
} sd_stages;

/* The first ticks' stages, each as far as it is ahead of the handling of the first one. */
static SD_NOINLINE void fill(sd_stages *s) {
  uint64_t i;
  for (i = 0; i < AHEAD && i < s->end; i++) {
    if (has_book(s->books, &s->ticks[i])) ask_for_book(s->books, s->rows, &s->ticks[i], s->stride);
    else s->end = i;
  }
  for (i = 0; i < AHEAD - STAGE && i < s->end; i++) ask_for_order(s->books, &s->ticks[i]);
  for (i = 0; i < AHEAD - 2 * STAGE && i < s->end; i++) s->guesses[i] = ask_for_its_level(s->books, &s->ticks[i]);
}

int64_t sd_handle_book(void *rows, const sd_tick *ticks, int64_t n, sd_context *ctx) {
  const sd_book_params *params = ctx->params;
  const sd_books *books = params->books;
  sd_pool *pool = sd_pools_of(&params->books->pools, ctx->slot);
  const uint64_t stride = ctx->row_stride;
  sd_stages s = {.books = books, .rows = rows, .ticks = ticks, .stride = stride, .end = (uint64_t)n};
  fill(&s);
  for (uint64_t i = 0; i < s.end; i++) {
    const uint64_t first = i + AHEAD, second = first - STAGE, third = second - STAGE;
    if (SD_LIKELY(first < s.end)) {
      if (SD_LIKELY(has_book(books, &ticks[first]))) ask_for_book(books, rows, &ticks[first], stride);
      else s.end = first;
    }
    if (SD_LIKELY(second < s.end)) ask_for_order(books, &ticks[second]);
    if (SD_LIKELY(third < s.end)) s.guesses[third % GUESSES] = ask_for_its_level(books, &ticks[third]);
    const int fault = handle(params, pool, rows, &ticks[i], stride, s.guesses[i % GUESSES]);
    if (SD_UNLIKELY(fault)) return fail_on(ctx, books, &ticks[i], fault, (int64_t)i);
  }
  if (SD_UNLIKELY(s.end < (uint64_t)n))
    return fail(ctx, NO_BOOK, "no book was made for symbol %u", ticks[s.end].instrument_id, (int64_t)s.end);
  return n;
}
