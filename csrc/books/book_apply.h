/* Applies one tick to its book: the part that book.c and book_events.c share. It is a header, because a call would cost every tick too
 * much. */
#pragma once

#include "books/book_ahead.h"

/* Reasons why a tick cannot be handled. */
enum { NO_MEMORY = 1, NO_BOOK = 2, NO_VOLUME = 3, TOO_LARGE = 4, TOO_MANY = 5 };

/* What a tick is applied to, with two guesses: the slot of the order that it names, and the level of its price. */
typedef struct sd_change {
  sd_book *book;
  sd_pool *pool;
  sd_book_row *row;
  uint32_t order, level;
} sd_change;

/* Nonzero: the sum does not fit into a volume. */
static int trade(sd_book_row *row, const sd_tick *t, const sd_trade_rules *rules, int64_t resting) {
  const int64_t price = sd_trade_price(t, resting);
  int64_t volume;
  if (!sd_is_trade(t, rules)) return 0;
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

/* Takes `size` off an order of `left` shares; all of it if no more is left. */
static inline void take(sd_change *c, uint32_t order, int64_t left, int64_t size) {
  if (SD_UNLIKELY(size > left)) c->row->clipped++;
  if (size < left) sd_book_reduce(c->book, order, left, left - size);
  else sd_book_remove(c->book, order, left);
}

static int usable(const sd_tick *t) { return t->price != SD_UNDEF_PRICE && t->price != INT64_MIN && t->size > 0; }

/* The result of a change: zero, or the reason why the tick cannot be handled. */
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
    /* The exchange has removed the old order, whatever the new one is. */
    if (t->ref_id != 0) sd_book_remove(c->book, order, sd_book_size(c->book, order));
    return 0;
  }
  if (t->ref_id == 0) return done(c, sd_book_change(c->book, c->pool, order, t->price, t->size, c->level));
  return done(c, sd_book_replace(c->book, c->pool, order, t->ref_id, t->price, t->size, c->level));
}

/* Zero, or the reason why the tick cannot be handled. */
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

/* Finds the prices that a tick will change, before it does. */
static inline sd_touched touched_by(sd_change *c, const sd_tick *t) {
  sd_touched touched = {.all = t->action == 'R'};
  if (is_change(t->action)) {
    c->order = find(c, t->order_id);
    if (c->order != SD_NO_ORDER) {
      touched.side[0] = sd_book_side(c->book, c->order);
      touched.price[0] = sd_book_price(c->book, c->order);
      touched.n = 1;
      if (t->action != 'M') return touched;
    }
  }
  if (t->action == 'A' || t->action == 'M') {
    touched.side[touched.n] = touched.n ? touched.side[0] : side_of_tick(t);
    touched.price[touched.n++] = t->price;
  }
  return touched;
}

static inline void show_best(const sd_book *b, int side, sd_book_row *row) {
  const sd_level *best = sd_book_level_at(b, b->top[side]);
  const int is = b->n[side] != 0;
  *(side == SD_BID ? &row->bid_price : &row->ask_price) = is ? best->price : SD_UNDEF_PRICE;
  *(side == SD_BID ? &row->bid_size : &row->ask_size) = is ? best->size : 0;
  *(side == SD_BID ? &row->bid_orders : &row->ask_orders) = is ? (int32_t)best->orders : 0;
}

/* Updates what a row shows of a book. It does not even read what has not changed. */
static inline void show_book(sd_book *b, sd_book_row *row) {
  if (b->changed) {
    /* Nobody can predict which side changed. */
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

/* Says in *ctx why a tick could not be handled, and returns `at`. */
SD_NOINLINE int64_t sd_book_fail(sd_context *ctx, const sd_books *books, const sd_tick *t, int fault, int64_t at);
