#include "handlers/book.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "decode/itch.h"
#include "handlers/book_store.h"
#include "sd_atomic.h"

struct sd_books {
  uint64_t n;
  sd_book *book;
  sd_pool pool;
};

sd_books *sd_books_create(uint64_t n) {
  if (n == 0 || n > SIZE_MAX / sizeof(sd_book)) return NULL;
  sd_books *books = malloc(sizeof *books);
  if (!books) return NULL;
  sd_pool_init(&books->pool);
  books->n = n;
  books->book = sd_pool_take(&books->pool, n * sizeof(sd_book));
  if (!books->book) {
    sd_pool_destroy(&books->pool);
    free(books);
    return NULL;
  }
  memset(books->book, 0, n * sizeof(sd_book));
  return books;
}

void sd_books_destroy(sd_books *books) {
  if (!books) return;
  sd_pool_destroy(&books->pool);
  free(books);
}

/* ---- one tick */

enum { NO_MEMORY = 1, NO_BOOK = 2 };

/* What a tick is applied to, and which sides' best levels it may have changed. */
typedef struct sd_change {
  sd_book *book;
  sd_pool *pool;
  sd_book_row *row;
  uint32_t order, rung; /* guesses: the order it speaks of, the place of its price */
  uint32_t changed[2];
} sd_change;

static void trade(sd_book_row *row, const sd_tick *t, int64_t price, uint32_t size) {
  if (t->flags & SD_ITCH_NON_PRINTABLE || size == 0) return;
  row->volume += size;
  row->trades++;
  if (price != SD_UNDEF_PRICE) row->last_price = price;
}

/* A price of a side is about to change: it matters to the row if it is the best one, or better. */
static inline void touch(sd_change *c, int side, int64_t price) {
  int64_t best = side == SD_BID ? c->row->bid_price : c->row->ask_price;
  c->changed[side] |= best == SD_UNDEF_PRICE || (side == SD_BID ? price >= best : price <= best);
}

static inline void touch_order(sd_change *c, const sd_order *o) {
  touch(c, sd_order_side(o), c->book->levels[sd_order_level(o)].price);
}

static inline uint32_t find(const sd_change *c, uint64_t id) {
  const sd_order *orders = sd_book_orders(c->book);
  if (SD_LIKELY(c->order < c->book->orders_used && orders[c->order].id == id && orders[c->order].size)) return c->order;
  return sd_book_find(c->book, id);
}

/* Takes `size` off an order, all of it where no more is left. */
static inline void take(sd_change *c, uint32_t order, uint32_t size) {
  sd_order *o = &sd_book_orders(c->book)[order];
  touch_order(c, o);
  if (size > o->size) c->row->clipped++;
  if (size < o->size) sd_book_reduce(c->book, order, size);
  else sd_book_remove(c->book, order);
}

static int usable(const sd_tick *t) { return t->price != SD_UNDEF_PRICE && t->price != INT64_MIN && t->size != 0; }

static inline int add(sd_change *c, const sd_tick *t) {
  if (SD_UNLIKELY(!usable(t) || (t->side != 'A' && t->side != 'B'))) {
    c->row->unusable++;
    return 1;
  }
  int side = t->side == 'B' ? SD_BID : SD_ASK;
  touch(c, side, t->price);
  int added = sd_book_add(c->book, c->pool, t->order_id, side, t->price, t->size, c->rung);
  c->row->duplicates += added == SD_BOOK_DUPLICATE;
  return added;
}

static int change(sd_change *c, const sd_tick *t, uint32_t order) {
  if (!usable(t)) {
    c->row->unusable++;
    return 1;
  }
  const sd_order *o = &sd_book_orders(c->book)[order];
  int side = sd_order_side(o);
  touch_order(c, o);
  touch(c, side, t->price);
  if (t->ref_id == 0 || t->ref_id == t->order_id) return sd_book_change(c->book, c->pool, order, t->price, t->size);
  /* First the new one, which may find no memory: the old one is still there then. */
  int added = sd_book_add(c->book, c->pool, t->ref_id, side, t->price, t->size, SD_NO_ORDER);
  if (added == SD_BOOK_NO_MEMORY) return 0;
  c->row->duplicates += added == SD_BOOK_DUPLICATE;
  sd_book_remove(c->book, order);
  return 1;
}

