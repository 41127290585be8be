/* What ticks say of a market: trades (books/trade.h), and the best bid and ask. Shared by the handlers that measure either.
 *
 * A quote is a tick of kind QUOTE at depth 0: of one side, whose best price it is, or of side N with both (docs/design.md, 7). A change
 * of one price level is none, because the best price depends on all other levels: for these a handler keeps books of levels (sd_levels).
 * In a feed that says where events end (flag `last`), a quote is what an event left, at its last tick.
 *
 * Feeds of single orders give fills without a price, and no quotes. For these a handler keeps its own books (sd_tape). Each tick meets
 * the book as it was before, which knows the order that a fill is of; and changes of the book's top are quotes. In Databento's feeds a
 * quote is what an event left, at its last tick (books/publishers.h). */
#pragma once

#include "base/atomic.h"
#include "books/book.h"
#include "books/book_ahead.h"
#include "books/depth.h"
#include "books/trade.h"
#include "sd_handler.h"

#define SD_NO_TOP ((sd_top){SD_UNDEF_PRICE, SD_UNDEF_PRICE, 0, 0})

/* What a tick clears: nothing; the symbol's book, and so its top; or all that a new day resets. */
enum { SD_CLEAR_NONE = 0, SD_CLEAR_BOOK = 1, SD_CLEAR_DAY = 2 };

/* cffi: begin */
typedef struct sd_tape sd_tape;
typedef struct sd_tape_reader sd_tape_reader;
typedef struct sd_levels sd_levels;

/* What a unit of a symbol's sizes is worth, for contracts. All zero: price x size, as for shares. It changes before the symbol's first
 * tick is published, and never after that. */
typedef struct sd_contract {
  double worth;     /* units of currency: of one point of price, or of a contract that is `inverse` */
  uint32_t inverse; /* a contract is a fixed amount of currency, and its value in coins is that amount / price */
  uint32_t used;    /* the publisher's: the symbol has had a tick, and another contract comes too late */
  uint64_t
      minimum_low; /* of bars of notional: the least sum of price x size, or of sizes if `inverse`, that closes one */
  int64_t minimum_high;
} sd_contract;

/* First in the params of every handler that reads a market. */
typedef struct sd_source {
  sd_tape *tape;          /* books from which trades and quotes are taken; NULL: the ticks carry them */
  struct sd_space *space; /* in which they lie */
  sd_levels *levels; /* what quotes of levels and of events need; NULL: the handler takes no quotes, or has a tape */
  sd_contract *contracts; /* by symbol; NULL: there are none */
  sd_trade_rules rules;
} sd_source;
/* cffi: end */

/* What one tick means. */
typedef struct sd_event {
  uint64_t clear; /* SD_CLEAR_*; applies before the quote. The trade met the top of before */
  int64_t time;   /* sd_moment_of */
  sd_trade trade;
  uint8_t bid, ask;
  sd_top top; /* valid if `bid` and `ask` say so */
} sd_event;

/* cffi: begin */
/* Books of symbols 0 .. n - 1, in a space. NULL: no memory, or n is 0. */
sd_tape *sd_tape_create(struct sd_space *space, uint64_t n, const sd_trade_rules *rules);
/* As sd_books_adopt. */
int sd_tape_adopt(sd_tape *tape, struct sd_space *space);
/* cffi: end */

/* What a tick met: the best prices before it, and the order that it fills. */
typedef struct sd_met {
  sd_top top;
  sd_resting order;
} sd_met;

/* Reads the ticks of one call, in their order. */
struct sd_tape_reader {
  sd_book_params params;
  struct sd_tape_row *rows;
  sd_pool pool;
  sd_stages stages;
};

/* cffi: begin */
void sd_tape_open(sd_tape_reader *r, const sd_source *source, const sd_tick *ticks, int64_t n, const sd_context *ctx);
/* cffi: end */
/* Applies tick i to its book, and sets the event that results, but for its trade. Nonzero: the book failed, and *ctx says why. */
int sd_tape_read(sd_tape_reader *r, int64_t i, sd_context *ctx, sd_event *e, sd_met *met);

/* The tick that a chain handles, for those of its parts that read one tape: the first of them reads it for all. */
typedef struct sd_shared_tape {
  sd_tape_reader reader;
  int64_t i; /* the tick's */
  int is_read;
  sd_event event;
  sd_met met;
} sd_shared_tape;

