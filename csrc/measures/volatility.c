#include "measures/volatility.h"

#include <math.h>
#include <string.h>

static const double HALF_PI = 1.57079632679489661923;

/* ---- samples */

static void add_return(sd_variation *v, double r, double product) {
  v->rv += r * r;
  v->bv += HALF_PI * product;
  v->sum += r;
  v->volatility = sqrt(v->rv);
  v->returns++;
}

/* Takes the price in force as the next sample. */
static void sample(sd_volatility_row *row) {
  if (row->sampled) {
    const double r = row->price == row->sampled ? 0 : log((double)row->price / (double)row->sampled), size = fabs(r);
    const double product = row->last >= 0 ? size * row->last : 0;
    add_return(&row->of, r, product);
    if (row->at.end) add_return(&row->window, r, product);
    row->last = size;
  } else {
    row->last = -1;
  }
  row->sampled = row->price;
}

/* The points of the grid that are due at or before a moment are samples of an unchanged price: returns of zero. */
static int64_t sample_same(sd_volatility_row *row, const sd_measure_params *p, int64_t time) {
  if (time < row->next) return 0;
  const int64_t n = (time - row->next) / p->step + 1;
  row->of.returns += n;
  row->last = 0;
  /* A session's end is a point of the grid too, and its last one: what comes after starts again. */
  int64_t span;
  if (__builtin_mul_overflow(p->step, n, &span) || __builtin_add_overflow(row->next, span, &row->next))
    row->next = INT64_MAX;
  return n;
}

/* Takes the sample that is due at or before a moment, if its price differs from the one before. */
static void sample_new(sd_volatility_row *row, const sd_measure_params *p, int64_t time) {
  if (row->next == 0 || time < row->next || row->price == row->sampled) return;
  sample(row);
  if (__builtin_add_overflow(row->next, p->step, &row->next)) row->next = INT64_MAX;
}

/* Takes the samples of the grid that are due at or before a moment; all of them lie in one session. */
static void sample_until(sd_volatility_row *row, const sd_measure_params *p, int64_t time) {
  if (row->next == 0) return;
  sample_new(row, p, time);
  /* Up to the window's start, its timer, or the timer of the window before, has counted them. */
  if (row->at.end && row->next <= row->at.start) sample_same(row, p, row->at.start < time ? row->at.start : time);
  const int64_t n = sample_same(row, p, time);
  if (row->at.end) row->window.returns += n;
}

/* ---- windows and sessions */

static int emit(const void *at, sd_context *ctx, int64_t i, uint64_t flags) {
  const sd_volatility_row *row = at;
  const sd_volatility window = {row->at.start, row->at.end, row->window, flags};
  return sd_emit(ctx, 0, i, &window);
}

/* Its windows have a course of their own: samples are taken when their time is due, and end with the session. */
static const sd_measure VOLATILITY = {
    .interval = offsetof(sd_volatility_row, at), .events = offsetof(sd_volatility_row, window.returns), .emit = emit};

static void start_window(sd_volatility_row *row, const sd_measure_params *p, int64_t time) {
  sd_grid(&row->stretch, p->every, time, &row->at.start, &row->at.end);
  memset(&row->window, 0, sizeof row->window);
}

static int64_t session_end(const sd_volatility_row *row) {
  return row->stretch.inside == SD_SESSION ? row->stretch.end : 0;
}

/* Ends the window under way, and begins the next one of its session. Nonzero: no memory. */
static int end_window(sd_volatility_row *row, const sd_measure_params *p, sd_context *ctx, int64_t i) {
  if (row->window.returns && (sd_count_empty(&row->empty_left, ctx) || emit(row, ctx, i, 0))) return -1;
  const int64_t end = row->at.end;
  row->at.start = end;
  row->at.end = 0;
  /* Windows in which nothing is traded have only returns of zero. */
  if (end != session_end(row) && row->next) start_window(row, p, end);
  return 0;
}

/* A price comes: takes samples, and ends all that ends at or before it. Nonzero: no memory. */
static int pass_time(sd_volatility_row *row, const sd_measure_params *p, sd_context *ctx, int64_t i, int64_t time) {
  const int64_t until = session_end(row);
  const int64_t last = until && time > until ? until : time;
  while (row->at.end && row->at.end <= last) {
    sample_until(row, p, row->at.end);
    if (end_window(row, p, ctx, i)) return -1;
  }
  sample_until(row, p, last);
  if (until && time >= until) {
    row->sampled = 0;
    row->next = row->at.end = 0;
  }
  return 0;
}

/* Points of the grid in the window under way that have not been sampled yet. */
static int64_t points_left(const sd_volatility_row *row, const sd_measure_params *p) {
  if (row->next == 0 || row->next > row->at.end) return 0;
  return row->next > row->at.start ? (row->at.end - row->next) / p->step + 1 : (row->at.end - row->at.start) / p->step;
}

