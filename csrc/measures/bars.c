#include "measures/bars.h"

#include <math.h>

#include "base/atomic.h"

enum { ROWS_AHEAD = 6 };

/* ---- the bar under way */

/* Nothing was traded in it. */
SD_INLINE int is_fresh(const sd_bars_row *row) { return row->high < row->low; }

static void clear(sd_bars_row *row) {
  row->high = INT64_MIN;
  row->low = INT64_MAX;
  row->volume = row->trades = row->notional_high = 0;
  row->notional_low = 0;
}

static sd_bar bar_of(const sd_bars_row *row, const sd_bars_params *p, const sd_contract *contract, uint32_t flags) {
  static const uint32_t where[] = {SD_BAR_OUTSIDE, 0, SD_BAR_AUCTION};
  const sd_wide notional = sd_wide_of(row->notional_low, row->notional_high);
  sd_bar bar = {
      .start = row->start,
      .end = p->kind == SD_BARS_TIME ? row->end : sd_time_at(row->last_time, &p->source.rules),
      .open = row->open,
      .high = row->high,
      .low = row->low,
      .close = row->close,
      .vwap = sd_average_price(notional, row->volume),
      .volume = row->volume,
      /* Each is rounded once. The usual one costs an instruction, the other a call. */
      .notional = (row->notional_high ? (double)notional : (double)row->notional_low) / (double)SD_PRICE_SCALE,
      .trades = (int32_t)row->trades,
      .flags = flags | where[row->stretch.inside],
  };
  if (SD_UNLIKELY(contract != NULL)) {
    if (contract->inverse) {
      bar.vwap = sd_harmonic_price(notional, row->volume);
      bar.notional = (double)row->volume * contract->worth;
    } else {
      bar.notional *= contract->worth;
    }
  }
  if (flags & SD_BAR_EMPTY) bar.open = bar.high = bar.low = row->close;
  return bar;
}

/* Emits a bar of quotes, and sets its flags of halves. Nonzero: no memory for it. */
static SD_NOINLINE int emit_quotes(const sd_bars_row *row, sd_bar *bar, sd_context *ctx, int64_t i) {
  uint64_t halves = ((const sd_quote_bars_row *)(const void *)row)->halves;
  if (bar->flags & SD_BAR_EMPTY) halves = halves & SD_BAR_HALF_CLOSE ? SD_BAR_HALVES : 0;
  bar->flags |= (uint32_t)halves;
  const sd_quote_bar emitted = {bar->start, bar->end,   bar->open,   bar->high,
                                bar->low,   bar->close, bar->trades, bar->flags};
  return sd_emit(ctx, 0, i, &emitted);
}

/* The imbalance of the bar under way. */
static sd_wide imbalance_of(const sd_imbalance_bars_row *row) {
  return sd_wide_of(row->imbalance_low, row->imbalance_high);
}

/* Emits a bar of imbalance. Nonzero: no memory for it. */
static SD_NOINLINE int emit_imbalance(const sd_bars_row *of, const sd_bar *bar, const sd_bars_params *p,
                                      sd_context *ctx, int64_t i) {
  const sd_imbalance_bars_row *row = (const sd_imbalance_bars_row *)(const void *)of;
  sd_imbalance_bar emitted = {.bar = *bar, .threshold = row->threshold};
  if (p->kind == SD_BARS_NOTIONAL) emitted.imbalance.notional = (double)imbalance_of(row) / (double)SD_PRICE_SCALE;
  else emitted.imbalance.number = (int64_t)imbalance_of(row);
  return sd_emit(ctx, 0, i, &emitted);
}

/* Emits a bar for record i, or for a timer (-1). Nonzero: no memory for it. */
static int emit_bar(const sd_bars_row *row, sd_bar *bar, const sd_bars_params *p, sd_context *ctx, int64_t i) {
  if (SD_UNLIKELY(p->quotes)) return emit_quotes(row, bar, ctx, i);
  if (SD_UNLIKELY(p->signs)) return emit_imbalance(row, bar, p, ctx, i);
  sd_bar *emitted = sd_emit_reserve(ctx, 0, i);
  if (!emitted) return -1;
  *emitted = *bar;
  return 0;
}