/* cffi: begin */
/* Books of levels of symbols 0 .. n - 1, in a space, for quotes. NULL: no memory, or n is 0. */
sd_levels *sd_levels_create(struct sd_space *space, uint64_t n);
/* Adds each symbol's events whose last tick never came. `with_open`: the run is over, and ends those that are open. At rest. */
void sd_levels_unended(const sd_levels *levels, uint64_t n, int with_open, int64_t *counts);
/* cffi: end */
/* Sets the quote of an event that results from a tick. Nonzero: a book failed, and *ctx says why. */
int sd_levels_event(const sd_source *source, const sd_tick *t, sd_context *ctx, sd_event *e);

/* A clear of one side, or of prices up to one, counts as a change of levels. */
static inline uint64_t sd_clear_of(const sd_tick *t) {
  if (__builtin_expect(t->action != 'R', 1)) return SD_CLEAR_NONE;
  if (t->kind == SD_KIND_STATUS) return SD_CLEAR_DAY;
  return t->kind == SD_KIND_ORDER || (t->kind == SD_KIND_QUOTE && t->side == 'N' && !t->depth) ? SD_CLEAR_BOOK
                                                                                               : SD_CLEAR_NONE;
}

/* Times stay below INT64_MAX, which stands for never. A time below 0, before the epoch, counts as none: no feed has one. */
static inline int64_t sd_time_of(const sd_tick *t) {
  return t->ts_recv < 0 ? 0 : t->ts_recv - (t->ts_recv == INT64_MAX);
}

/* The moment that a tick counts at. Ready-made bars come when they end, and belong to the interval that ends there. */
static inline int64_t sd_moment_of(const sd_tick *t, const sd_trade_rules *rules) {
  const int64_t time = sd_time_of(t);
  return time - (rules->at_end & (time > 0));
}

/* The time of a tick whose moment this is. */
static inline int64_t sd_time_at(int64_t moment, const sd_trade_rules *rules) {
  return moment + (rules->at_end & (moment > 0));
}

/* The alarm for the end of an interval: bars that end with it come before the alarm. `ctx` has the handler's params, which begin with
 * its source. */
static inline int64_t sd_alarm_for(int64_t end, const sd_context *ctx) {
  const sd_source *source = ctx->params;
  return end + source->rules.at_end;
}

/* The moment for which an alarm was set. */
static inline int64_t sd_due_at(int64_t time, const sd_context *ctx) {
  const sd_source *source = ctx->params;
  return time - source->rules.at_end;
}

/* Nonzero: a tick of one side changes a price level, which may be any level. */
static inline int sd_is_level(const sd_tick *t, const sd_flags *flags) {
  switch (t->action) {
  case 'M':
    return !(t->flags & flags->best);
  case 'A':
  case 'C':
  case 'R':
    return 1;
  default:
    return 0;
  }
}

static inline void sd_quote_of(const sd_tick *t, const sd_flags *flags, sd_event *e) {
  if (t->kind != SD_KIND_QUOTE || t->depth || (t->side != 'N' && sd_is_level(t, flags))) return;
  e->bid = t->side != 'A';
  e->ask = t->side != 'B';
  e->top =
      (sd_top){sd_price_or_none(sd_bid_price(t)), sd_price_or_none(sd_ask_price(t)), sd_bid_size(t), sd_ask_size(t)};
}

/* The events of the ticks of one call. */
typedef struct sd_reader {
  const sd_source *source;
  const sd_tick *ticks;
  sd_context *ctx;
  sd_tape_reader tape; /* open if the source has a tape that is not shared */
  sd_event event;      /* the latest, unless its tape is shared */
  sd_met met;
} sd_reader;

static inline void sd_open_events(sd_reader *r, const sd_source *source, const sd_tick *ticks, int64_t n,
                                  sd_context *ctx) {
  r->source = source;
  r->ticks = ticks;
  r->ctx = ctx;
  if (source->tape && !ctx->shared) sd_tape_open(&r->tape, source, ticks, n, ctx);
}

