#include "measures/tape.h"

#include <string.h>

#include "base/atomic.h"
#include "books/book_ahead.h"

typedef struct sd_tape_row {
  _Alignas(SD_LINE) sd_book_row book;
  /* Databento's: whether a top has been emitted; and the publisher whose book the event under way cleared, plus 1 */
  uint32_t emitted, cleared;
} sd_tape_row;

struct sd_tape {
  sd_relative books;  /* sd_books */
  sd_tape_row rows[]; /* by symbol */
};

static sd_books *books_of(const sd_tape *tape) { return sd_relative_get(&tape->books); }

sd_tape *sd_tape_create(sd_space *space, uint64_t n, const sd_trade_rules *rules) {
  if (n == 0 || n > SIZE_MAX / sizeof(sd_tape_row) - 1) return NULL;
  sd_books *books = sd_books_create(space, n, 0, rules->fills_report, 0);
  sd_tape *tape = books ? sd_space_get(space, sizeof *tape + n * sizeof *tape->rows, _Alignof(sd_tape)) : NULL;
  if (!tape) return NULL;
  sd_relative_set(&tape->books, books);
  return tape;
}

int sd_tape_adopt(sd_tape *tape, struct sd_space *space) { return sd_books_adopt(books_of(tape), space); }

void sd_tape_open(sd_tape_reader *r, const sd_source *source, const sd_tick *ticks, int64_t n, const sd_context *ctx) {
  sd_tape *tape = source->tape;
  r->params = (sd_book_params){.books = books_of(tape), .space = source->space, .rules = source->rules};
  r->rows = tape->rows;
  r->pool = sd_pools_of(&r->params.books->pools, source->space, ctx->participant);
  r->stages.books = r->params.books;
  r->stages.rows = (unsigned char *)tape->rows;
  r->stages.ticks = ticks;
  r->stages.stride = sizeof *tape->rows;
  r->stages.end = (uint64_t)n;
  sd_stages_begin(&r->stages);
}

static sd_top top_of(const sd_book_row *row) {
  return (sd_top){row->bid_price, row->ask_price, row->bid_size, row->ask_size};
}

/* Says which sides have changed from a top. What takes the place of a cleared book has both. A tick that changes neither is no quote, be
 * it a symbol's first one. */
static inline void set_changed(sd_event *e, sd_top was) {
  const int renewed = e->clear && sd_top_any(&e->top);
  if (e->clear) was = SD_NO_TOP;
  e->bid = renewed || e->top.bid != was.bid || e->top.bid_size != was.bid_size;
  e->ask = renewed || e->top.ask != was.ask || e->top.ask_size != was.ask_size;
}

/* Databento's: at the end of a tick's event, reports what the event left. A cleared book is reported together with what took its place. */
static void emit_event(sd_tape_row *row, const sd_tick *t, uint8_t last, const sd_top *before, sd_event *e) {
  const uint32_t publisher = t->publisher_id + UINT32_C(1);
  if (e->clear == SD_CLEAR_DAY) {
    row->cleared = 0;
    return;
  }
  if (e->clear) row->cleared = publisher;
  e->clear = SD_CLEAR_NONE;
  if (!sd_ends_event(t, last)) return;
  if (row->cleared == publisher) {
    row->cleared = 0;
    e->clear = SD_CLEAR_BOOK;
  }
  e->top = top_of(&row->book);
  set_changed(e, row->emitted ? *before : SD_NO_TOP);
  row->emitted = 1;
}

int sd_tape_read(sd_tape_reader *r, int64_t i, sd_context *ctx, sd_event *e, sd_met *met) {
  const sd_tick *t = &r->stages.ticks[i];
  const sd_guess guess = sd_stages_next(&r->stages, (uint64_t)i);
  sd_books *books = r->params.books;
  if (SD_UNLIKELY(!sd_has_book(books, t))) return sd_book_step(&r->params, &r->pool, NULL, t, guess, ctx);
  sd_tape_row *its = &r->rows[t->instrument_id];
  sd_book_row *row = &its->book;
  const int by_event = r->params.rules.fills_report;
  /* All zero before the first tick: no top. */
  met->top = row->ticks == 0 ? SD_NO_TOP : top_of(row);
  met->order = (sd_resting){SD_UNDEF_PRICE, 'N'};
  if (t->action == 'F' && !by_event) met->order = sd_books_resting(books, t->instrument_id, t->order_id);
  if (sd_book_step(&r->params, &r->pool, row, t, guess, ctx)) return -1;
  e->bid = e->ask = 0;
  e->clear = sd_clear_of(t);
  e->time = sd_moment_of(t, &r->params.rules);
  if (SD_UNLIKELY(by_event)) {
    if (sd_books_of_publishers(books)[t->instrument_id].renewed) e->clear = SD_CLEAR_BOOK;
    emit_event(its, t, r->params.rules.flags.last, &met->top, e);
    return 0;
  }
  if (e->clear) return 0; /* no order was cancelled to empty this top */
  e->top = top_of(row);
  set_changed(e, met->top);
  return 0;
}