/* Closes the bar under way with record i, or a timer (-1). Nonzero: no memory for it. */
static int close_bar(sd_bars_row *row, const sd_bars_params *p, const sd_contract *contract, sd_context *ctx, int64_t i,
                     uint32_t flags) {
  row->last = bar_of(row, p, contract, flags);
  row->bars++;
  return emit_bar(row, &row->last, p, ctx, i);
}

/* Closes a bar that is full: what comes next begins another one. Nonzero: no memory for it. */
static int close_full(sd_bars_row *row, const sd_bars_params *p, const sd_contract *contract, sd_context *ctx,
                      int64_t i, uint32_t flags) {
  if (close_bar(row, p, contract, ctx, i, flags)) return -1;
  clear(row);
  return 0;
}

/* ---- which bar a moment belongs to */

/* Opens the bar of a moment. Between sessions it opens none, unless those make bars too. */
static void open_at(sd_bars_row *row, const sd_bars_params *p, int64_t time) {
  sd_stretch *stretch = &row->stretch;
  const int64_t before = row->end;
  clear(row);
  if (!sd_stretch_at(stretch, &p->calendar, time) &&
      (stretch->inside == SD_UNKNOWN || (stretch->inside == SD_OUTSIDE && !p->outside))) {
    row->end = 0;
    row->start = stretch->end == INT64_MAX ? 0 : stretch->end;
    row->last_time = stretch->start;
    return;
  }
  row->start = stretch->start;
  row->end = stretch->end;
  if (p->kind != SD_BARS_TIME) return;
  /* It is usually the next bar, and then this needs no division. An end within the stretch is on its grid. */
  if (before >= stretch->start && time - before < p->step) {
    row->start = before;
    row->end = sd_step_end(stretch, p->step, before);
  } else {
    sd_grid(stretch, p->step, time, &row->start, &row->end);
  }
}

/* Closes what ends at or before a moment, and opens the bar of that moment. Nonzero: no memory for a closed bar. */
static int turn(sd_bars_row *row, const sd_bars_params *p, const sd_contract *contract, sd_context *ctx, int64_t i,
                int64_t time) {
  for (;;) {
    int64_t at = time;
    if (row->end) {
      if (time < row->end) return 0;
      const uint32_t cut = p->kind != SD_BARS_TIME || row->end - row->start < p->step ? SD_BAR_CUT : 0;
      if (!is_fresh(row)) {
        if (close_bar(row, p, contract, ctx, i, cut)) return -1;
      } else if (row->empty_left && row->stretch.inside != SD_AUCTION) {
        if (sd_count_empty(&row->empty_left, ctx) || close_bar(row, p, contract, ctx, i, cut | SD_BAR_EMPTY)) return -1;
      }
      if (row->empty_left) at = row->end;
    } else if (row->empty_left && row->start) {
      if (time < row->start) return 0;
      at = row->start;
    }
    open_at(row, p, at);
    if (at == time) return 0;
  }
}

/* ---- one trade */

/* Without timers, bars close at the symbol's next trade. */
static void alarm(const sd_bars_row *row, uint32_t key, sd_context *ctx) {
  int64_t next = row->end ? row->end : row->start;
  if (ctx->wake_at && next && next != INT64_MAX) ctx->wake_at(ctx, key, sd_alarm_for(next, ctx));
}

SD_INLINE int is_full(const sd_bars_row *row, const sd_bars_params *p, const sd_contract *contract, uint32_t kind) {
  switch (kind) {
  case SD_BARS_TICKS:
    return row->trades >= p->step;
  case SD_BARS_VOLUME:
    return row->volume >= p->step;
  default:
    if (SD_UNLIKELY(contract != NULL)) {
      const sd_wide minimum = sd_wide_of(contract->minimum_low, contract->minimum_high);
      return (contract->inverse ? row->volume : sd_wide_of(row->notional_low, row->notional_high)) >= minimum;
    }
    return sd_wide_of(row->notional_low, row->notional_high) >= sd_wide_of(p->minimum_low, p->minimum_high);
  }
}

