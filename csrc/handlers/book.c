#include "handlers/book.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "handlers/book_ahead.h"
#include "handlers/book_store.h"
#include "sd_atomic.h"

sd_books *sd_books_create(uint64_t n, uint32_t start) {
  if (n == 0 || n > SIZE_MAX / sizeof(sd_book)) return NULL;
  sd_books *books = aligned_alloc(_Alignof(sd_books), sizeof *books);
  if (!books) return NULL;
  sd_book_draw_key();
  sd_pools_init(&books->pools);
  books->n = n;
  books->book = sd_pool_take_zeros(sd_pools_of(&books->pools, 0), n * sizeof(sd_book));
  if (!books->book) {
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
enum { NO_MEMORY = 1, NO_BOOK = 2, NO_VOLUME = 3, TOO_LARGE = 4 };

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
  if (t->ref_id == 0)
    return done(c, sd_book_change(c->book, c->pool, order, t->price, t->size, c->level));
  return done(c, sd_book_replace(c->book, c->pool, order, t->ref_id, t->price, t->size, c->level));
}

/* Zero, or what keeps the tick from being handled. */
static inline int apply(sd_change *c, const sd_tick *t, const sd_trade_rules *rules) {
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
      take(c, order, left, t->size ? t->size : left);
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

/* Brings the row up to date. What the tick did not change is not even looked at. */
static inline void show(sd_book *b, sd_book_row *row, const sd_tick *t) {
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
  row->ticks++;
  row->last_ts_recv = t->ts_recv;
  if (SD_UNLIKELY(row->bid_price >= row->ask_price) && b->n[SD_BID] && b->n[SD_ASK]) row->crossed++;
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

/* ---- questions */

static int side_of(int letter) { return letter == 'B' ? SD_BID : SD_ASK; }

uint64_t sd_books_levels(const sd_books *books, uint64_t symbol, int side, sd_book_level *levels, uint64_t n) {
  if (symbol >= books->n) return 0;
  const sd_book *b = &books->book[symbol];
  const int which = side_of(side);
  sd_level_cursor cursor = {0};
  uint64_t got = 0;
  for (uint32_t level; got < n && sd_book_next_level(b, which, &cursor, &level); got++) {
    const sd_level *l = &b->levels[level];
    levels[got] = (sd_book_level){l->price, l->size, l->orders};
  }
  return got;
}

static int side_in(const sd_book *b, uint32_t slot) {
  return sd_bucket_side(sd_book_bucket(b, slot), sd_bucket_place(slot));
}

/* With its stamp where what is ahead of it goes. */
static sd_book_order describe(const sd_book *b, uint32_t slot) {
  const sd_bucket *bucket = sd_book_bucket(b, slot);
  const uint32_t place = sd_bucket_place(slot);
  const int64_t price = b->levels[bucket->level[place]].price;
  const char side = sd_bucket_side(bucket, place) == SD_BID ? 'B' : 'A';
  return (sd_book_order){bucket->id[place], price, sd_book_size(b, slot), bucket->stamp[place], 0, (uint64_t)side};
}

/* The first order from a slot on; SD_NO_ORDER: there is none. */
static uint32_t order_from(const sd_book *b, uint32_t slot) {
  for (; slot >> SD_PLACE_BITS < b->n_buckets; slot++)
    if (sd_book_bucket(b, slot)->taken >> sd_bucket_place(slot) & 1) return slot;
  return SD_NO_ORDER;
}

/* By price, the best one first, then by the stamps that stand in for what is ahead. */
static int before(const void *left, const void *right) {
  const sd_book_order *a = left, *b = right;
  if (a->price != b->price) return (a->price < b->price) == (a->side == 'B') ? 1 : -1;
  return (a->ahead_orders > b->ahead_orders) - (a->ahead_orders < b->ahead_orders);
}

uint64_t sd_books_orders(const sd_books *books, uint64_t symbol, int side, sd_book_order *orders, uint64_t n) {
  if (symbol >= books->n) return 0;
  const sd_book *b = &books->book[symbol];
  uint64_t got = 0;
  for (uint32_t slot = 0; (slot = order_from(b, slot)) != SD_NO_ORDER; slot++) {
    if (side_in(b, slot) != side_of(side)) continue;
    if (got < n) orders[got] = describe(b, slot);
    got++;
  }
  if (got > n) return got;
  qsort(orders, got, sizeof *orders, before);
  for (uint64_t i = 0; i < got; i++) {
    const int first = i == 0 || orders[i].price != orders[i - 1].price;
    orders[i].ahead_orders = first ? 0 : orders[i - 1].ahead_orders + 1;
    orders[i].ahead_size = first ? 0 : orders[i - 1].ahead_size + orders[i - 1].size;
  }
  return got;
}

int sd_books_order(const sd_books *books, uint64_t symbol, uint64_t order_id, sd_book_order *order) {
  if (symbol >= books->n) return 0;
  const sd_book *b = &books->book[symbol];
  uint32_t found = sd_book_find(b, order_id);
  if (found == SD_NO_ORDER) return 0;
  const sd_book_order mine = describe(b, found);
  *order = mine;
  order->ahead_orders = order->ahead_size = 0;
  for (uint32_t slot = 0; (slot = order_from(b, slot)) != SD_NO_ORDER; slot++) {
    const sd_book_order other = describe(b, slot);
    if (other.price != mine.price || other.side != mine.side || other.ahead_orders >= mine.ahead_orders) continue;
    order->ahead_orders++;
    order->ahead_size += other.size;
  }
  return 1;
}

sd_resting sd_books_resting(const sd_books *books, uint64_t symbol, uint64_t order_id) {
  const sd_book *b = symbol < books->n ? &books->book[symbol] : NULL;
  const uint32_t found = b ? sd_book_find(b, order_id) : SD_NO_ORDER;
  if (found == SD_NO_ORDER) return (sd_resting){SD_UNDEF_PRICE, 'N'};
  return (sd_resting){sd_book_price(b, found), side_in(b, found) == SD_BID ? 'B' : 'A'};
}

uint64_t sd_books_live(const sd_books *books) {
  uint64_t live = 0;
  for (uint64_t i = 0; i < books->n; i++) live += books->book[i].live;
  return live;
}

uint64_t sd_books_order_bytes(const sd_books *books) {
  uint64_t bytes = 0;
  for (uint64_t i = 0; i < books->n; i++) bytes += sd_book_order_bytes(&books->book[i]);
  return bytes;
}

uint64_t sd_books_bytes(const sd_books *books) {
  uint64_t bytes = sizeof *books + books->n * sizeof(sd_book) + sd_books_order_bytes(books);
  for (uint64_t i = 0; i < books->n; i++) bytes += sd_book_level_bytes(&books->book[i]);
  return bytes;
}