/* ---- quotes of ticks */

enum { BID = 1, ASK = 2, BOTH = 3, NO_MAX = 1 << 24 };

typedef struct sd_level_row {
  sd_depth_row row;
  int64_t top[4];
} sd_level_row;

/* What a symbol's quotes have come to. All zero: nothing has come. */
typedef struct sd_level_state {
  sd_top top;       /* that views gave, up to the latest event's end, where `sides` has its side */
  sd_top seen;      /* that views gave since, where `changed` has its side */
  uint8_t sides;    /* BID and ASK bits */
  uint8_t changed;  /* likewise */
  uint8_t has_book; /* the symbol's quotes come from its book of levels */
  uint8_t cleared;  /* the event under way replaces the book */
  uint32_t unended; /* events of views that a new day ended */
} sd_level_state;

struct sd_levels {
  sd_relative depths; /* sd_depths */
  sd_relative rows;   /* sd_level_row by symbol */
  sd_level_state state[];
};

sd_levels *sd_levels_create(sd_space *space, uint64_t n) {
  if (n == 0 || n > SIZE_MAX / (sizeof(sd_level_row) + sizeof(sd_level_state)) - 1) return NULL;
  sd_depths *depths = sd_depths_create(space, n);
  sd_level_row *rows = depths ? sd_space_get(space, n * sizeof *rows, _Alignof(sd_level_row)) : NULL;
  sd_levels *levels =
      rows ? sd_space_get(space, sizeof *levels + n * sizeof *levels->state, _Alignof(sd_levels)) : NULL;
  if (!levels) return NULL;
  sd_relative_set(&levels->depths, depths);
  sd_relative_set(&levels->rows, rows);
  return levels;
}

void sd_levels_unended(const sd_levels *levels, uint64_t n, int with_open, int64_t *counts) {
  const sd_level_row *rows = sd_relative_get(&levels->rows);
  for (uint64_t i = 0; i < n; i++) {
    const sd_level_state *s = &levels->state[i];
    const int open = s->has_book ? sd_depths_wait(sd_relative_get(&levels->depths), i) : s->changed || s->cleared;
    counts[i] += s->unended + rows[i].row.unended + (with_open && open);
  }
}

static sd_depth_row *row_of_levels(const sd_levels *levels, const sd_tick *t) {
  return &((sd_level_row *)sd_relative_get(&levels->rows))[t->instrument_id].row;
}

/* Applies a tick to its symbol's book. Nonzero: the book failed, and *ctx says why. */
static int apply_levels(const sd_source *source, const sd_tick *t, sd_context *ctx) {
  sd_levels *levels = source->levels;
  const sd_depth_params params = {.depths = sd_relative_get(&levels->depths),
                                  .space = source->space,
                                  .top = 1,
                                  .max_levels = NO_MAX,
                                  .rules = source->rules};
  sd_context inner;
  inner.params = &params;
  inner.row_stride = sizeof(sd_level_row);
  inner.participant = ctx->participant;
  if (sd_handle_depth(sd_relative_get(&levels->rows), t, 1, &inner) == 1) return 0;
  ctx->error_code = inner.error_code;
  memcpy(ctx->message, inner.message, sizeof ctx->message);
  return -1;
}

static void take_sides(sd_top *to, const sd_top *from, uint8_t sides) {
  if (sides & BID) {
    to->bid = from->bid;
    to->bid_size = from->bid_size;
  }
  if (sides & ASK) {
    to->ask = from->ask;
    to->ask_size = from->ask_size;
  }
}