/* Nobody copies what the tape has just written: such a read would wait until it is in the cache. */
static inline const sd_event *sd_read_tape(sd_reader *r, int64_t i) {
  sd_shared_tape *shared = r->ctx->shared;
  sd_event *e = shared ? &shared->event : &r->event;
  sd_met *met = shared ? &shared->met : &r->met;
  if (!shared) {
    if (sd_tape_read(&r->tape, i, r->ctx, e, met)) return NULL;
  } else if (!shared->is_read) {
    if (sd_tape_read(&shared->reader, shared->i, r->ctx, e, met)) return NULL;
    shared->is_read = 1;
  }
  e->trade = sd_trade_of(&r->ticks[i], &r->source->rules, met->order, &met->top);
  return e;
}

/* The event of tick i, valid until the next. Ticks come in order. NULL: a book failed, and the context says why. */
static inline const sd_event *sd_read_event(sd_reader *r, int64_t i) {
  const sd_top no_quote = SD_NO_TOP;
  const sd_source *source = r->source;
  const sd_tick *t = &r->ticks[i];
  if (source->tape) return sd_read_tape(r, i);
  sd_event *e = &r->event;
  e->bid = e->ask = 0;
  e->clear = sd_clear_of(t);
  e->time = sd_moment_of(t, &source->rules);
  e->trade = sd_trade_of(t, &source->rules, (sd_resting){SD_UNDEF_PRICE, 'N'}, &no_quote);
  if (!source->levels) return e;
  if (t->kind == SD_KIND_QUOTE || t->flags & source->rules.flags.last || e->clear)
    return sd_levels_event(source, t, r->ctx, e) ? NULL : e;
  return e;
}

static inline void *sd_row_of(void *rows, uint32_t key, const sd_context *ctx) {
  return (unsigned char *)rows + key * ctx->row_stride;
}

/* Takes one event of a tick into the row of its symbol. Nonzero: it failed. */
typedef int (*sd_take_fn)(void *row, sd_context *ctx, int64_t i, const sd_tick *t, const sd_event *e);

/* The events of a call, which a handler takes one by one. */
SD_INLINE int64_t sd_take_events(void *rows, const sd_tick *ticks, int64_t n, sd_context *ctx, sd_take_fn take) {
  sd_reader reader;
  sd_open_events(&reader, ctx->params, ticks, n, ctx);
  for (int64_t i = 0; i < n; i++) {
    const sd_tick *t = &ticks[i];
    const sd_event *e = sd_read_event(&reader, i);
    if (!e) return i;
    if (e->trade.size < 0 && !e->clear && !e->bid && !e->ask) continue;
    if (take(sd_row_of(rows, t->instrument_id, ctx), ctx, i, t, e)) return i;
    if (ctx->yield) return i + 1;
  }
  return n;
}

/* Takes over the sides that an event sets; an empty side has size 0. Zero: nothing has changed. */
static inline int sd_top_take(sd_top *top, const sd_event *e) {
  sd_top was = *top;
  if (e->bid) {
    top->bid = e->top.bid;
    top->bid_size = e->top.bid == SD_UNDEF_PRICE ? 0 : e->top.bid_size;
  }
  if (e->ask) {
    top->ask = e->top.ask;
    top->ask_size = e->top.ask == SD_UNDEF_PRICE ? 0 : e->top.ask_size;
  }
  return was.bid != top->bid || was.ask != top->ask || was.bid_size != top->bid_size || was.ask_size != top->ask_size;
}

/* Takes over the sides that an event sets, or empties both for a clear without a quote. If something takes the place of a cleared book (a
 * snapshot of Databento's), both together are one change. Zero: nothing has changed. */
static inline int sd_top_change(sd_top *top, const sd_event *e) {
  const sd_event emptied = {.bid = 1, .ask = 1, .top = SD_NO_TOP};
  if (e->bid | e->ask) return sd_top_take(top, e);
  return e->clear && sd_top_take(top, &emptied);
}

/* A side exists. */
static inline int sd_top_any(const sd_top *top) { return top->bid != SD_UNDEF_PRICE || top->ask != SD_UNDEF_PRICE; }

/* Both sides exist, with the bid below the ask. */
static inline int sd_top_sound(const sd_top *top) {
  return top->bid != SD_UNDEF_PRICE && top->ask != SD_UNDEF_PRICE && top->bid < top->ask;
}

/* ---- sums that do not overflow, or say that they do */

