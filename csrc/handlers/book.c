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

sd_books *sd_books_create(uint64_t n, uint32_t start) {
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
  for (uint64_t i = 0; i < n; i++) books->book[i] = (sd_book){.stamps = start};
  return books;
}

void sd_books_destroy(sd_books *books) {
  if (!books) return;
  sd_pool_destroy(&books->pool);
  free(books);
}

/* ---- one tick */

enum { NO_MEMORY = 1, NO_BOOK = 2 };

/* What a tick is applied to, and with what guesses: the slot of the order it speaks of, the place of its price. */
typedef struct sd_change {
  sd_book *book;
  sd_pool *pool;
  sd_book_row *row;
  uint32_t order, rung;
} sd_change;

static void trade(sd_book_row *row, const sd_tick *t, int64_t price, uint32_t size) {
  if (t->flags & SD_ITCH_NON_PRINTABLE || size == 0) return;
  row->volume += size;
  row->trades++;
  if (price != SD_UNDEF_PRICE) row->last_price = price;
}

static inline uint32_t find(const sd_change *c, uint64_t id) {
  const sd_book *b = c->book;
  if (SD_LIKELY(c->order >> 3 < b->n_buckets)) {
    const sd_order *o = sd_book_at(b, c->order);
    if (SD_LIKELY(o->id == id && o->size)) return c->order;
  }
  return sd_book_find(b, id);
}

/* Takes `size` off an order, all of it where no more is left. */
static inline void take(sd_change *c, uint32_t order, uint32_t size) {
  sd_order *o = sd_book_at(c->book, order);
  if (SD_UNLIKELY(size > o->size)) c->row->clipped++;
  if (size < o->size) sd_book_reduce(c->book, order, size, c->rung);
  else sd_book_remove(c->book, order, c->rung);
}

static inline int side_of_tick(const sd_tick *t) { return t->side == 'B' ? SD_BID : SD_ASK; }

static int usable(const sd_tick *t) { return t->price != SD_UNDEF_PRICE && t->price != INT64_MIN && t->size != 0; }

static inline int add(sd_change *c, const sd_tick *t) {
  if (SD_UNLIKELY(!usable(t) || (t->side != 'A' && t->side != 'B'))) {
    c->row->unusable++;
    return 1;
  }
  int added = sd_book_add(c->book, c->pool, t->order_id, side_of_tick(t), t->price, t->size, c->rung);
  c->row->duplicates += added == SD_BOOK_DUPLICATE;
  return added;
}