/* Sets the alarm for what is due even if nothing is traded. */
static void alarm(const sd_volatility_row *row, const sd_measure_params *p, uint32_t key, sd_context *ctx) {
  int64_t next = INT64_MAX;
  if (p->by_time && row->next && (row->sampled == 0 || row->price != row->sampled)) next = row->next;
  if (row->at.end && row->at.end < next) next = row->at.end;
  if (ctx->wake_at && next != INT64_MAX) ctx->wake_at(ctx, key, sd_alarm_for(next, ctx));
}

/* Nonzero: no memory. */
static int take_price(sd_volatility_row *row, const sd_measure_params *p, sd_context *ctx, int64_t i, uint32_t key,
                      int64_t time, int64_t price) {
  if (time < row->last_time) time = row->last_time;
  row->last_time = time;
  if (pass_time(row, p, ctx, i, time)) return -1;
  if (!sd_stretch_at(&row->stretch, &p->calendar, time))
    return sd_leave_out(&row->outside, &row->stretch, &p->calendar, ctx);
  if (price <= 0 || price == SD_UNDEF_PRICE) {
    row->left_out++;
    alarm(row, p, key, ctx);
    return 0;
  }
  /* The row never emits a window twice: a price from before the last window's end belongs to the one after it. */
  const int64_t at = time > row->at.start ? time : row->at.start;
  if (p->every && row->at.end == 0 && at < row->stretch.end) start_window(row, p, at);
  row->prices++;
  row->price = price;
  row->empty_left = SD_MAX_EMPTY;
  if (!p->by_time) {
    if (row->sampled == 0 || ++row->count >= p->step) {
      row->count = 0;
      sample(row);
    }
  } else if (row->next == 0 && time) {
    int64_t start;
    sd_grid(&row->stretch, p->step, time, &start, &row->next);
  }
  alarm(row, p, key, ctx);
  return 0;
}

/* The top is gone. A new day has no price to begin with, because no return spans two days. Nonzero: no memory. */
static int clear(sd_volatility_row *row, const sd_measure_params *p, sd_context *ctx, int64_t i, uint32_t key,
                 const sd_event *e) {
  if (row->quoted) row->top = SD_NO_TOP;
  if (e->clear == SD_CLEAR_BOOK || row->prices == 0) return 0;
  const int64_t time = e->time > row->last_time ? e->time : row->last_time;
  /* This does what its timer would have done. Returns of zero are counted only up to the last price. */
  sample_new(row, p, time);
  if (row->at.end > time) row->at.end = time > row->at.start ? time : row->at.start;
  if (row->at.end && row->window.returns && emit(row, ctx, i, 0)) return -1;
  if (row->at.end) row->at.start = row->at.end;
  row->last_time = time;
  row->sampled = row->next = row->count = row->at.end = 0;
  if (ctx->wake_at) ctx->wake_at(ctx, key, 0);
  return 0;
}

static int take(void *at, sd_context *ctx, int64_t i, const sd_tick *t, const sd_event *e) {
  sd_volatility_row *row = at;
  const sd_measure_params *p = ctx->params;
  const uint32_t key = t->instrument_id;
  if (e->clear && clear(row, p, ctx, i, key, e)) return -1;
  if (p->way != SD_PRICES_MID) return e->trade.size >= 0 && take_price(row, p, ctx, i, key, e->time, e->trade.price);
  if (!e->bid && !e->ask) return 0;
  if (!row->quoted) row->top = SD_NO_TOP;
  row->quoted = 1;
  const sd_top was = row->top;
  sd_top_take(&row->top, e);
  if (!sd_top_sound(&row->top) || (was.bid == row->top.bid && was.ask == row->top.ask)) return 0;
  /* It is rounded down if it lies between two units. */
  return take_price(row, p, ctx, i, key, e->time, row->top.bid + (row->top.ask - row->top.bid) / 2);
}

int64_t sd_handle_volatility(void *rows, const sd_tick *ticks, int64_t n, sd_context *ctx) {
  return sd_take_events(rows, ticks, n, ctx, take);
}

int sd_wake_volatility(void *rows, uint32_t key, int64_t time, sd_context *ctx) {
  const sd_measure_params *p = ctx->params;
  time = sd_due_at(time, ctx);
  sd_volatility_row *row = sd_row_of(rows, key, ctx);
  /* An alarm for a time in the past comes late, perhaps after the window's end. */
  sample_new(row, p, row->at.end && row->at.end < time ? row->at.end : time);
  if (row->at.end && row->at.end <= time) {
    /* For the window these are returns of zero; the row counts them when a price comes. */
    row->window.returns += points_left(row, p);
    if (end_window(row, p, ctx, -1)) return -1;
    /* Without sessions the day may be over: windows without a price wait for the next price. */
    if (!sd_in_session(&row->stretch, &p->calendar)) return 0;
  }
  alarm(row, p, key, ctx);
  return 0;
}

int sd_finish_volatility(void *rows, uint32_t key, sd_context *ctx) {
  return sd_finish_measure(&VOLATILITY, rows, key, ctx);
}
