#include "books/depth.h"

#include <stdio.h>
#include <string.h>

#include "base/atomic.h"
#include "books/depth_layout.h"

static sd_depth *books_of(const sd_depths *depths) { return sd_relative_get(&depths->book); }

sd_depths *sd_depths_create(sd_space *space, uint64_t n) {
  if (n == 0 || n > SIZE_MAX / sizeof(sd_depth)) return NULL;
  sd_depths *depths = sd_space_get(space, sizeof *depths, _Alignof(sd_depths));
  if (!depths) return NULL;
  depths->n = n;
  sd_pool pool = sd_pools_of(&depths->pools, space, 0);
  sd_depth *books = sd_pool_take_zeros(&pool, n * sizeof *books);
  if (!books) return NULL;
  sd_relative_set(&depths->book, books);
  return depths;
}

/* ---- one tick */

enum { NO_MEMORY = 1, NO_BOOK = 2, NO_VOLUME = 3, FIRST_WAITING = 64 };

static const char NO_LEVEL[] = "no memory for one more level beside %u";

/* What a tick is applied to, and per side the level from which the row has to be written again; the best one is 0. */
typedef struct sd_depth_change {
  sd_depth *book;
  sd_depth_row *row;
  sd_pool *pool;
  uint32_t max_levels;
  sd_flags flags;
  uint32_t from[2];
  int ended; /* an event of levels */
} sd_depth_change;

static sd_depth_change change_of(const sd_depth_params *params, sd_pool *pool, uint32_t key, sd_depth_row *row) {
  return (sd_depth_change){.book = &books_of(params->depths)[key],
                           .row = row,
                           .pool = pool,
                           .max_levels = params->max_levels,
                           .flags = params->rules.flags,
                           .from = {UINT32_MAX, UINT32_MAX}};
}

static void touch(sd_depth_change *c, int side, uint32_t level) {
  if (level < c->from[side]) c->from[side] = level;
}

static void clear(sd_depth_change *c, int side) {
  sd_depth_side *s = &c->book->side[side];
  if (s->n) touch(c, side, 0);
  s->n = 0;
  sd_deep_clear(&s->deep);
}

/* Adds a new level, if the book may have one more. Zero: no memory. */
static int put(sd_depth_change *c, sd_depth_side *s, int side, uint64_t key, int64_t size) {
  if (!sd_depth_reserve(s, c->pool, c->max_levels)) return 0;
  const uint32_t at = sd_depth_place(s, key);
  if (at == 0 && s->deep.levels) {
    sd_deep_place place;
    sd_deep_find(&s->deep, key, &place);
    sd_deep_insert(&s->deep, &place, key, size);
    touch(c, side, s->n);
    return 1;
  }
  sd_depth_put(s, at, key, size);
  touch(c, side, s->n - 1 - at);
  return 1;
}

/* Changes a level that lies in the chunks, or belongs there: no row shows it. Zero: no memory. */
static int set_deep(sd_depth_change *c, sd_depth_side *s, int side, uint64_t key, int64_t size) {
  touch(c, side, s->n);
  sd_deep_place place;
  const int there = sd_deep_find(&s->deep, key, &place);
  if (!size && !there) {
    c->row->absent++;
  } else if (!size) {
    sd_deep_remove(&s->deep, &place);
  } else if (there) {
    *sd_deep_value(&place) = size;
  } else {
    if (sd_depth_side_levels(s) == c->max_levels) {
      c->row->beyond++;
      if (key < sd_deep_worst(&s->deep)) return 1;
      sd_depth_drop_worst(s);
    }
    return put(c, s, side, key, size);
  }
  return 1;
}