static int change(sd_change *c, const sd_tick *t, uint32_t order) {
  if (!usable(t)) {
    c->row->unusable++;
    return 1;
  }
  if (t->ref_id == 0 || t->ref_id == t->order_id)
    return sd_book_change(c->book, c->pool, order, t->price, t->size, c->rung);
  int added = sd_book_replace(c->book, c->pool, order, t->ref_id, t->price, t->size, c->rung);
  c->row->duplicates += added == SD_BOOK_DUPLICATE;
  return added;
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
    const sd_order *o = sd_book_at(b, order);
    if (t->action == 'M') return change(c, t, order);
    if (t->action == 'F') trade(c->row, t, t->price == SD_UNDEF_PRICE ? o->price : t->price, t->size);
    take(c, order, t->action == 'C' && t->size == 0 ? o->size : t->size);
    return 1;
  case 'R':
    sd_book_clear(b);
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

static void show_best(const sd_book *b, int side, int64_t *price, uint64_t *size, uint32_t *orders) {
  const uint32_t n = b->n[side];
  const sd_level best = n ? sd_book_levels(b, side)[n - 1] : (sd_level){0, 0};
  *price = n ? sd_ladder_key(side, sd_book_keys(b, side)[n - 1]) : SD_UNDEF_PRICE;
  *size = best.size;
  *orders = (uint32_t)best.orders;
}

/* Brings the row up to date; there were so many levels. What the tick did not change is not even looked at. */
static inline void show(sd_book *b, sd_book_row *row, const sd_tick *t, const uint32_t levels[2]) {
  if (b->best) {
    if (b->best & 1u << SD_BID) show_best(b, SD_BID, &row->bid_price, &row->bid_size, &row->bid_orders);
    if (b->best & 1u << SD_ASK) show_best(b, SD_ASK, &row->ask_price, &row->ask_size, &row->ask_orders);
    b->best = 0;
  }
  if (levels[SD_BID] != b->n[SD_BID]) row->bid_levels = b->n[SD_BID];
  if (levels[SD_ASK] != b->n[SD_ASK]) row->ask_levels = b->n[SD_ASK];
  row->orders = b->live;
  row->ticks++;
  row->last_ts_recv = t->ts_recv;
  if (SD_UNLIKELY(row->bid_price >= row->ask_price) && b->n[SD_BID] && b->n[SD_ASK]) row->crossed++;
}

/* ---- ahead of the ticks
 *
 * A tick touches its book and row, then a bucket of orders, then keys of a ladder, then a level: each found through the one
 * before. So all ticks of a group take one step together before any takes the next, and wait for memory together. What was
 * found is a guess by the time a tick's turn comes: it is checked then.
 */

enum { GROUP = 32, AHEAD_LEAST = 3 };

typedef struct sd_group {
  sd_book *book[GROUP];
  int64_t key[GROUP];
  uint32_t order[GROUP], rung[GROUP];
  uint8_t side[GROUP];
  uint8_t sided[GROUP];  /* ticks of which it is known, those that add an order first */
  uint8_t others[GROUP]; /* ticks about an order that is there */
} sd_group;

/* Actions about an order that is there. */
static inline uint32_t is_other(char action) {
  const uint32_t set = 1u << ('C' - '@') | 1u << ('F' - '@') | 1u << ('M' - '@');
  return set >> (action & 31) & 1;
}

static inline void ask_for_bucket(const sd_book *b, uint64_t id) {
  uintptr_t bucket = (uintptr_t)b->buckets + sizeof(sd_bucket) * sd_book_home(b, sd_book_hash(id));
  sd_prefetch_write((const char *)bucket);
  sd_prefetch_write((const char *)(bucket + SD_LINE));
}

/* Those of the best eight levels. */
static inline void ask_for_keys(const sd_book *b, int side) {
  uintptr_t past = (uintptr_t)(sd_book_keys(b, side) + b->n[side]);
  sd_prefetch_write((const char *)(past - 1));
  sd_prefetch_write((const char *)(past - SD_LINE));
}

static inline sd_book_row *row_of(unsigned char *rows, const sd_tick *t, uint64_t stride) {
  return (sd_book_row *)(rows + t->instrument_id * stride);
}

static void look_ahead(const sd_books *books, unsigned char *rows, const sd_tick *ticks, uint32_t n, uint64_t stride,
                       sd_group *g) {
  uint32_t sided = 0, others = 0;
  for (uint32_t i = 0; i < n; i++) {
    const sd_tick *t = &ticks[i];
    sd_book *b = g->book[i] = &books->book[t->instrument_id];
    sd_prefetch_write(b);
    sd_prefetch_write(row_of(rows, t, stride));
    g->order[i] = SD_NO_ORDER;
    g->rung[i] = SD_NO_RUNG;
    g->side[i] = (uint8_t)side_of_tick(t);
    g->key[i] = sd_ladder_key(g->side[i], t->price);
    g->sided[sided] = g->others[others] = (uint8_t)i;
    sided += t->action == 'A';
    others += is_other(t->action);
  }
  for (uint32_t k = 0; k < others; k++) {
    uint32_t i = g->others[k];
    ask_for_bucket(g->book[i], ticks[i].order_id);
  }
  for (uint32_t k = 0; k < sided; k++) {
    uint32_t i = g->sided[k];
    ask_for_bucket(g->book[i], ticks[i].order_id);
    ask_for_keys(g->book[i], g->side[i]);
  }
  for (uint32_t k = 0; k < others; k++) {
    uint32_t i = g->others[k];
    const sd_book *b = g->book[i];
    const uint32_t order = g->order[i] = sd_book_find(b, ticks[i].order_id);
    if (SD_UNLIKELY(order == SD_NO_ORDER)) continue;
    const sd_order *o = sd_book_at(b, order);
    g->side[i] = (uint8_t)sd_order_side(o);
    g->key[i] = sd_ladder_key(g->side[i], o->price);
    g->sided[sided++] = (uint8_t)i;
    ask_for_keys(b, g->side[i]);
    if (ticks[i].action == 'M') ask_for_bucket(b, ticks[i].ref_id);
  }
  for (uint32_t k = 0; k < sided; k++) {
    uint32_t i = g->sided[k];
    const sd_book *b = g->book[i];
    const int side = g->side[i];
    const uint32_t rung = g->rung[i] = sd_book_rung(b, side, g->key[i]);
    const sd_level *levels = sd_book_levels(b, side);
    const sd_book_row *row = row_of(rows, &ticks[i], stride);
    sd_prefetch_write((const char *)((uintptr_t)levels + rung * sizeof(sd_level)));
    /* The row's second line changes with trades, and where a level comes: ask for what is there already if not. */
    uint32_t counts = (ticks[i].action == 'F') | (rung == b->n[side]);
    sd_prefetch_write((const char *)row + SD_LINE * counts);
  }
}

/* The same where there are too few ticks for it to pay. */
static void look_here(const sd_books *books, const sd_tick *ticks, uint32_t n, sd_group *g) {
  for (uint32_t i = 0; i < n; i++) {
    g->book[i] = &books->book[ticks[i].instrument_id];
    g->order[i] = SD_NO_ORDER;
    g->rung[i] = SD_NO_RUNG;
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
      if (SD_UNLIKELY(row->ticks == 0)) row->bid_price = row->ask_price = SD_UNDEF_PRICE;
      const uint32_t levels[2] = {b->n[0], b->n[1]};
      sd_change c = {b, &books->pool, row, g.order[i], g.rung[i]};
      if (SD_UNLIKELY(!apply(&c, t, params->fills_report)))
        return fail(ctx, NO_MEMORY, "no memory for one more order beside %u", b->live, from + i);
      show(b, row, t, levels);
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
  const int which = side_of(side);
  const uint32_t there = b->n[which];
  uint64_t got = n < there ? n : there;
  for (uint64_t i = 0; i < got; i++) {
    const sd_level *l = &sd_book_levels(b, which)[there - 1 - i];
    levels[i] = (sd_book_level){sd_ladder_key(which, sd_book_keys(b, which)[there - 1 - i]), l->size, l->orders};
  }
  return got;
}

static sd_book_order describe(const sd_order *o) {
  return (sd_book_order){o->id, o->price, o->size, 0, 0, sd_order_side(o) == SD_BID ? 'B' : 'A'};
}

/* The next order from *slot on, which is then the one to go on from; NULL: there are no more. */
static const sd_order *next_order(const sd_book *b, uint32_t *slot) {
  while (*slot >> 3 < b->n_buckets) {
    const uint32_t at = *slot, place = at & 7;
    *slot = place == SD_BUCKET_ORDERS - 1 ? ((at >> 3) + 1) << 3 : at + 1;
    if (sd_book_at(b, at)->size) return sd_book_at(b, at);
  }
  return NULL;
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
  const sd_order *o;
  for (uint32_t slot = 0; (o = next_order(b, &slot));) {
    if (sd_order_side(o) != side_of(side)) continue;
    if (got < n) {
      orders[got] = describe(o);
      orders[got].ahead_orders = o->stamp;
    }
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
  const sd_order *mine = sd_book_at(b, found), *o;
  *order = describe(mine);
  for (uint32_t slot = 0; (o = next_order(b, &slot));) {
    if (o->price != mine->price || o->stamp >= mine->stamp || sd_order_side(o) != sd_order_side(mine)) continue;
    order->ahead_orders++;
    order->ahead_size += o->size;
  }
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
