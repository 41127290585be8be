#include "handlers/book.h"

#include <stdio.h>
#include <stdlib.h>

#include "decode/itch.h"
#include "handlers/book_store.h"
#include "sd_atomic.h"

struct sd_books {
  uint64_t n;
  sd_book book[];
};

sd_books *sd_books_create(uint64_t n) {
  if (n == 0 || n > (SIZE_MAX - sizeof(sd_books)) / sizeof(sd_book)) return NULL;
  sd_books *books = malloc(sizeof *books + n * sizeof(sd_book));
  if (!books) return NULL;
  books->n = n;
  for (uint64_t i = 0; i < n; i++) sd_book_init(&books->book[i]);
  return books;
}

void sd_books_destroy(sd_books *books) {
  if (!books) return;
  for (uint64_t i = 0; i < books->n; i++) sd_book_free(&books->book[i]);
  free(books);
}

/* ---- one tick */

enum { NO_MEMORY = 1, NO_BOOK = 2 };

static void trade(sd_book_row *row, const sd_tick *t, int64_t price, uint32_t size) {
  if (t->flags & SD_ITCH_NON_PRINTABLE || size == 0) return;
  row->volume += size;
  row->trades++;
  if (price != SD_UNDEF_PRICE) row->last_price = price;
}

/* Takes `size` off an order, all of it where no more is left. */
static void take(sd_book *b, sd_book_row *row, uint32_t order, uint32_t size) {
  uint32_t left = b->orders[order].size;
  if (size > left) row->clipped++;
  if (size < left) sd_book_reduce(b, order, size);
  else sd_book_remove(b, order);
}

static int usable(const sd_tick *t) { return t->price != SD_UNDEF_PRICE && t->price != INT64_MIN && t->size != 0; }

static int add(sd_book *b, sd_book_row *row, const sd_tick *t) {
  if (!usable(t) || (t->side != 'A' && t->side != 'B')) {
    row->unusable++;
    return 1;
  }
  if (sd_book_find(b, t->order_id) != SD_NO_ORDER) {
    row->duplicates++;
    return 1;
  }
  return sd_book_add(b, t->order_id, t->side == 'B' ? SD_BID : SD_ASK, t->price, t->size);
}

static int change(sd_book *b, sd_book_row *row, const sd_tick *t, uint32_t order) {
  if (!usable(t)) {
    row->unusable++;
    return 1;
  }
  if (t->ref_id == 0 || t->ref_id == t->order_id) return sd_book_change(b, order, t->price, t->size);
  int side = (int)b->levels[b->orders[order].level].side;
  if (sd_book_find(b, t->ref_id) != SD_NO_ORDER) {
    row->duplicates++;
    sd_book_remove(b, order);
    return 1;
  }
  /* First the new one, which may find no memory: the old one is still there then. */
  if (!sd_book_add(b, t->ref_id, side, t->price, t->size)) return 0;
  sd_book_remove(b, order);
  return 1;
}

/* Zero: no memory. */
static int apply(sd_book *b, sd_book_row *row, const sd_tick *t, uint64_t fills_report) {
  uint32_t order;
  switch (t->action) {
  case 'A':
    return add(b, row, t);
  case 'C':
  case 'F':
  case 'M':
    if (t->action == 'F' && fills_report) return 1;
    order = sd_book_find(b, t->order_id);
    if (order == SD_NO_ORDER) {
      row->unknown++;
      if (t->action == 'F') trade(row, t, t->price, t->size);
      return 1;
    }
    if (t->action == 'M') return change(b, row, t, order);
    if (t->action == 'F')
      trade(row, t, t->price == SD_UNDEF_PRICE ? b->levels[b->orders[order].level].price : t->price, t->size);
    take(b, row, order, t->action == 'C' && t->size == 0 ? b->orders[order].size : t->size);
    return 1;
  case 'R':
    sd_book_clear(b);
    return 1;
  case 'T':
    trade(row, t, t->price, t->size);
    return 1;
  default:
    if (t->kind == SD_KIND_STATUS && (t->flags == 'H' || t->flags == 'P' || t->flags == 'Q' || t->flags == 'T'))
      row->state = t->flags;
    return 1;
  }
}

static void show_side(const sd_book *b, int side, int64_t *price, uint64_t *size, uint32_t *orders, uint32_t *levels) {
  const sd_level *best = sd_book_best(b, side);
  *price = best ? best->price : SD_UNDEF_PRICE;
  *size = best ? best->size : 0;
  *orders = best ? best->orders : 0;
  *levels = b->side[side].n;
}

static void show(const sd_book *b, sd_book_row *row, const sd_tick *t) {
  show_side(b, SD_BID, &row->bid_price, &row->bid_size, &row->bid_orders, &row->bid_levels);
  show_side(b, SD_ASK, &row->ask_price, &row->ask_size, &row->ask_orders, &row->ask_levels);
  row->orders = b->live;
  row->ticks++;
  row->last_ts_recv = t->ts_recv;
  row->crossed += b->side[SD_BID].n && b->side[SD_ASK].n && row->bid_price >= row->ask_price;
}

/* ---- a batch */

enum { BOOK_AHEAD = 12, INDEX_AHEAD = 8, ORDER_AHEAD = 4 };

/* A tick touches its book, a slot of the index, the order there and its level, each found through the one before: each is
 * asked for a few ticks after the last. What was found may have moved by then; only time is lost. */