/* Zero: no memory. */
static int set(sd_depth_change *c, int side, int64_t price, int64_t size) {
  sd_depth_side *s = &c->book->side[side];
  uint64_t key = sd_ladder_key(side, price);
  uint32_t at = sd_depth_place(s, key);
  int there = at < s->n && sd_depth_keys(s)[at] == key;
  if (!there && at == 0 && s->deep.levels) return set_deep(c, s, side, key, size);
  if (size == 0) {
    if (!there) {
      c->row->absent++;
      return 1;
    }
    touch(c, side, s->n - 1 - at);
    sd_depth_take(s, at);
    sd_depth_refill(s);
    return 1;
  }
  if (there) {
    sd_depth_sizes(s)[at] = size;
    touch(c, side, s->n - 1 - at);
    return 1;
  }
  if (sd_depth_side_levels(s) == c->max_levels) {
    c->row->beyond++;
    if (at == 0) return 1;
    sd_depth_drop_worst(s);
  }
  return put(c, s, side, key, size);
}

/* Removes what is better than a price, and what is at it too if `inclusive`. */
static void clear_to(sd_depth_change *c, int side, int64_t price, int inclusive) {
  sd_depth_side *s = &c->book->side[side];
  const uint64_t key = sd_ladder_key(side, price), last = key - (uint64_t)inclusive;
  const uint32_t at = sd_depth_place(s, key),
                 kept = at + (uint32_t)(!inclusive && at < s->n && sd_depth_keys(s)[at] == key);
  if (kept == s->n) return;
  s->n = kept;
  if (!kept) sd_deep_cut(&s->deep, last);
  sd_depth_refill(s);
  touch(c, side, 0);
}

static int is_price(int64_t price) { return price != SD_UNDEF_PRICE && price != INT64_MIN; }

static int view(sd_depth_change *c, const sd_tick *t) {
  const int64_t bid = sd_bid_price(t), ask = sd_ask_price(t), bid_size = sd_bid_size(t), ask_size = sd_ask_size(t);
  if (t->depth == 0) {
    clear(c, SD_BID);
    clear(c, SD_ASK);
    c->row->snapshots++;
  }
  if (bid_size < 0 || ask_size < 0) {
    c->row->unusable++;
    return 1;
  }
  if (is_price(bid) && bid_size && !set(c, SD_BID, bid, bid_size)) return 0;
  return !is_price(ask) || !ask_size || set(c, SD_ASK, ask, ask_size);
}

/* Zero: no memory. */
static int quote(sd_depth_change *c, const sd_tick *t) {
  if (t->side == 'N') return view(c, t);
  if (t->side != 'A' && t->side != 'B') {
    c->row->unusable++;
    return 1;
  }
  int side = t->side == 'B' ? SD_BID : SD_ASK, update = t->action == 'M' || t->action == 'A' || t->action == 'C';
  const uint8_t in_snapshot = t->flags & c->flags.snapshot;
  if (in_snapshot && !c->book->in_snapshot) {
    clear(c, SD_BID);
    clear(c, SD_ASK);
    c->row->snapshots++;
  }
  if (in_snapshot || !c->flags.last) c->book->in_snapshot = in_snapshot;
  if (t->action == 'R') {
    if (is_price(t->price)) clear_to(c, side, t->price, 1);
    else clear(c, side);
    return 1;
  }
  if (!is_price(t->price) || t->size < 0) {
    c->row->unusable++;
    return 1;
  }
  const int64_t size = t->action == 'C' ? 0 : t->size;
  if (!update) {
    clear(c, side);
    c->row->snapshots++;
    return !size || set(c, side, t->price, size);
  }
  if (t->action == 'M' && t->flags & c->flags.best) clear_to(c, side, t->price, 0);
  return set(c, side, t->price, size);
}

/* Zero: the sum does not fit into a volume. */
static int trade(sd_depth_row *row, const sd_tick *t) {
  int64_t volume;
  if (!is_price(t->price)) {
    row->unpriced++;
    return 1;
  }
  if (__builtin_add_overflow(row->volume, t->size, &volume)) return 0;
  row->volume = volume;
  row->trades++;
  row->last_price = t->price;
  return 1;
}

/* ---- events */

static sd_tick *waiting_of(const sd_depth *book) { return sd_relative_get(&book->waiting); }

