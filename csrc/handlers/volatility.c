#include "handlers/volatility.h"

#include <math.h>
#include <string.h>

static const double HALF_PI = 1.57079632679489661923;

static sd_volatility_row *row_of(void *rows, uint32_t key, const sd_context *ctx) {
  return (sd_volatility_row *)((unsigned char *)rows + key * ctx->row_stride);
}

/* ---- samples */

static void add_return(sd_variation *v, double r, double product) {
  v->rv += r * r;
  v->bv += HALF_PI * product;
  v->sum += r;
  v->volatility = sqrt(v->rv);
  v->returns++;
}

/* The price in force is the next sample. */
static void sample(sd_volatility_row *row) {
  if (row->sampled) {
    const double r = row->price == row->sampled ? 0 : log((double)row->price / (double)row->sampled), size = fabs(r);
    const double product = row->last >= 0 ? size * row->last : 0;
    add_return(&row->of, r, product);
    if (row->end) add_return(&row->window, r, product);
    row->last = size;
  } else {
    row->last = -1;
  }
  row->sampled = row->price;
}

/* So many more samples of a price that stayed the same: returns of zero. */
static void sample_same(sd_volatility_row *row, int64_t n) {
  if (n == 0) return;
  row->of.returns += n;
  if (row->end) row->window.returns += n;
  row->last = 0;
}

/* Takes the samples of the grid that are due at or before a moment; all of them lie in one session. */
static void sample_until(sd_volatility_row *row, const sd_volatility_params *p, int64_t time) {
  if (!p->by_time || row->next == 0 || time < row->next) return;
  const int64_t more = (time - row->next) / p->step;
  sample(row);
  sample_same(row, more);
  /* A session's end is a point of the grid too, and its last: what comes after starts anew. */
  int64_t span;
  if (__builtin_mul_overflow(p->step, more + 1, &span) || __builtin_add_overflow(row->next, span, &row->next))
    row->next = INT64_MAX;
}

/* ---- windows and sessions */

static int emit_window(const sd_volatility_row *row, sd_context *ctx, int64_t i, uint64_t flags) {
  const sd_volatility window = {row->start, row->end, row->window, flags};
  return sd_emit(ctx, 0, i, &window);
}

static void start_window(sd_volatility_row *row, const sd_volatility_params *p, int64_t time) {
  sd_grid(&row->stretch, p->every, time, &row->start, &row->end);
  memset(&row->window, 0, sizeof row->window);
}

/* Samples and closes all that ends at or before a moment. Nonzero: no room. */
static int pass_time(sd_volatility_row *row, const sd_volatility_params *p, sd_context *ctx, int64_t i, int64_t time) {
  const int64_t session_end = row->stretch.inside ? row->stretch.end : 0;
  const int64_t last = session_end && time > session_end ? session_end : time;
  while (row->end && row->end <= last) {
    sample_until(row, p, row->end);
    if (row->window.returns && (sd_tell_empty(&row->empty_left, ctx) || emit_window(row, ctx, i, 0))) return -1;
    const int64_t end = row->end;
    row->end = 0;
    if (end == session_end || row->next == 0) break;
    /* Windows in which nothing is traded have returns of zero alone. */
    start_window(row, p, end);
  }
  sample_until(row, p, last);
  if (session_end && time >= session_end) {
    row->sampled = 0;
    row->next = row->end = 0;
  }
  return 0;
}

/* When something is due though nothing is traded. */
static void wish(const sd_volatility_row *row, const sd_volatility_params *p, uint32_t key, sd_context *ctx) {
  int64_t next = INT64_MAX;
  if (p->by_time && row->next && (row->sampled == 0 || row->price != row->sampled)) next = row->next;
  if (row->end && row->end < next) next = row->end;
  if (ctx->wake_at && next != INT64_MAX) ctx->wake_at(ctx, key, next);
}