/* Gives the book of a symbol, whose first change of a level comes with *t, what views have given so far. */
static int begin_book(const sd_source *source, sd_level_state *s, const sd_tick *t, sd_context *ctx) {
  const uint8_t sides[2] = {s->sides, s->changed};
  const sd_top *tops[2] = {&s->top, &s->seen};
  s->has_book = 1;
  for (int i = 0; i < 2; i++) {
    sd_tick view = {.ts_event = t->ts_event,
                    .ts_recv = t->ts_recv,
                    .instrument_id = t->instrument_id,
                    .kind = SD_KIND_QUOTE,
                    .action = 'N',
                    .flags = i == 0 ? source->rules.flags.last : 0};
    for (uint8_t side = BID; side <= ASK; side++) {
      if (!(sides[i] & side)) continue;
      view.side = side == BID ? 'B' : 'A';
      view.price = side == BID ? tops[i]->bid : tops[i]->ask;
      view.size = side == BID ? tops[i]->bid_size : tops[i]->ask_size;
      if (view.price == SD_UNDEF_PRICE) continue;
      if (apply_levels(source, &view, ctx)) return -1;
    }
  }
  s->changed = 0;
  return 0;
}

/* The event of a tick of a symbol that has a book of levels. */
static int level_event(const sd_source *source, sd_level_state *s, const sd_tick *t, sd_context *ctx, sd_event *e) {
  const sd_depth_row *row = row_of_levels(source->levels, t);
  const sd_flags *flags = &source->rules.flags;
  const int ends = t->kind != SD_KIND_STATUS && (!flags->last || t->flags & flags->last);
  if (apply_levels(source, t, ctx)) return -1;
  if (e->clear == SD_CLEAR_DAY) {
    s->cleared = s->sides = 0;
    return 0;
  }
  s->cleared |= e->clear == SD_CLEAR_BOOK || (t->kind == SD_KIND_QUOTE && t->flags & flags->snapshot);
  e->clear = SD_CLEAR_NONE;
  if (!ends) return 0;
  if (s->cleared) e->clear = SD_CLEAR_BOOK; /* reported with what took its place: no order was cancelled for it */
  e->top = (sd_top){row->bid_price, row->ask_price, row->bid_size, row->ask_size};
  sd_top was = SD_NO_TOP;
  take_sides(&was, &s->top, s->sides);
  set_changed(e, was);
  s->top = e->top;
  s->sides = BOTH;
  s->cleared = 0;
  return 0;
}

int sd_levels_event(const sd_source *source, const sd_tick *t, sd_context *ctx, sd_event *e) {
  sd_level_state *s = &source->levels->state[t->instrument_id];
  const sd_flags *flags = &source->rules.flags;
  if (s->has_book) return level_event(source, s, t, ctx, e);
  if (t->kind == SD_KIND_QUOTE && !e->clear) {
    if (t->side != 'N' && sd_is_level(t, flags))
      return begin_book(source, s, t, ctx) || level_event(source, s, t, ctx, e) ? -1 : 0;
    sd_quote_of(t, flags, e);
    const uint8_t sides = (uint8_t)((e->bid ? BID : 0) | (e->ask ? ASK : 0));
    take_sides(&s->seen, &e->top, sides);
    s->changed |= sides;
  } else if (e->clear == SD_CLEAR_DAY) {
    s->unended += s->changed || s->cleared;
    s->sides = s->changed = s->cleared = 0;
    return 0;
  } else if (e->clear) {
    s->cleared = 1;
    s->changed = t->kind == SD_KIND_QUOTE ? BOTH : 0;
    s->top = s->seen = SD_NO_TOP;
    s->sides = BOTH;
    if (t->kind == SD_KIND_QUOTE) {
      sd_quote_of(t, flags, e);
      s->seen = e->top;
    }
  }
  e->bid = e->ask = 0;
  e->clear = SD_CLEAR_NONE;
  if (t->kind == SD_KIND_STATUS || (flags->last && !(t->flags & flags->last))) return 0;
  take_sides(&s->top, &s->seen, s->changed);
  s->sides |= s->changed;
  e->bid = (s->changed & BID) != 0;
  e->ask = (s->changed & ASK) != 0;
  e->top = s->seen;
  if (s->cleared) e->clear = SD_CLEAR_BOOK;
  s->changed = s->cleared = 0;
  return 0;
}