/* Zero: no memory. */
static inline int apply(sd_change *c, const sd_tick *t, uint64_t fills_report) {
  uint32_t order;
  sd_book *b = c->book;
  switch (t->action) {
  case 'A':
    return add(c, t);
  case 'C':
  case 'F':
  case 'M':
    if (t->action == 'F' && fills_report) return 1;
    order = find(c, t->order_id);
    if (SD_UNLIKELY(order == SD_NO_ORDER)) {
      c->row->unknown++;
      if (t->action == 'F') trade(c->row, t, t->price, t->size);
      return 1;
    }
    if (t->action == 'M') return change(c, t, order);
    const sd_order *o = &sd_book_orders(b)[order];
    if (t->action == 'F')
      trade(c->row, t, t->price == SD_UNDEF_PRICE ? b->levels[sd_order_level(o)].price : t->price, t->size);
    take(c, order, t->action == 'C' && t->size == 0 ? o->size : t->size);
    return 1;
  case 'R':
    sd_book_clear(b);
    c->changed[0] = c->changed[1] = 1;
    return 1;
  case 'T':
    trade(c->row, t, t->price, t->size);
    return 1;
  default:
    if (t->kind == SD_KIND_STATUS && (t->flags == 'H' || t->flags == 'P' || t->flags == 'Q' || t->flags == 'T'))
      c->row->state = t->flags;
    return 1;
  }
}

static void show_side(const sd_book *b, int side, int64_t *price, uint64_t *size, uint32_t *orders) {
  const sd_level *best = sd_book_best(b, side);
  *price = best ? best->price : SD_UNDEF_PRICE;
  *size = best ? best->size : 0;
  *orders = best ? best->orders : 0;
}

/* Brings the row up to date: what the tick did not change is not even looked at. */
static inline void show(const sd_change *c, const sd_tick *t, const uint32_t levels[2]) {
  const sd_book *b = c->book;
  sd_book_row *row = c->row;
  if (c->changed[SD_BID]) show_side(b, SD_BID, &row->bid_price, &row->bid_size, &row->bid_orders);
  if (c->changed[SD_ASK]) show_side(b, SD_ASK, &row->ask_price, &row->ask_size, &row->ask_orders);
  if (levels[SD_BID] != b->n[SD_BID]) row->bid_levels = b->n[SD_BID];
  if (levels[SD_ASK] != b->n[SD_ASK]) row->ask_levels = b->n[SD_ASK];
  row->orders = b->live;
  row->ticks++;
  row->last_ts_recv = t->ts_recv;
  if (SD_UNLIKELY(row->bid_price >= row->ask_price) && b->n[SD_BID] && b->n[SD_ASK]) row->crossed++;
}

/* ---- ahead of the ticks
 *
 * A tick touches its book, a slot of the index, the order there, that one's level and its neighbours in the queue: each found
 * through the one before. So all ticks of a group take one step together before any takes the next, and wait for memory
 * together. What was found is a guess by the time a tick's turn comes: it is checked then.
 */

enum { GROUP = 32, AHEAD_LEAST = 3 };

typedef struct sd_group {
  sd_book *book[GROUP];
  uint32_t order[GROUP], rung[GROUP];
  uint8_t adds[GROUP], others[GROUP]; /* which ticks add an order, which speak of one that is there */
} sd_group;

static inline void ask_for_order(const sd_order *o) {
  sd_prefetch_write(o);
  sd_prefetch_write((const char *)(o + 1) - 1);
}

static inline int side_of_tick(const sd_tick *t) { return t->side == 'B' ? SD_BID : SD_ASK; }

/* The best of a side's ladder. */
static inline void ask_for_ladder(const sd_book *b, int side) {
  sd_prefetch_write(&sd_book_keys(b, side)[b->n[side]]);
  sd_prefetch_write(&sd_book_keys(b, side)[b->n[side]] - SD_LINE / sizeof(int64_t));
  sd_prefetch_write(&sd_book_rungs(b, side)[b->n[side]]);
}

static inline void ask_for_slot(const sd_book *b, uint64_t id) {
  sd_prefetch_write(&b->index[sd_book_slot(b, sd_book_hash(id))]);
}

/* The row's second line changes where a level comes or goes, and with trades. */
static inline void ask_for_counts(sd_book_row *row) { sd_prefetch_write(&row->bid_levels); }

static inline sd_book_row *row_of(unsigned char *rows, const sd_tick *t, uint64_t stride) {
  return (sd_book_row *)(rows + t->instrument_id * stride);
}