/* Nonzero: no room. */
static int take_price(sd_volatility_row *row, const sd_volatility_params *p, sd_context *ctx, int64_t i, uint32_t key,
                      int64_t time, int64_t price) {
  if (time < row->last_time) time = row->last_time;
  row->last_time = time;
  if (pass_time(row, p, ctx, i, time)) return -1;
  if (!sd_stretch_at(&row->stretch, &p->calendar, time)) return 0;
  if (price <= 0 || price == SD_UNDEF_PRICE) {
    row->left_out++;
    return 0;
  }
  if (p->every && row->end == 0) start_window(row, p, time);
  row->prices++;
  row->price = price;
  row->empty_left = SD_MOST_EMPTY;
  if (!p->by_time) {
    if (row->sampled == 0 || ++row->count >= p->step) {
      row->count = 0;
      sample(row);
    }
  } else if (row->next == 0 && time) {
    int64_t start;
    sd_grid(&row->stretch, p->step, time, &start, &row->next);
  }
  wish(row, p, key, ctx);
  return 0;
}

/* The top is gone. A new day has no price to begin with: no return spans two days. Nonzero: no room. */
static int clear(sd_volatility_row *row, const sd_volatility_params *p, sd_context *ctx, int64_t i, uint32_t key,
                 const sd_event *e) {
  if (row->quoted) row->top = SD_NO_TOP;
  if (e->clear == SD_CLEAR_BOOK || row->prices == 0) return 0;
  const int64_t time = e->time > row->last_time ? e->time : row->last_time;
  /* What its timer would have done; returns of zero are counted up to the last price alone. */
  if (row->next && row->next <= time && row->price != row->sampled) sample_until(row, p, row->next);
  if (row->end > time) row->end = time;
  if (row->end && row->window.returns && emit_window(row, ctx, i, 0)) return -1;
  row->last_time = time;
  row->sampled = row->next = row->count = row->end = 0;
  if (ctx->wake_at) ctx->wake_at(ctx, key, 0);
  return 0;
}

static int take_event(sd_volatility_row *row, const sd_volatility_params *p, sd_context *ctx, int64_t i, uint32_t key,
                      const sd_event *e) {
  if (!p->mid) return e->trade.size ? take_price(row, p, ctx, i, key, e->time, e->trade.price) : 0;
  if (!e->bid && !e->ask) return 0;
  if (!row->quoted) row->top = SD_NO_TOP;
  row->quoted = 1;
  const sd_top was = row->top;
  sd_top_take(&row->top, e);
  if (!sd_top_sound(&row->top) || (was.bid == row->top.bid && was.ask == row->top.ask)) return 0;
  /* Rounded down where it lies between two units. */
  return take_price(row, p, ctx, i, key, e->time, row->top.bid + (row->top.ask - row->top.bid) / 2);
}

int64_t sd_handle_volatility(void *rows, const sd_tick *ticks, int64_t n, sd_context *ctx) {
  const sd_volatility_params *p = ctx->params;
  sd_event e;
  for (int64_t i = 0; i < n; i++) {
    const uint32_t key = ticks[i].instrument_id;
    if (sd_read_event(&p->source, ticks, i, n, ctx, &e)) return i;
    if (e.clear && clear(row_of(rows, key, ctx), p, ctx, i, key, &e)) return i;
    if (take_event(row_of(rows, key, ctx), p, ctx, i, key, &e)) return i;
    if (ctx->yield) return i + 1;
  }
  return n;
}

int sd_wake_volatility(void *rows, uint32_t key, int64_t time, sd_context *ctx) {
  sd_volatility_row *row = row_of(rows, key, ctx);
  if (pass_time(row, ctx->params, ctx, -1, time)) return -1;
  if (time > row->last_time) row->last_time = time;
  wish(row, ctx->params, key, ctx);
  return 0;
}

int sd_finish_volatility(void *rows, uint32_t key, sd_context *ctx) {
  const sd_volatility_params *p = ctx->params;
  const sd_volatility_row *row = row_of(rows, key, ctx);
  return p->partial && row->end && row->window.returns ? emit_window(row, ctx, -1, 1) : 0;
}