/* Keeps a tick until its event ends. Zero: no memory. */
static int wait_for_end(sd_depth_change *c, const sd_tick *t) {
  sd_depth *book = c->book;
  if (book->n_waiting == book->capacity) {
    const uint32_t capacity = book->capacity ? 2 * book->capacity : FIRST_WAITING;
    sd_tick *more = sd_pool_take(c->pool, capacity * sizeof *more);
    if (!more) return 0;
    sd_tick *old = sd_relative_or_null(&book->waiting);
    if (old) memcpy(more, old, book->n_waiting * sizeof *more);
    sd_pool_give(c->pool, old, book->capacity * sizeof *old);
    sd_relative_set(&book->waiting, more);
    book->capacity = capacity;
  }
  waiting_of(book)[book->n_waiting++] = *t;
  return 1;
}

/* Applies the ticks that wait. Zero: no memory. */
static int end_event(sd_depth_change *c) {
  sd_depth *book = c->book;
  const uint32_t n = book->n_waiting;
  book->n_waiting = 0;
  for (uint32_t i = 0; i < n; i++)
    if (!quote(c, &waiting_of(book)[i])) return 0;
  book->in_snapshot = 0;
  return 1;
}

/* Ends an event whose end never came. Zero: no memory. */
static int cut_event(sd_depth_change *c) {
  if (!c->book->n_waiting) return 1;
  c->row->unended++;
  return end_event(c);
}

/* Applies a tick of levels, or keeps it. Zero: no memory. */
static int take_levels(sd_depth_change *c, const sd_tick *t) {
  if (SD_LIKELY(!c->flags.last)) {
    c->ended = 1;
    return quote(c, t);
  }
  const int ends = t->flags & c->flags.last;
  if (ends && !c->book->n_waiting) {
    c->ended = 1;
    const int done = quote(c, t);
    c->book->in_snapshot = 0;
    return done;
  }
  if (!wait_for_end(c, t)) return 0;
  c->ended = ends != 0;
  if (ends) return end_event(c);
  return c->book->n_waiting < SD_DEPTH_WAITING || cut_event(c);
}

/* Zero: no error; otherwise the reason. */
static int apply(sd_depth_change *c, const sd_tick *t, const sd_trade_rules *rules) {
  if (t->kind == SD_KIND_QUOTE) return take_levels(c, t) ? 0 : NO_MEMORY;
  if (sd_is_day(t)) {
    if (!cut_event(c)) return NO_MEMORY;
    clear(c, SD_BID);
    clear(c, SD_ASK);
    c->book->in_snapshot = 0;
    return 0;
  }
  if (SD_UNLIKELY(c->book->n_waiting && t->flags & c->flags.last && t->kind != SD_KIND_STATUS)) {
    if (!end_event(c)) return NO_MEMORY;
    c->ended = 1;
  }
  if (sd_is_trade(t, rules)) return trade(c->row, t) ? 0 : NO_VOLUME;
  c->row->passed_over++;
  return 0;
}

/* Nonzero: the row's levels have changed. */
static int show_side(const sd_depth_change *c, int side, uint32_t top) {
  const sd_depth_side *s = &c->book->side[side];
  const uint64_t *keys = sd_depth_keys(s);
  const int64_t *sizes = sd_depth_sizes(s);
  sd_depth_row *row = c->row;
  int64_t *prices = row->top + (side == SD_BID ? 0 : 2 * top), *amounts = prices + top;
  const uint32_t n = s->n;
  int64_t changed = 0;
  for (uint32_t i = c->from[side]; i < top; i++) {
    const int64_t price = i < n ? sd_ladder_price(side, keys[n - 1 - i]) : SD_UNDEF_PRICE;
    const int64_t amount = i < n ? sizes[n - 1 - i] : 0;
    changed |= (prices[i] ^ price) | (amounts[i] ^ amount);
    prices[i] = price;
    amounts[i] = amount;
  }
  int64_t best = n ? sd_ladder_price(side, keys[n - 1]) : SD_UNDEF_PRICE;
  const int64_t size = n ? sizes[n - 1] : 0;
  if (side == SD_BID) {
    row->bid_price = best;
    row->bid_size = size;
    row->bid_levels = (int32_t)sd_depth_side_levels(s);
  } else {
    row->ask_price = best;
    row->ask_size = size;
    row->ask_levels = (int32_t)sd_depth_side_levels(s);
  }
  return changed != 0;
}