static void look_ahead(const sd_books *books, unsigned char *rows, const sd_tick *ticks, uint32_t n, uint64_t stride,
                       sd_group *g) {
  uint32_t adds = 0, others = 0;
  for (uint32_t i = 0; i < n; i++) {
    const sd_tick *t = &ticks[i];
    sd_book *b = g->book[i] = &books->book[t->instrument_id];
    sd_prefetch_write(b);
    sd_prefetch_write(row_of(rows, t, stride));
    g->order[i] = g->rung[i] = SD_NO_ORDER;
    g->adds[adds] = g->others[others] = (uint8_t)i;
    adds += t->action == 'A';
    others += t->action == 'C' || t->action == 'F' || t->action == 'M';
  }
  for (uint32_t k = 0; k < others; k++) {
    const sd_tick *t = &ticks[g->others[k]];
    const sd_book *b = g->book[g->others[k]];
    if (b->index_bits) ask_for_slot(b, t->order_id);
  }
  for (uint32_t k = 0; k < adds; k++) {
    const sd_tick *t = &ticks[g->adds[k]];
    const sd_book *b = g->book[g->adds[k]];
    if (!b->index_bits) continue;
    ask_for_slot(b, t->order_id);
    ask_for_ladder(b, side_of_tick(t));
    ask_for_order(&sd_book_orders(b)[b->free_order ? b->free_order - 1 : b->orders_used]);
  }
  for (uint32_t k = 0; k < others; k++) {
    uint32_t i = g->others[k];
    const sd_tick *t = &ticks[i];
    const sd_book *b = g->book[i];
    uint32_t order = g->order[i] = sd_book_guess(b, t->order_id);
    if (order != SD_NO_ORDER) ask_for_order(&sd_book_orders(b)[order]);
    if (t->action == 'M' && b->index_bits) ask_for_slot(b, t->ref_id);
  }
  for (uint32_t k = 0; k < adds; k++) {
    uint32_t i = g->adds[k];
    const sd_tick *t = &ticks[i];
    const sd_book *b = g->book[i];
    if (!b->index_bits) continue;
    int side = side_of_tick(t);
    uint32_t rung = g->rung[i] = sd_book_rung(b, side, t->price);
    if (rung < b->n[side]) sd_prefetch_write(&b->levels[sd_book_rungs(b, side)[rung]]);
    else ask_for_counts(row_of(rows, t, stride));
  }
  for (uint32_t k = 0; k < others; k++) {
    uint32_t i = g->others[k];
    const sd_tick *t = &ticks[i];
    if (g->order[i] == SD_NO_ORDER) continue;
    const sd_book *b = g->book[i];
    const sd_order *orders = sd_book_orders(b), *o = &orders[g->order[i]];
    sd_prefetch_write(&b->levels[sd_order_level(o)]);
    if (o->next != SD_NO_ORDER) sd_prefetch_write(&orders[o->next]);
    if (o->prev != SD_NO_ORDER) sd_prefetch_write(&orders[o->prev]);
    if (t->action == 'M' || (o->next & o->prev) == SD_NO_ORDER) ask_for_ladder(b, sd_order_side(o));
    if (t->action != 'C' || (o->next & o->prev) == SD_NO_ORDER) ask_for_counts(row_of(rows, t, stride));
  }
  for (uint32_t k = 0; k < adds; k++) {
    const sd_tick *t = &ticks[g->adds[k]];
    const sd_book *b = g->book[g->adds[k]];
    uint32_t rung = g->rung[g->adds[k]];
    int side = side_of_tick(t);
    if (rung >= b->n[side]) continue;
    const sd_level *l = &b->levels[sd_book_rungs(b, side)[rung]];
    if (l->tail != SD_NO_ORDER) sd_prefetch_write(&sd_book_orders(b)[l->tail].next);
  }
}

/* The same where there are too few ticks for it to pay. */
static void look_here(const sd_books *books, const sd_tick *ticks, uint32_t n, sd_group *g) {
  for (uint32_t i = 0; i < n; i++) {
    g->book[i] = &books->book[ticks[i].instrument_id];
    g->order[i] = g->rung[i] = SD_NO_ORDER;
  }
}

/* ---- a batch */

static int64_t fail(sd_context *ctx, int32_t code, const char *what, uint32_t number, int64_t at) {
  ctx->error_code = code;
  snprintf(ctx->message, sizeof ctx->message, what, number);
  return at;
}

void sd_ahead_book(void *rows, const sd_tick *ticks, int64_t n, const sd_context *ctx) {
  const sd_book_params *params = ctx->params;
  sd_group g;
  for (int64_t from = 0; from < n; from += GROUP) {
    uint32_t most = n - from < GROUP ? (uint32_t)(n - from) : GROUP, some = 0;
    while (some < most && SD_LIKELY(ticks[from + some].instrument_id < params->books->n)) some++;
    look_ahead(params->books, rows, ticks + from, some, ctx->row_stride, &g);
  }
}