/* Fails, and names the sum that is too large for its field. */
static __attribute__((noinline, cold, unused)) int sd_too_large(sd_context *ctx, const char *what) {
  ctx->error_code = -3; /* SD_E_ARGUMENT */
  snprintf(ctx->message, sizeof ctx->message, "%s more than its field holds: read its sizes in a coarser unit", what);
  return -1;
}

/* Adds a size of at least 0. Nonzero: the sum does not fit into a volume, and *ctx says so. */
static inline int sd_add_volume(int64_t *volume, int64_t size, sd_context *ctx) {
  int64_t sum;
  if (__builtin_expect(__builtin_add_overflow(*volume, size, &sum), 0)) return sd_too_large(ctx, "its volume is");
  *volume = sum;
  return 0;
}

typedef __int128 sd_wide;

static inline sd_wide sd_wide_of(uint64_t low, int64_t high) {
  return (sd_wide)((unsigned __int128)(uint64_t)high << 64 | (unsigned __int128)low);
}

/* Adds a x b. Nonzero: the sum does not fit into 128 bits, and *ctx says so. */
static inline int sd_wide_add(uint64_t *low, int64_t *high, sd_wide a, sd_wide b, sd_context *ctx) {
  sd_wide more, sum;
  if (__builtin_mul_overflow(a, b, &more) || __builtin_add_overflow(sd_wide_of(*low, *high), more, &sum))
    return sd_too_large(ctx, "its sum of price x size is");
  *low = (uint64_t)sum;
  *high = (int64_t)(sum >> 64);
  return 0;
}

/* notional / volume to the nearest unit, halves up. */
static inline int64_t sd_average_price(sd_wide notional, int64_t volume) {
  if (volume <= 0) return SD_UNDEF_PRICE;
  if (notional >= 0 && notional < (INT64_MAX >> 1) - (volume >> 1) && volume < (INT64_C(1) << 62))
    return ((int64_t)notional + (volume >> 1)) / volume; /* the usual case, by a plain division */
  sd_wide twice = 2 * notional + (sd_wide)volume, by = 2 * (sd_wide)volume;
  sd_wide whole = twice / by;
  return (int64_t)(whole - (twice % by < 0));
}

/* ---- contracts */

/* The contract of a symbol; NULL: its notional is price x size. */
static inline const sd_contract *sd_contract_of(const sd_source *source, uint32_t key) {
  if (__builtin_expect(!source->contracts, 1)) return NULL;
  return source->contracts[key].worth != 0 ? &source->contracts[key] : NULL;
}

/* Nonzero: a price has no meaning for the contract. A price of 0 or less has no inverse. */
static inline int sd_no_price(const sd_contract *contract, int64_t price) {
  return __builtin_expect(contract != NULL, 0) && contract->inverse && price <= 0;
}

/* Adds size / price, rounded to the nearest 2^-96, for a size of at least 0 and a price above 0. Nonzero: the sum does not fit into 128
 * bits, and *ctx says so. */
static inline int sd_add_inverse(uint64_t *low, int64_t *high, int64_t size, int64_t price, sd_context *ctx) {
  const unsigned __int128 by = (unsigned __int128)price;
  const int64_t whole = size / price;
  const unsigned __int128 rest = (unsigned __int128)(size % price) << 64;
  const unsigned __int128 last = ((rest % by << 32) + by / 2) / by;
  sd_wide sum;
  if (whole >> 31 || __builtin_add_overflow(sd_wide_of(*low, *high),
                                            ((sd_wide)whole << 96) + (sd_wide)(rest / by << 32) + (sd_wide)last, &sum))
    return sd_too_large(ctx, "its sum of size / price is");
  *low = (uint64_t)sum;
  *high = (int64_t)(sum >> 64);
  return 0;
}

/* The harmonic mean of prices: volume / `inverses`, a sum of size / price in 2^-96, to the nearest unit, halves up. */
static inline int64_t sd_harmonic_price(sd_wide inverses, int64_t volume) {
  if (volume <= 0) return SD_UNDEF_PRICE;
  const unsigned __int128 by = (unsigned __int128)inverses;
  unsigned __int128 rest = (unsigned __int128)volume % by;
  uint64_t whole = (uint64_t)((unsigned __int128)volume / by);
  for (int bit = 0; bit < 96; bit++) {
    rest <<= 1;
    whole <<= 1;
    if (rest >= by) {
      rest -= by;
      whole++;
    }
  }
  return (int64_t)(whole + (rest >= by - rest));
}