static inline void ask_for(const sd_books *books, unsigned char *rows, const sd_tick *ticks, int64_t i, int64_t n,
                           uint64_t stride) {
  if (i + BOOK_AHEAD < n) {
    const sd_tick *t = &ticks[i + BOOK_AHEAD];
    if (t->instrument_id < books->n) {
      const char *book = (const char *)&books->book[t->instrument_id];
      sd_prefetch_write(book);
      sd_prefetch_write(book + sizeof(sd_book) - 1);
      sd_prefetch_write(rows + t->instrument_id * stride);
      sd_prefetch_write(rows + t->instrument_id * stride + SD_LINE);
    }
  }
  if (i + INDEX_AHEAD < n) {
    const sd_tick *t = &ticks[i + INDEX_AHEAD];
    const sd_book *b = &books->book[t->instrument_id < books->n ? t->instrument_id : 0];
    if (b->index) sd_prefetch_write(&b->index[sd_book_slot(b, t->order_id)]);
    if (b->side[t->side == 'B'].n) sd_prefetch(&b->side[t->side == 'B'].rungs[b->side[t->side == 'B'].n - 1]);
  }
  if (i + ORDER_AHEAD < n) {
    const sd_tick *t = &ticks[i + ORDER_AHEAD];
    const sd_book *b = &books->book[t->instrument_id < books->n ? t->instrument_id : 0];
    if (b->index) {
      uint32_t at = b->index[sd_book_slot(b, t->order_id)];
      if (at) sd_prefetch_write(&b->orders[at - 1]);
    }
  }
}

int64_t sd_handle_book(void *rows, const sd_tick *ticks, int64_t n, sd_context *ctx) {
  const sd_book_params *params = ctx->params;
  sd_books *books = params->books;
  const uint64_t stride = ctx->row_stride;
  for (int64_t i = 0; i < n; i++) {
    const sd_tick *t = &ticks[i];
    ask_for(books, rows, ticks, i, n, stride);
    if (SD_UNLIKELY(t->instrument_id >= books->n)) {
      ctx->error_code = NO_BOOK;
      snprintf(ctx->message, sizeof ctx->message, "no book was made for symbol %u", t->instrument_id);
      return i;
    }
    sd_book *b = &books->book[t->instrument_id];
    sd_book_row *row = (sd_book_row *)((unsigned char *)rows + t->instrument_id * stride);
    if (SD_UNLIKELY(!apply(b, row, t, params->fills_report))) {
      ctx->error_code = NO_MEMORY;
      snprintf(ctx->message, sizeof ctx->message, "no memory for one more order beside %u", b->live);
      return i;
    }
    show(b, row, t);
  }
  return n;
}

/* ---- questions */

static int side_of(int letter) { return letter == 'B' ? SD_BID : SD_ASK; }

uint64_t sd_books_levels(const sd_books *books, uint64_t symbol, int side, sd_book_level *levels, uint64_t n) {
  if (symbol >= books->n) return 0;
  const sd_book *b = &books->book[symbol];
  const sd_side *s = &b->side[side_of(side)];
  uint64_t got = n < s->n ? n : s->n;
  for (uint64_t i = 0; i < got; i++) {
    const sd_level *l = &b->levels[s->rungs[s->n - 1 - i].level];
    levels[i] = (sd_book_level){l->price, l->size, l->orders};
  }
  return got;
}

static void describe(const sd_book *b, uint32_t order, uint64_t ahead_orders, uint64_t ahead_size, sd_book_order *out) {
  const sd_order *o = &b->orders[order];
  const sd_level *l = &b->levels[o->level];
  *out = (sd_book_order){o->id, l->price, o->size, ahead_orders, ahead_size, l->side == SD_BID ? 'B' : 'A'};
}

uint64_t sd_books_orders(const sd_books *books, uint64_t symbol, int side, sd_book_order *orders, uint64_t n) {
  if (symbol >= books->n) return 0;
  const sd_book *b = &books->book[symbol];
  const sd_side *s = &b->side[side_of(side)];
  uint64_t got = 0;
  for (uint32_t i = s->n; i-- > 0;) {
    uint64_t ahead_orders = 0, ahead_size = 0;
    for (uint32_t o = b->levels[s->rungs[i].level].head; o != SD_NO_ORDER && got < n; o = b->orders[o].next) {
      describe(b, o, ahead_orders, ahead_size, &orders[got++]);
      ahead_orders++;
      ahead_size += b->orders[o].size;
    }
  }
  return got;
}

int sd_books_order(const sd_books *books, uint64_t symbol, uint64_t order_id, sd_book_order *order) {
  if (symbol >= books->n) return 0;
  const sd_book *b = &books->book[symbol];
  uint32_t found = sd_book_find(b, order_id);
  if (found == SD_NO_ORDER) return 0;
  uint64_t ahead_orders = 0, ahead_size = 0;
  for (uint32_t o = b->orders[found].prev; o != SD_NO_ORDER; o = b->orders[o].prev) {
    ahead_orders++;
    ahead_size += b->orders[o].size;
  }
  describe(b, found, ahead_orders, ahead_size, order);
  return 1;
}

uint64_t sd_books_live(const sd_books *books) {
  uint64_t live = 0;
  for (uint64_t i = 0; i < books->n; i++) live += books->book[i].live;
  return live;
}

uint64_t sd_books_bytes(const sd_books *books) {
  uint64_t bytes = sizeof *books + books->n * sizeof(sd_book);
  for (uint64_t i = 0; i < books->n; i++) bytes += sd_book_bytes(&books->book[i]);
  return bytes;
}
