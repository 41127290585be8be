#include "measures/spread.h"

#include <math.h>

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
static void pass_time(sd_spread_row *row, const sd_measure_params *p, int64_t time) {
  if (time <= row->last_time) return;
  if (row->last_time && sd_top_sound(&row->top))
    add_time(&row->all, &row->top, sd_open_time(&row->stretch, &p->calendar, row->last_time, time));
  row->last_time = time;
}

/* ---- intervals */

static int emit(const void *at, sd_context *ctx, int64_t i, uint64_t flags) {
  const sd_spread_row *row = at;
  const sd_top top = row->quotes ? row->top : SD_NO_TOP;
  const sd_spread interval = {row->interval.start, row->interval.end, row->its.of, top, flags};
  return sd_emit(ctx, 0, i, &interval);
}

static void begin(void *at) {
  sd_spread_row *row = at;
  row->events = 0;
  row->its = (sd_spread_totals){0};
  row->its.of.quoted = row->its.of.relative = row->its.of.effective = row->its.of.effective_mean = NAN;
}

static int stands(const void *at) { return sd_top_sound(&((const sd_spread_row *)at)->top); }

static void pass(void *at, int64_t ns) {
  sd_spread_row *row = at;
  if (stands(row)) add_time(&row->its, &row->top, ns);
}

static const sd_measure SPREAD = {
    .stretch = offsetof(sd_spread_row, stretch),
    .interval = offsetof(sd_spread_row, interval),
    .now = offsetof(sd_spread_row, accounted),
    .empty_left = offsetof(sd_spread_row, empty_left),
    .events = offsetof(sd_spread_row, events),
    .stood = offsetof(sd_spread_row, its.of.quoted_ns),
    .emit = emit,
    .begin = begin,
    .pass = pass,
    .stands = stands,
};

/* ---- events */

/* Nonzero: the sum does not fit into a volume. */
static int trade(sd_spread_row *row, const sd_measure_params *p, sd_context *ctx, const sd_event *e) {
  pass_time(row, p, e->time);
  const int inside = sd_stretch_at(&row->stretch, &p->calendar, e->time);
  if (!inside && sd_leave_out(&row->outside, &row->stretch, &p->calendar, ctx)) return -1;
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

/* Nonzero: nobody knows whether it is in a session. */
static int quote(sd_spread_row *row, const sd_measure_params *p, sd_context *ctx, const sd_event *e) {
  if (row->quotes == 0) row->top = SD_NO_TOP;
  pass_time(row, p, e->time);
  if (!sd_top_take(&row->top, e)) return 0;
  row->quotes++;
  if (p->every) row->events++;
  const int both = row->top.bid != SD_UNDEF_PRICE && row->top.ask != SD_UNDEF_PRICE;
  row->one_sided += !both;
  row->locked += both && row->top.bid >= row->top.ask;
  row->unusable += sd_top_sound(&row->top) && !has_mid(&row->top);
  return sd_stretch_at(&row->stretch, &p->calendar, e->time) ? 0 : sd_check_known(&row->stretch, &p->calendar, ctx);
}

/* The top is gone. A cleared book was in force until now. A day's last top was in force until its last event, or, for an interval, until
 * the end of the interval. Nonzero: no memory. */
static int clear(sd_spread_row *row, uint32_t key, sd_context *ctx, int64_t i, const sd_event *e) {
  const sd_turn own = sd_turn_of(&SPREAD, row, key, ctx, i), *turn = &own;
  const int day = e->clear == SD_CLEAR_DAY;
  if (turn->p->every && day) {
    if (sd_begin_day(turn, e->time)) return -1;
  } else if (turn->p->every) {
    /* That the top goes is a change. */
    const int changes = row->quotes && sd_top_any(&row->top);
    if (sd_meet_clear(turn, e->time, changes)) return -1;
    row->events += changes && row->interval.end;
  }
  if (row->last_time) {
    if (!day) pass_time(row, turn->p, e->time);
    else if (e->time > row->last_time) row->last_time = e->time;
  }
  if (row->quotes) row->top = SD_NO_TOP;
  return 0;
}

/* Brings the intervals to the moment of an event. Nonzero: no memory. */
static int meet(sd_spread_row *row, uint32_t key, sd_context *ctx, int64_t i, int64_t time) {
  const sd_turn turn = sd_turn_of(&SPREAD, row, key, ctx, i);
  if (sd_meet(&turn, time)) return -1;
  if (turn.p->fill && row->accounted) row->empty_left = SD_MAX_EMPTY;
  return 0;
}

/* Nonzero: no memory, or a sum that does not fit. */
static int take(void *at, sd_context *ctx, int64_t i, const sd_tick *t, const sd_event *e) {
  sd_spread_row *row = at;
  const sd_measure_params *p = ctx->params;
  const uint32_t key = t->instrument_id;
  /* The trade comes first: it met the top that its own event then clears, or its own fill changes. */
  if (e->trade.size >= 0 && ((p->every && meet(row, key, ctx, i, e->time)) || trade(row, p, ctx, e))) return -1;
  if (e->clear && clear(row, key, ctx, i, e)) return -1;
  if (!e->bid && !e->ask) return 0;
  if (p->every && meet(row, key, ctx, i, e->time)) return -1;
  return quote(row, p, ctx, e);
}

SD_MEASURE_HANDLER(spread, SPREAD, take)