enum { FAILED = -1, LEFT_OUT = 0, TAKEN = 1 };

/* Brings the bars to the moment of an event: LEFT_OUT, if it is outside of sessions, and counted; TAKEN: it belongs to the bar under way. */
SD_INLINE int enter(sd_bars_row *row, const sd_bars_params *p, const sd_contract *contract, sd_context *ctx,
                    uint32_t kind, int64_t i, int64_t *time, int cross) {
  if (SD_UNLIKELY(*time >= row->end)) {
    if (!row->end && *time < row->last_time) {
      row->late++;
      *time = row->last_time;
    }
    if (turn(row, p, contract, ctx, i, *time)) return FAILED;
    if (!row->end) return sd_leave_out(&row->outside, &row->stretch, &p->calendar, ctx) ? FAILED : LEFT_OUT;
  } else if (SD_UNLIKELY(*time < (kind == SD_BARS_TIME ? row->start : row->stretch.start))) {
    row->late++;
  }
  if (SD_UNLIKELY(p->calendar.auctions) && row->stretch.inside == SD_AUCTION && !cross) {
    row->outside++;
    return LEFT_OUT;
  }
  return TAKEN;
}

/* The first price of a bar. */
SD_INLINE void begin(sd_bars_row *row, const sd_bars_params *p, sd_context *ctx, uint32_t kind, uint32_t key,
                     int64_t time, int64_t price) {
  row->open = price;
  if (kind != SD_BARS_TIME) {
    row->last_time = time;
    row->start = sd_time_at(time, &p->source.rules);
  }
  if (p->fill && (time || row->empty_left)) row->empty_left = SD_MAX_EMPTY;
  alarm(row, key, ctx);
}

/* Nonzero: the bar has too many trades, or quotes. */
SD_INLINE int count(sd_bars_row *row, sd_context *ctx, int64_t more) {
  row->trades += more;
  if (SD_UNLIKELY(row->trades > INT32_MAX)) {
    snprintf(ctx->message, sizeof ctx->message, "a bar has more than 2**31 - 1 trades: make its bars shorter");
    return -1;
  }
  return 0;
}

/* Adds a trade's price, size and number to the bar under way. Nonzero: a sum does not fit. */
SD_INLINE int add_trade(sd_bars_row *row, const sd_bars_params *p, const sd_contract *contract, sd_context *ctx,
                        int64_t price, int64_t size) {
  if (price > row->high) row->high = price;
  if (price < row->low) row->low = price;
  row->close = price;
  if (SD_UNLIKELY(sd_add_volume(&row->volume, size, ctx))) return -1;
  if (count(row, ctx, size != 0 || p->source.rules.sizeless)) return -1;
  if (SD_UNLIKELY(contract != NULL) && contract->inverse)
    return sd_add_inverse(&row->notional_low, &row->notional_high, size, price, ctx);
  const sd_wide sum = (sd_wide)row->notional_low + (sd_wide)price * (sd_wide)size;
  row->notional_low = (uint64_t)sum;
  /* This happens seldom, so the high half, which is on another line, is usually not touched. */
  if (SD_UNLIKELY(sum >> 64) && __builtin_add_overflow(row->notional_high, (int64_t)(sum >> 64), &row->notional_high))
    return sd_too_large(ctx, "its notional is");
  return 0;
}

/* Nonzero: no memory for a bar that closed. */
SD_INLINE int add(sd_bars_row *row, const sd_bars_params *p, sd_context *ctx, uint32_t kind, int64_t i, uint32_t key,
                  int64_t time, int64_t price, int64_t size, int cross) {
  const sd_contract *contract = sd_contract_of(&p->source, key);
  if (sd_no_price(contract, price)) {
    row->unpriced++;
    return 0;
  }
  const int entered = enter(row, p, contract, ctx, kind, i, &time, cross);
  if (entered != TAKEN) return entered;
  if (is_fresh(row)) begin(row, p, ctx, kind, key, time, price);
  if (add_trade(row, p, contract, ctx, price, size)) return -1;
  if (kind == SD_BARS_TIME) return 0;
  if (time > row->last_time) row->last_time = time;
  return is_full(row, p, contract, kind) ? close_full(row, p, contract, ctx, i, 0) : 0;
}