/* Nonzero: the row's levels have changed. */
static int show(const sd_depth_change *c, uint32_t top) {
  int changed = 0;
  for (int side = 0; side < 2; side++)
    if (c->from[side] != UINT32_MAX) changed |= show_side(c, side, top);
  return changed;
}

/* Emits the levels of a row for tick i of the call; i = -1: for the end of the run. Nonzero: no memory for the record. */
static SD_NOINLINE int emit(sd_context *ctx, int64_t i, const sd_depth_row *row, int64_t ts_event, uint32_t top) {
  int64_t *record = sd_emit_reserve(ctx, 0, i);
  if (!record) return -1;
  record[0] = ts_event;
  memcpy(record + 1, row->top, 4 * (size_t)top * sizeof *record);
  return 0;
}

static void count(const sd_depth_change *c, const sd_tick *t) {
  sd_depth_row *row = c->row;
  row->ticks++;
  row->last_ts_recv = t->ts_recv;
  row->crossed += c->ended && c->book->side[0].n && c->book->side[1].n && row->bid_price >= row->ask_price;
}

/* ---- a batch */

static int64_t fail(sd_context *ctx, int32_t code, const char *what, uint32_t number, int64_t at) {
  ctx->error_code = code;
  snprintf(ctx->message, sizeof ctx->message, what, number);
  return at;
}

/* So many ticks before its turn a tick's book and row are asked for, and then the best levels of its side. */
enum { BOOK_AHEAD = 8, SIDE_AHEAD = 4 };

static inline sd_depth_row *row_of(void *rows, const sd_tick *t, const sd_context *ctx) {
  return (sd_depth_row *)((unsigned char *)rows + t->instrument_id * ctx->row_stride);
}

static inline void ask_for_book(const sd_depths *depths, void *rows, const sd_tick *t, const sd_context *ctx) {
  if (SD_UNLIKELY(t->instrument_id >= depths->n)) return;
  const char *book = (const char *)&books_of(depths)[t->instrument_id];
  for (size_t at = 0; at < sizeof(sd_depth); at += SD_LINE) sd_prefetch_write(book + at);
  const char *row = (const char *)row_of(rows, t, ctx);
  for (size_t at = 0; at < sizeof(sd_depth_row); at += SD_LINE) sd_prefetch_write(row + at);
}

static inline void ask_for_side(const sd_depths *depths, const sd_tick *t) {
  if (SD_UNLIKELY(t->instrument_id >= depths->n)) return;
  const sd_depth_side *s = &books_of(depths)[t->instrument_id].side[t->side == 'B' ? SD_BID : SD_ASK];
  if (!s->n) return;
  sd_prefetch_write((const char *)&sd_depth_keys(s)[s->n - 1]);
  sd_prefetch_write((const char *)&sd_depth_sizes(s)[s->n - 1]);
}

void sd_ahead_depth(void *rows, const sd_tick *ticks, int64_t n, const sd_context *ctx) {
  const sd_depths *depths = ((const sd_depth_params *)ctx->params)->depths;
  for (int64_t i = 0; i < n; i++) ask_for_book(depths, rows, &ticks[i], ctx);
  for (int64_t i = 0; i < n; i++) ask_for_side(depths, &ticks[i]);
}

