#include "handlers/spread.h"

#include <math.h>

static sd_spread_row *row_of(void *rows, uint32_t key, const sd_context *ctx) {
  return (sd_spread_row *)((unsigned char *)rows + key * ctx->row_stride);
}

/* ---- sums, and what they make */

static void add_time(sd_spread_totals *t, sd_wide spread, double relative, int64_t ns) {
  t->of.quoted_ns += ns;
  /* Less than 2^64 for less than 2^63 ns in all: 128 bits hold it. */
  const sd_wide sum = sd_wide_of(t->quoted_low, t->quoted_high) + spread * ns;
  t->quoted_low = (uint64_t)sum;
  t->quoted_high = (int64_t)(sum >> 64);
  t->relative_sum += relative * (double)ns;
}

/* Nonzero: no volume holds the sum. */
static int add_trade(sd_spread_totals *t, sd_context *ctx, sd_wide twice, int64_t size) {
  if (sd_add_volume(&t->of.volume, size, ctx)) return -1;
  t->of.trades++;
  return sd_wide_add(&t->mean_low, &t->mean_high, twice, 1, ctx) ||
         sd_wide_add(&t->effective_low, &t->effective_high, twice, size, ctx);
}

static void average_time(sd_spread_totals *t) {
  const double total = (double)t->of.quoted_ns;
  t->of.quoted = (double)sd_wide_of(t->quoted_low, t->quoted_high) / total * 1e-9;
  t->of.relative = t->relative_sum / total;
}

static void average_trades(sd_spread_totals *t) {
  t->of.effective = (double)sd_wide_of(t->effective_low, t->effective_high) / (double)t->of.volume * 1e-9;
  t->of.effective_mean = (double)sd_wide_of(t->mean_low, t->mean_high) / (double)t->of.trades * 1e-9;
}

/* Gives the top that was in force the time since the last event. */
static void pass_time(sd_spread_row *row, const sd_spread_params *p, int64_t time) {
  if (time <= row->last_time) return;
  if (row->last_time && sd_top_sound(&row->top)) {
    const int64_t ns = sd_open_time(&row->stretch, &p->calendar, row->last_time, time);
    const sd_wide spread = (sd_wide)row->top.ask - row->top.bid;
    const double mid = 0.5 * ((double)row->top.bid + (double)row->top.ask);
    const double relative = mid != 0 ? (double)spread / mid : 0;
    add_time(&row->all, spread, relative, ns);
    if (row->all.of.quoted_ns) average_time(&row->all);
    if (p->every && row->interval.end) add_time(&row->its, spread, relative, ns);
  }
  row->last_time = time;
}

/* ---- intervals */

static int emit_interval(sd_spread_row *row, sd_context *ctx, int64_t i, uint64_t flags) {
  sd_spread_totals *its = &row->its;
  its->of.quoted = its->of.relative = its->of.effective = its->of.effective_mean = NAN;
  if (its->of.quoted_ns) average_time(its);
  if (its->of.trades) average_trades(its);
  const sd_top top = row->quotes ? row->top : SD_NO_TOP;
  const sd_spread interval = {row->interval.start, row->interval.end, its->of, top, flags};
  return sd_emit(ctx, 0, i, &interval);
}

static int is_told(const sd_spread_row *row, const sd_spread_params *p) {
  return row->events || (p->fill && row->its.of.quoted_ns);
}

/* Begins the interval of a moment in a session. */
static void begin(sd_spread_row *row, const sd_spread_params *p, sd_context *ctx, uint32_t key, int64_t time) {
  sd_interval begun;
  sd_interval_begin(&begun, &row->stretch, p->every, time, ctx, key);
  /* From its start on the top that is in force counts for it. */
  if (row->last_time) pass_time(row, p, begun.start);
  row->interval = begun;
  row->events = 0;
  row->its = (sd_spread_totals){0};
}

/* Ends the interval under way. Nonzero: no room. */
static int end_interval(sd_spread_row *row, const sd_spread_params *p, sd_context *ctx, int64_t i) {
  if (row->last_time) pass_time(row, p, row->interval.end);
  if (is_told(row, p)) {
    if (row->events == 0 && sd_tell_empty(&row->empty_left, ctx)) return -1;
    if (emit_interval(row, ctx, i, 0)) return -1;
  }
  row->interval.end = 0;
  return 0;
}

/* Ends what ends at or before a moment, and begins what is to be told though nothing comes. Nonzero: no room. */
static int advance(sd_spread_row *row, const sd_spread_params *p, sd_context *ctx, int64_t i, uint32_t key,
                   int64_t time) {
  for (;;) {
    int64_t at = row->interval.end;
    if (at) {
      if (time < at) return 0;
      if (end_interval(row, p, ctx, i)) return -1;
    } else {
      at = row->last_time;
    }
    if (!row->empty_left || !sd_top_sound(&row->top)) return 0;
    /* Between two sessions it goes on with the next. */
    if (!sd_stretch_at(&row->stretch, &p->calendar, at)) at = row->stretch.end;
    if (at > time) {
      if (ctx->wake_at && at != INT64_MAX) ctx->wake_at(ctx, key, at);
      return 0;
    }
    sd_stretch_at(&row->stretch, &p->calendar, at);
    begin(row, p, ctx, key, at);
  }
}