/* A new day: the bar under way ends with the day before. Nonzero: no memory for a closed bar. */
static SD_NOINLINE int begin_day(sd_bars_row *row, const sd_bars_params *p, sd_context *ctx, int64_t i, uint32_t key,
                                 int64_t time) {
  const sd_contract *contract = sd_contract_of(&p->source, key);
  if (!row->end && !row->start) return 0;
  row->empty_left = 0;
  if (row->end && turn(row, p, contract, ctx, i, time)) return -1;
  if (row->end && !is_fresh(row)) {
    if (row->end > time) row->end = time;
    if (close_bar(row, p, contract, ctx, i, SD_BAR_CUT)) return -1;
  }
  clear(row);
  row->end = row->start = row->last_time = 0;
  if (ctx->wake_at) ctx->wake_at(ctx, key, 0);
  return 0;
}

/* ---- a batch */

/* For ticks that carry their trades themselves. */
SD_INLINE int64_t over_ticks(void *rows, const sd_tick *ticks, int64_t n, sd_context *ctx, const sd_bars_params *p,
                             uint32_t kind) {
  const uint64_t stride = ctx->row_stride;
  sd_trade_rules rules = p->source.rules;
  rules.sizeless |= p->zero_sizes != 0;
  for (int64_t i = 0; i < n; i++) {
    const sd_tick *t = &ticks[i];
    if (i + ROWS_AHEAD < n) sd_prefetch_write((unsigned char *)rows + ticks[i + ROWS_AHEAD].instrument_id * stride);
    sd_bars_row *row = sd_row_of(rows, t->instrument_id, ctx);
    if (!sd_is_trade(t, &rules)) {
      if (SD_UNLIKELY(sd_is_day(t)) && begin_day(row, p, ctx, i, t->instrument_id, sd_moment_of(t, &rules))) return i;
      continue;
    }
    if (SD_UNLIKELY(t->price == SD_UNDEF_PRICE || t->price == INT64_MIN)) {
      row->unpriced++;
      continue;
    }
    const int cross = (t->flags & rules.flags.cross) != 0;
    const int64_t time = sd_moment_of(t, &rules);
    if (SD_UNLIKELY(add(row, p, ctx, kind, i, t->instrument_id, time, t->price, t->size, cross))) return i;
    if (SD_UNLIKELY(ctx->yield)) return i + 1;
  }
  return n;
}

static int take(void *at, sd_context *ctx, int64_t i, const sd_tick *t, const sd_event *e) {
  sd_bars_row *row = at;
  const sd_bars_params *p = ctx->params;
  const uint32_t key = t->instrument_id;
  if (e->clear == SD_CLEAR_DAY && begin_day(row, p, ctx, i, key, e->time)) return -1;
  if (e->trade.size < 0) return 0;
  if (e->trade.price != SD_UNDEF_PRICE)
    return add(row, p, ctx, p->kind, i, key, e->time, e->trade.price, e->trade.size, e->trade.cross);
  row->unpriced++;
  return 0;
}

/* ---- quotes */

/* The price of a top that bars are made of, in 1e-9, and whether half of 1e-9 more belongs to it. */
static int64_t quoted(const sd_top *top, uint32_t which, int *half) {
  *half = 0;
  if (which == SD_BARS_BID) return top->bid;
  if (which == SD_BARS_ASK) return top->ask;
  if (top->bid == SD_UNDEF_PRICE || top->ask == SD_UNDEF_PRICE) return SD_UNDEF_PRICE;
  const sd_wide sum = (sd_wide)top->bid + top->ask;
  *half = (int)(sum & 1);
  return (int64_t)(sum >> 1);
}

static void set_half(uint64_t *halves, uint64_t which, int half) {
  *halves = half ? *halves | which : *halves & ~which;
}