int64_t sd_handle_depth(void *rows, const sd_tick *ticks, int64_t n, sd_context *ctx) {
  const sd_depth_params *params = ctx->params;
  sd_depths *depths = params->depths;
  sd_pool pool = sd_pools_of(&depths->pools, params->space, ctx->participant);
  if (n > 1) sd_ahead_depth(rows, ticks, n < BOOK_AHEAD ? n : BOOK_AHEAD, ctx);
  for (int64_t i = 0; i < n; i++) {
    const sd_tick *t = &ticks[i];
    if (i + BOOK_AHEAD < n) ask_for_book(depths, rows, t + BOOK_AHEAD, ctx);
    if (i + SIDE_AHEAD < n) ask_for_side(depths, t + SIDE_AHEAD);
    if (SD_UNLIKELY(t->instrument_id >= depths->n))
      return fail(ctx, NO_BOOK, "no book was made for symbol %u", t->instrument_id, i);
    sd_depth_row *row = row_of(rows, t, ctx);
    sd_depth_change c = change_of(params, &pool, t->instrument_id, row);
    if (SD_UNLIKELY(row->ticks == 0)) {
      for (uint32_t at = 0; at < params->top; at++) row->top[at] = row->top[2 * params->top + at] = SD_UNDEF_PRICE;
      c.from[0] = c.from[1] = 0;
    }
    const int fault = apply(&c, t, &params->rules);
    if (SD_UNLIKELY(fault == NO_VOLUME))
      return fail(ctx, fault, "symbol %u: its volume is beyond 2**63 - 1: read its sizes in a coarser unit",
                  t->instrument_id, i);
    if (SD_UNLIKELY(fault)) return fail(ctx, fault, NO_LEVEL, (uint32_t)(row->bid_levels + row->ask_levels), i);
    const int changed = show(&c, params->top);
    count(&c, t);
    if (changed && params->emits && emit(ctx, i, row, t->ts_event, params->top)) return i;
  }
  return n;
}

int sd_finish_depth(void *rows, uint32_t key, sd_context *ctx) {
  const sd_depth_params *params = ctx->params;
  if (SD_UNLIKELY(key >= params->depths->n)) return 0;
  sd_pool pool = sd_pools_of(&params->depths->pools, params->space, ctx->participant);
  sd_depth_row *row = (sd_depth_row *)((unsigned char *)rows + key * ctx->row_stride);
  sd_depth_change c = change_of(params, &pool, key, row);
  const uint32_t waiting = c.book->n_waiting;
  if (!waiting) return 0;
  const int64_t ts_event = waiting_of(c.book)[waiting - 1].ts_event;
  if (!cut_event(&c)) return (int)fail(ctx, NO_MEMORY, NO_LEVEL, (uint32_t)(row->bid_levels + row->ask_levels), -1);
  if (!show(&c, params->top) || !params->emits) return 0;
  return emit(ctx, -1, row, ts_event, params->top);
}

/* ---- questions */

uint64_t sd_depths_levels(const sd_depths *depths, uint64_t symbol, int side, sd_depth_level *levels, uint64_t n) {
  if (symbol >= depths->n) return 0;
  int which = side == 'B' ? SD_BID : SD_ASK;
  const sd_depth_side *s = &books_of(depths)[symbol].side[which];
  uint64_t got = 0;
  for (; got < n && got < s->n; got++) {
    const uint64_t at = s->n - 1 - got;
    levels[got] = (sd_depth_level){sd_ladder_price(which, sd_depth_keys(s)[at]), sd_depth_sizes(s)[at]};
  }
  sd_deep_cursor cursor = {0};
  uint64_t key;
  for (int64_t size; got < n && sd_deep_next(&s->deep, &cursor, &key, &size); got++)
    levels[got] = (sd_depth_level){sd_ladder_price(which, key), size};
  return got;
}

int sd_depths_wait(const sd_depths *depths, uint64_t symbol) { return books_of(depths)[symbol].n_waiting != 0; }

uint64_t sd_depths_bytes(const sd_depths *depths) {
  uint64_t bytes = sizeof *depths + depths->n * sizeof(sd_depth);
  for (uint64_t i = 0; i < depths->n; i++)
    for (int side = 0; side < 2; side++) bytes += sd_depth_side_bytes(&books_of(depths)[i].side[side]);
  for (uint64_t i = 0; i < depths->n; i++) bytes += books_of(depths)[i].capacity * sizeof(sd_tick);
  return bytes;
}
