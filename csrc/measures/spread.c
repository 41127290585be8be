#include "measures/spread.h"

#include <math.h>

static sd_spread_row *row_of(void *rows, uint32_t key, const sd_context *ctx) {
  return (sd_spread_row *)((unsigned char *)rows + key * ctx->row_stride);
}

/* ---- sums, and what they make */

static void average_time(sd_spread_totals *t) {
  const double total = (double)t->of.quoted_ns;
  t->of.quoted = (double)sd_wide_of(t->quoted_low, t->quoted_high) / total * 1e-9;
  t->of.relative = t->relative_sum / (double)t->of.relative_ns;
}

static void average_trades(sd_spread_totals *t) {
  const double sum = (double)sd_wide_of(t->effective_low, t->effective_high);
  t->of.effective = t->of.volume ? sum / (double)t->of.volume * 1e-9 : (double)NAN;
  t->of.effective_mean = (double)sd_wide_of(t->mean_low, t->mean_high) / (double)t->of.trades * 1e-9;
}

/* Nonzero: the sum does not fit into a volume. */
static int add_trade(sd_spread_totals *t, sd_context *ctx, sd_wide twice, int64_t size) {
  if (sd_add_volume(&t->of.volume, size, ctx)) return -1;
  t->of.trades++;
  if (sd_wide_add(&t->mean_low, &t->mean_high, twice, 1, ctx) ||
      sd_wide_add(&t->effective_low, &t->effective_high, twice, size, ctx))
    return -1;
  average_trades(t);
  return 0;
}

/* Whether a spread can be measured by the mid: prices of spreads and of energy may lie around 0. */
static int has_mid(const sd_top *top) { return (sd_wide)top->bid + top->ask > 0; }

/* Adds time to the top that is in force. */
static void add_time(sd_spread_totals *t, const sd_top *top, int64_t ns) {
  const sd_wide spread = (sd_wide)top->ask - top->bid;
  t->of.quoted_ns += ns;
  /* This is less than 2^64 for less than 2^63 ns in all, so 128 bits hold the sum. */
  const sd_wide sum = sd_wide_of(t->quoted_low, t->quoted_high) + spread * ns;
  t->quoted_low = (uint64_t)sum;
  t->quoted_high = (int64_t)(sum >> 64);
  if (has_mid(top)) {
    t->of.relative_ns += ns;
    t->relative_sum += (double)spread / (0.5 * ((double)top->bid + (double)top->ask)) * (double)ns;
  }
  if (t->of.quoted_ns) average_time(t);
}

/* Accounts the time since the last event to the top that was in force. */
static void pass_time(sd_spread_row *row, const sd_spread_params *p, int64_t time) {
  if (time <= row->last_time) return;
  if (row->last_time && sd_top_sound(&row->top))
    add_time(&row->all, &row->top, sd_open_time(&row->stretch, &p->calendar, row->last_time, time));
  row->last_time = time;
}

/* ---- intervals */

/* Accounts the time up to a moment to the interval under way. The interval lies in one session, and the moment is not after its end. */
static void pass_interval(sd_spread_row *row, int64_t time) {
  if (time <= row->accounted) return;
  if (row->accounted && row->interval.end && sd_top_sound(&row->top))
    add_time(&row->its, &row->top, time - row->accounted);
  row->accounted = time;
}

static int emit_interval(sd_spread_row *row, sd_context *ctx, int64_t i, uint64_t flags) {
  const sd_top top = row->quotes ? row->top : SD_NO_TOP;
  const sd_spread interval = {row->interval.start, row->interval.end, row->its.of, top, flags};
  return sd_emit(ctx, 0, i, &interval);
}

static int is_told(const sd_spread_row *row, const sd_spread_params *p) {
  return row->events || (p->fill && row->its.of.quoted_ns);
}

/* Begins the interval of a moment in a session. */
static void begin(sd_spread_row *row, const sd_spread_params *p, sd_context *ctx, uint32_t key, int64_t time) {
  sd_interval_begin(&row->interval, &row->stretch, p->every, time, ctx, key);
  /* From the interval's start on, the top that is in force counts for it. */
  if (row->accounted && row->accounted < row->interval.start) row->accounted = row->interval.start;
  row->events = 0;
  row->its = (sd_spread_totals){0};
  row->its.of.quoted = row->its.of.relative = row->its.of.effective = row->its.of.effective_mean = NAN;
}

/* Ends the interval under way. Nonzero: no memory. */
static int end_interval(sd_spread_row *row, const sd_spread_params *p, sd_context *ctx, int64_t i) {
  if (row->accounted) pass_interval(row, row->interval.end);
  if (is_told(row, p)) {
    if (row->events == 0 && sd_count_empty(&row->empty_left, ctx)) return -1;
    if (emit_interval(row, ctx, i, 0)) return -1;
  }
  row->interval.end = 0;
  return 0;
}

/* Ends what ends at or before a moment, and begins intervals that are emitted even if nothing comes. Nonzero: no memory. */
static int advance(sd_spread_row *row, const sd_spread_params *p, sd_context *ctx, int64_t i, uint32_t key,
                   int64_t time) {
  for (;;) {
    int64_t at = row->accounted;
    if (row->interval.end) {
      if (time < row->interval.end) return 0;
      at = row->interval.end;
      if (end_interval(row, p, ctx, i)) return -1;
    }
    if (!row->empty_left || !sd_top_sound(&row->top)) return 0;
    const int inside = sd_stretch_at(&row->stretch, &p->calendar, at);
    /* The day may be over, between sessions or without any: a timer leaves what follows to the next event. */
    if (i < 0 && !sd_in_session(&row->stretch, &p->calendar)) return 0;
    if (!inside) at = row->stretch.end;
    if (at > time) return 0;
    sd_stretch_at(&row->stretch, &p->calendar, at);
    begin(row, p, ctx, key, at);
  }
}