/* Sets the prices of the bar under way. A half more decides between two that are equal without it. */
static void add_price(sd_quote_bars_row *row, int64_t price, int half) {
  sd_bars_row *of = &row->of;
  if (price > of->high || (price == of->high && half)) {
    of->high = price;
    set_half(&row->halves, SD_BAR_HALF_HIGH, half);
  }
  if (price < of->low || (price == of->low && !half)) {
    of->low = price;
    set_half(&row->halves, SD_BAR_HALF_LOW, half);
  }
  of->close = price;
  set_half(&row->halves, SD_BAR_HALF_CLOSE, half);
}

static int take_quote(void *at, sd_context *ctx, int64_t i, const sd_tick *t, const sd_event *e) {
  sd_quote_bars_row *row = at;
  sd_bars_row *of = &row->of;
  const sd_bars_params *p = ctx->params;
  const uint32_t key = t->instrument_id;
  int64_t time = e->time;
  int half;
  if (e->clear == SD_CLEAR_DAY && begin_day(of, p, ctx, i, key, time)) return -1;
  if (!row->quotes) row->top = SD_NO_TOP;
  if (!sd_top_change(&row->top, e)) return 0;
  row->quotes++;
  const int64_t price = quoted(&row->top, p->quotes, &half);
  row->halved += half;
  of->unpriced += price == SD_UNDEF_PRICE;
  /* A new day only empties the book: nothing of that day has come yet. */
  const int entered = e->clear == SD_CLEAR_DAY ? LEFT_OUT : enter(of, p, NULL, ctx, p->kind, i, &time, 0);
  if (entered == FAILED) return -1;
  if (entered == LEFT_OUT || price == SD_UNDEF_PRICE) {
    of->close = price;
    set_half(&row->halves, SD_BAR_HALF_CLOSE, half);
    if (of->empty_left) alarm(of, key, ctx);
    return 0;
  }
  if (is_fresh(of)) {
    begin(of, p, ctx, p->kind, key, time, price);
    set_half(&row->halves, SD_BAR_HALF_OPEN, half);
  }
  add_price(row, price, half);
  if (count(of, ctx, 1)) return -1;
  if (p->kind == SD_BARS_TIME) return 0;
  if (time > of->last_time) of->last_time = time;
  return of->trades < p->step ? 0 : close_full(of, p, NULL, ctx, i, 0);
}

/* ---- imbalance */

static void weigh(sd_weighted *mean, double value, double keeps) {
  /* A fused multiply-add would round once, and bars would differ between machines. */
  const volatile double sum = keeps * mean->sum, weight = keeps * mean->weight;
  mean->sum = value + sum;
  mean->weight = 1 + weight;
}

/* The bar under way begins: what came before says what closes it. */
static void expect(sd_imbalance_bars_row *row, const sd_bars_params *p) {
  row->imbalance_low = 0;
  row->imbalance_high = 0;
  if (!p->expects) {
    row->limit = p->kind == SD_BARS_NOTIONAL ? (double)sd_wide_of(p->minimum_low, p->minimum_high) : (double)p->step;
  } else if (row->ticks.weight != 0) {
    row->limit = row->ticks.sum / row->ticks.weight * fabs(row->value.sum / row->value.weight);
  } else {
    row->limit = NAN;
  }
  row->threshold = p->kind == SD_BARS_NOTIONAL ? row->limit / (double)SD_PRICE_SCALE : row->limit;
}

static int is_balanced(const sd_imbalance_bars_row *row, const sd_bars_params *p) {
  const sd_wide sum = imbalance_of(row), size = sum < 0 ? -sum : sum;
  if (p->expects) return row->ticks.weight != 0 ? (double)size < row->limit : row->of.trades < p->first;
  return size < (p->kind == SD_BARS_NOTIONAL ? sd_wide_of(p->minimum_low, p->minimum_high) : (sd_wide)p->step);
}

/* 1: a buyer's trade, -1: a seller's, 0: nothing tells. */
static int64_t sign_of(sd_imbalance_bars_row *row, const sd_bars_params *p, const sd_trade *trade) {
  if (row->priced && trade->price != row->price) row->direction = trade->price > row->price ? 1 : -1;
  row->price = trade->price;
  row->priced = 1;
  if (p->signs == SD_BARS_AGGRESSOR && trade->aggressor != 'N') return trade->aggressor == 'B' ? 1 : -1;
  row->by_rule++;
  row->unsigned_ += row->direction == 0;
  return row->direction;
}