/* ---- events */

/* Nonzero: no volume holds the sum. */
static int trade(sd_spread_row *row, const sd_spread_params *p, sd_context *ctx, const sd_event *e) {
  pass_time(row, p, e->time);
  if (!sd_stretch_at(&row->stretch, &p->calendar, e->time)) return 0;
  if (p->every) row->events++;
  if (e->trade.price == SD_UNDEF_PRICE || !sd_top_sound(&row->top)) {
    row->all.of.unmatched++;
    if (p->every) row->its.of.unmatched++;
    return 0;
  }
  sd_wide twice = 2 * (sd_wide)e->trade.price - row->top.bid - row->top.ask;
  if (twice < 0) twice = -twice;
  if (add_trade(&row->all, ctx, twice, e->trade.size)) return -1;
  average_trades(&row->all);
  return p->every ? add_trade(&row->its, ctx, twice, e->trade.size) : 0;
}

static void quote(sd_spread_row *row, const sd_spread_params *p, const sd_event *e) {
  if (row->quotes == 0) row->top = SD_NO_TOP;
  pass_time(row, p, e->time);
  if (!sd_top_take(&row->top, e)) return;
  row->quotes++;
  if (p->every) row->events++;
  const int both = row->top.bid != SD_UNDEF_PRICE && row->top.ask != SD_UNDEF_PRICE;
  row->one_sided += !both;
  row->locked += both && row->top.bid >= row->top.ask;
}

/* The top is gone. A cleared book was in force until now; a day's last top until its last event, or the end of an interval.
 * Nonzero: no room. */
static int clear(sd_spread_row *row, const sd_spread_params *p, sd_context *ctx, int64_t i, uint32_t key,
                 const sd_event *e) {
  const int64_t time = e->time > row->last_time ? e->time : row->last_time;
  if (row->last_time == 0) return 0;
  if (p->every && advance(row, p, ctx, i, key, time)) return -1;
  if (e->clear == SD_CLEAR_BOOK) {
    pass_time(row, p, time);
  } else {
    row->last_time = time;
    if (p->every) {
      sd_interval_cut(&row->interval, time, ctx, key);
      if (row->interval.end && end_interval(row, p, ctx, i)) return -1;
      row->empty_left = 0;
    }
  }
  if (row->quotes) row->top = SD_NO_TOP;
  return 0;
}

/* Nonzero: no room. */
static int take_event(sd_spread_row *row, const sd_spread_params *p, sd_context *ctx, int64_t i, uint32_t key,
                      sd_event *e) {
  if (p->every) {
    if (e->time < row->last_time) e->time = row->last_time;
    if (advance(row, p, ctx, i, key, e->time)) return -1;
    if (!row->interval.end && sd_stretch_at(&row->stretch, &p->calendar, e->time)) begin(row, p, ctx, key, e->time);
  }
  /* The trade first: it met the top that its own fill changes. */
  if (e->trade.size && trade(row, p, ctx, e)) return -1;
  if (e->bid || e->ask) quote(row, p, e);
  if (!p->fill || !row->last_time) return 0;
  row->empty_left = SD_MOST_EMPTY;
  return row->interval.end ? 0 : advance(row, p, ctx, i, key, e->time);
}

int64_t sd_handle_spread(void *rows, const sd_tick *ticks, int64_t n, sd_context *ctx) {
  const sd_spread_params *p = ctx->params;
  sd_event e;
  for (int64_t i = 0; i < n; i++) {
    const uint32_t key = ticks[i].instrument_id;
    if (sd_read_event(&p->source, ticks, i, n, ctx, &e)) return i;
    if (e.clear && clear(row_of(rows, key, ctx), p, ctx, i, key, &e)) return i;
    if ((e.trade.size || e.bid || e.ask) && take_event(row_of(rows, key, ctx), p, ctx, i, key, &e)) return i;
    if (ctx->yield) return i + 1;
  }
  return n;
}

int sd_wake_spread(void *rows, uint32_t key, int64_t time, sd_context *ctx) {
  return advance(row_of(rows, key, ctx), ctx->params, ctx, -1, key, time);
}

int sd_finish_spread(void *rows, uint32_t key, sd_context *ctx) {
  const sd_spread_params *p = ctx->params;
  sd_spread_row *row = row_of(rows, key, ctx);
  return p->partial && row->interval.end && is_told(row, p) ? emit_interval(row, ctx, -1, SD_INTERVAL_PARTIAL) : 0;
}