/* The moment at which an event counts for intervals. */
static int64_t interval_time(const sd_spread_row *row, int64_t time) {
  return time > row->accounted ? time : row->accounted;
}

/* ---- events */

/* Nonzero: the sum does not fit into a volume. */
static int trade(sd_spread_row *row, const sd_spread_params *p, sd_context *ctx, const sd_event *e) {
  pass_time(row, p, e->time);
  const int inside = sd_stretch_at(&row->stretch, &p->calendar, e->time);
  row->outside += !inside;
  sd_spread_totals *its = inside && p->every && row->interval.end ? &row->its : NULL;
  if (its) row->events++;
  if (e->trade.price == SD_UNDEF_PRICE || !sd_top_sound(&row->top)) {
    row->all.of.unmatched += inside;
    if (its) its->of.unmatched++;
    return 0;
  }
  sd_wide twice = 2 * (sd_wide)e->trade.price - row->top.bid - row->top.ask;
  if (twice < 0) twice = -twice;
  return (inside && add_trade(&row->all, ctx, twice, e->trade.size)) ||
         (its && add_trade(its, ctx, twice, e->trade.size));
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
  row->unusable += sd_top_sound(&row->top) && !has_mid(&row->top);
}

/* The top is gone. A cleared book was in force until now. A day's last top was in force until its last event, or, for an interval, until
 * the end of the interval. Nonzero: no memory. */
static int clear(sd_spread_row *row, const sd_spread_params *p, sd_context *ctx, int64_t i, uint32_t key,
                 const sd_event *e) {
  const int day = e->clear == SD_CLEAR_DAY;
  if (p->every) {
    const int64_t at = interval_time(row, e->time);
    if (day) row->empty_left = 0;
    if (advance(row, p, ctx, i, key, at)) return -1;
    if (day) {
      sd_interval_cut(&row->interval, at, ctx, key);
      if (row->accounted) row->accounted = at;
      if (row->interval.end && end_interval(row, p, ctx, i)) return -1;
    } else if (row->accounted) {
      /* An interval may begin with this clear. The top that goes counts for it, and its going is a change. */
      if (!row->interval.end && sd_top_sound(&row->top) && sd_stretch_at(&row->stretch, &p->calendar, at))
        begin(row, p, ctx, key, at);
      pass_interval(row, at);
      row->events += row->quotes && (row->top.bid != SD_UNDEF_PRICE || row->top.ask != SD_UNDEF_PRICE);
    }
  }
  if (row->last_time) {
    if (!day) pass_time(row, p, e->time);
    else if (e->time > row->last_time) row->last_time = e->time;
  }
  if (row->quotes) row->top = SD_NO_TOP;
  return 0;
}

/* Brings the intervals to the moment of an event. Nonzero: no memory. */
static int meet(sd_spread_row *row, const sd_spread_params *p, sd_context *ctx, int64_t i, uint32_t key, int64_t time) {
  if (!p->every) return 0;
  const int64_t at = interval_time(row, time);
  if (advance(row, p, ctx, i, key, at)) return -1;
  if (!row->interval.end && sd_stretch_at(&row->stretch, &p->calendar, at)) begin(row, p, ctx, key, at);
  pass_interval(row, at);
  if (p->fill && row->accounted) row->empty_left = SD_MAX_EMPTY;
  return 0;
}

/* Nonzero: no memory, or a sum that does not fit. */
static int take_event(sd_spread_row *row, const sd_spread_params *p, sd_context *ctx, int64_t i, uint32_t key,
                      const sd_event *e) {
  /* The trade comes first: it met the top that its own event then clears, or its own fill changes. */
  if (e->trade.size >= 0 && (meet(row, p, ctx, i, key, e->time) || trade(row, p, ctx, e))) return -1;
  if (e->clear && clear(row, p, ctx, i, key, e)) return -1;
  if (!e->bid && !e->ask) return 0;
  if (meet(row, p, ctx, i, key, e->time)) return -1;
  quote(row, p, e);
  return 0;
}

int64_t sd_handle_spread(void *rows, const sd_tick *ticks, int64_t n, sd_context *ctx) {
  const sd_spread_params *p = ctx->params;
  sd_event e;
  for (int64_t i = 0; i < n; i++) {
    const uint32_t key = ticks[i].instrument_id;
    if (sd_read_event(&p->source, ticks, i, n, ctx, &e)) return i;
    if ((e.trade.size >= 0 || e.clear || e.bid || e.ask) && take_event(row_of(rows, key, ctx), p, ctx, i, key, &e))
      return i;
    if (ctx->yield) return i + 1;
  }
  return n;
}

int sd_wake_spread(void *rows, uint32_t key, int64_t time, sd_context *ctx) {
  return advance(row_of(rows, key, ctx), ctx->params, ctx, -1, key, sd_due_at(time, ctx));
}

int sd_finish_spread(void *rows, uint32_t key, sd_context *ctx) {
  const sd_spread_params *p = ctx->params;
  sd_spread_row *row = row_of(rows, key, ctx);
  return p->partial && row->interval.end && is_told(row, p) ? emit_interval(row, ctx, -1, SD_INTERVAL_PARTIAL) : 0;
}