static int take_signed(void *at, sd_context *ctx, int64_t i, const sd_tick *t, const sd_event *e) {
  sd_imbalance_bars_row *row = at;
  sd_bars_row *of = &row->of;
  const sd_bars_params *p = ctx->params;
  const sd_trade *trade = &e->trade;
  const uint32_t key = t->instrument_id;
  int64_t time = e->time;
  if (e->clear == SD_CLEAR_DAY) {
    row->priced = row->direction = 0;
    if (begin_day(of, p, ctx, i, key, time)) return -1;
  }
  if (trade->size < 0) return 0;
  if (trade->price == SD_UNDEF_PRICE) {
    of->unpriced++;
    return 0;
  }
  const int entered = enter(of, p, NULL, ctx, p->kind, i, &time, trade->cross);
  if (entered != TAKEN) return entered;
  if (is_fresh(of)) {
    begin(of, p, ctx, p->kind, key, time, trade->price);
    expect(row, p);
  }
  if (add_trade(of, p, NULL, ctx, trade->price, trade->size)) return -1;
  if (time > of->last_time) of->last_time = time;
  const sd_wide price = p->kind == SD_BARS_NOTIONAL ? trade->price : 1;
  const sd_wide value = sign_of(row, p, trade) * price * (p->kind == SD_BARS_TICKS ? 1 : trade->size);
  if (sd_wide_add(&row->imbalance_low, &row->imbalance_high, value, 1, ctx)) return -1;
  weigh(&row->value, (double)value, p->keeps_ticks);
  const int bounded = p->most && of->trades >= p->most;
  const int balanced = is_balanced(row, p);
  if (of->trades < p->least || (balanced && !bounded)) return 0;
  weigh(&row->ticks, (double)of->trades, p->keeps_bars);
  row->bounded += balanced;
  return close_full(of, p, NULL, ctx, i, balanced ? SD_BAR_BOUNDED : 0);
}

/* ---- all of them */

int64_t sd_handle_bars(void *rows, const sd_tick *ticks, int64_t n, sd_context *ctx) {
  const sd_bars_params *p = ctx->params;
  if (SD_UNLIKELY(p->quotes)) return sd_take_events(rows, ticks, n, ctx, take_quote);
  if (SD_UNLIKELY(p->signs)) return sd_take_events(rows, ticks, n, ctx, take_signed);
  if (p->source.tape) return sd_take_events(rows, ticks, n, ctx, take);
  switch (p->kind) {
  case SD_BARS_TIME:
    return over_ticks(rows, ticks, n, ctx, p, SD_BARS_TIME);
  case SD_BARS_TICKS:
    return over_ticks(rows, ticks, n, ctx, p, SD_BARS_TICKS);
  case SD_BARS_VOLUME:
    return over_ticks(rows, ticks, n, ctx, p, SD_BARS_VOLUME);
  default:
    return over_ticks(rows, ticks, n, ctx, p, SD_BARS_NOTIONAL);
  }
}

int sd_wake_bars(void *rows, uint32_t key, int64_t time, sd_context *ctx) {
  const sd_bars_params *p = ctx->params;
  sd_bars_row *row = sd_row_of(rows, key, ctx);
  const sd_contract *contract = sd_contract_of(&p->source, key);
  if (turn(row, p, contract, ctx, -1, sd_due_at(time, ctx))) return -1;
  /* The day may be over, between sessions or without any: empty bars wait for the next trade. */
  if (row->empty_left && row->end && sd_in_session(&row->stretch, &p->calendar)) alarm(row, key, ctx);
  return 0;
}

int sd_finish_bars(void *rows, uint32_t key, sd_context *ctx) {
  const sd_bars_params *p = ctx->params;
  const sd_bars_row *row = sd_row_of(rows, key, ctx);
  if (!p->partial || row->end == 0 || is_fresh(row)) return 0;
  sd_bar bar = bar_of(row, p, sd_contract_of(&p->source, key), SD_BAR_PARTIAL);
  return emit_bar(row, &bar, p, ctx, -1);
}