int64_t sd_handle_book(void *rows, const sd_tick *ticks, int64_t n, sd_context *ctx) {
  const sd_book_params *params = ctx->params;
  sd_books *books = params->books;
  const uint64_t stride = ctx->row_stride;
  sd_group g;
  for (int64_t from = 0; from < n; from += GROUP) {
    uint32_t most = n - from < GROUP ? (uint32_t)(n - from) : GROUP, some = 0;
    while (some < most && SD_LIKELY(ticks[from + some].instrument_id < books->n)) some++;
    if (some >= AHEAD_LEAST) look_ahead(books, rows, ticks + from, some, stride, &g);
    else look_here(books, ticks + from, some, &g);
    for (uint32_t i = 0; i < some; i++) {
      const sd_tick *t = &ticks[from + i];
      sd_book *b = g.book[i];
      sd_book_row *row = row_of(rows, t, stride);
      const uint32_t levels[2] = {b->n[0], b->n[1]};
      if (SD_UNLIKELY(row->ticks == 0)) row->bid_price = row->ask_price = SD_UNDEF_PRICE;
      sd_change c = {b, &books->pool, row, g.order[i], g.rung[i], {0, 0}};
      if (SD_UNLIKELY(!apply(&c, t, params->fills_report)))
        return fail(ctx, NO_MEMORY, "no memory for one more order beside %u", b->live, from + i);
      show(&c, t, levels);
    }
    if (SD_UNLIKELY(some < most))
      return fail(ctx, NO_BOOK, "no book was made for symbol %u", ticks[from + some].instrument_id, from + some);
  }
  return n;
}

/* ---- questions */

static int side_of(int letter) { return letter == 'B' ? SD_BID : SD_ASK; }

uint64_t sd_books_levels(const sd_books *books, uint64_t symbol, int side, sd_book_level *levels, uint64_t n) {
  if (symbol >= books->n) return 0;
  const sd_book *b = &books->book[symbol];
  const uint32_t there = b->n[side_of(side)];
  const uint32_t *rungs = sd_book_rungs(b, side_of(side));
  uint64_t got = n < there ? n : there;
  for (uint64_t i = 0; i < got; i++) {
    const sd_level *l = &b->levels[rungs[there - 1 - i]];
    levels[i] = (sd_book_level){l->price, l->size, l->orders};
  }
  return got;
}

static void describe(const sd_book *b, uint32_t order, uint64_t ahead_orders, uint64_t ahead_size, sd_book_order *out) {
  const sd_order *o = &sd_book_orders(b)[order];
  const sd_level *l = &b->levels[sd_order_level(o)];
  *out = (sd_book_order){o->id, l->price, o->size, ahead_orders, ahead_size, l->side == SD_BID ? 'B' : 'A'};
}

uint64_t sd_books_orders(const sd_books *books, uint64_t symbol, int side, sd_book_order *orders, uint64_t n) {
  if (symbol >= books->n) return 0;
  const sd_book *b = &books->book[symbol];
  const uint32_t *rungs = sd_book_rungs(b, side_of(side));
  const sd_order *all = sd_book_orders(b);
  uint64_t got = 0;
  for (uint32_t i = b->n[side_of(side)]; i-- > 0;) {
    uint64_t ahead_orders = 0, ahead_size = 0;
    for (uint32_t o = b->levels[rungs[i]].head; o != SD_NO_ORDER && got < n; o = all[o].next) {
      describe(b, o, ahead_orders, ahead_size, &orders[got++]);
      ahead_orders++;
      ahead_size += all[o].size;
    }
  }
  return got;
}

int sd_books_order(const sd_books *books, uint64_t symbol, uint64_t order_id, sd_book_order *order) {
  if (symbol >= books->n) return 0;
  const sd_book *b = &books->book[symbol];
  uint32_t found = sd_book_find(b, order_id);
  if (found == SD_NO_ORDER) return 0;
  const sd_order *all = sd_book_orders(b);
  uint64_t ahead_orders = 0, ahead_size = 0;
  for (uint32_t o = all[found].prev; o != SD_NO_ORDER; o = all[o].prev) {
    ahead_orders++;
    ahead_size += all[o].size;
  }
  describe(b, found, ahead_orders, ahead_size, order);
  return 1;
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
