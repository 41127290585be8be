#include "measures/vwap.h"

#include <math.h>

/* A trade whose size is in the volume already, which was `before`. */
static void add_contracts(sd_vwap_row *row, const sd_contract *contract, int64_t price, int64_t size, int64_t before) {
  const double paid = (double)price * 1e-9, volume = (double)row->volume;
  if (contract->inverse) {
    const double inverses = before ? (double)before / row->vwap : 0;
    row->notional = volume * contract->worth;
    row->vwap = row->volume ? volume / (inverses + (double)size / paid) : (double)NAN;
  } else {
    row->notional += paid * (double)size * contract->worth;
    row->vwap = row->volume ? row->notional / (volume * contract->worth) : (double)NAN;
  }
}

/* Nonzero: the sum does not fit into a volume. */
static inline int add(sd_vwap_row *row, const sd_contract *contract, int64_t price, int64_t size, sd_context *ctx) {
  if (__builtin_expect(price == SD_UNDEF_PRICE, 0) || sd_no_price(contract, price)) {
    row->unpriced++;
    return 0;
  }
  const int64_t before = row->volume;
  if (sd_add_volume(&row->volume, size, ctx)) return -1;
  row->trades++;
  if (__builtin_expect(contract != NULL, 0)) {
    add_contracts(row, contract, price, size, before);
    return 0;
  }
  row->notional += (double)price * 1e-9 * (double)size;
  row->vwap = row->volume ? row->notional / (double)row->volume : (double)NAN;
  return 0;
}

static inline int take(void *rows, const sd_source *source, uint32_t key, sd_context *ctx, int64_t price,
                       int64_t size) {
  sd_vwap_row *row = (sd_vwap_row *)((unsigned char *)rows + key * ctx->row_stride);
  return add(row, sd_contract_of(source, key), price, size, ctx);
}

static int64_t over_books(void *rows, const sd_tick *ticks, int64_t n, sd_context *ctx, const sd_source *source) {
  sd_event e;
  for (int64_t i = 0; i < n; i++) {
    if (sd_read_event(source, ticks, i, n, ctx, &e)) return i;
    if (e.trade.size >= 0 && take(rows, source, ticks[i].instrument_id, ctx, e.trade.price, e.trade.size)) return i;
  }
  return n;
}

int64_t sd_handle_vwap(void *rows, const sd_tick *ticks, int64_t n, sd_context *ctx) {
  const sd_source *source = ctx->params;
  if (source->tape) return over_books(rows, ticks, n, ctx, source);
  for (int64_t i = 0; i < n; i++) {
    const sd_tick *t = &ticks[i];
    if (!sd_is_trade(t, &source->rules)) continue;
    if (take(rows, source, t->instrument_id, ctx, sd_price_or_none(t->price), t->size)) return i;
  }
  return n;
}

/* ---- by intervals */

static sd_vwap_every_row *row_of(void *rows, uint32_t key, const sd_context *ctx) {
  return (sd_vwap_every_row *)((unsigned char *)rows + key * ctx->row_stride);
}

static int emit_interval(const sd_vwap_every_row *row, sd_context *ctx, int64_t i, uint64_t flags) {
  const sd_vwap interval = {row->interval.start, row->interval.end, row->its, flags};
  return sd_emit(ctx, 0, i, &interval);
}

/* Ends the interval under way if a moment is at or after its end. Nonzero: no memory. */
static int pass_time(sd_vwap_every_row *row, sd_context *ctx, int64_t i, int64_t time) {
  if (time > row->now) row->now = time;
  if (!sd_interval_over(&row->interval, time)) return 0;
  if (row->its.trades && emit_interval(row, ctx, i, 0)) return -1;
  row->interval.end = 0;
  return 0;
}

/* Nonzero: no memory. */
static int take_trade(sd_vwap_every_row *row, const sd_interval_params *p, sd_context *ctx, int64_t i, uint32_t key,
                      const sd_event *e) {
  /* The moment at which the trade counts for intervals. Timers move it, so the totals do not use it. */
  const int64_t at = e->time > row->now ? e->time : row->now;
  if (pass_time(row, ctx, i, at)) return -1;
  if (!sd_trade_stretch_at(&row->stretch, &p->calendar, e->time, e->trade.cross)) {
    row->outside++;
    return 0;
  }
  const sd_contract *contract = sd_contract_of(&p->source, key);
  if (add(&row->all, contract, e->trade.price, e->trade.size, ctx)) return -1;
  if (!p->every || !sd_trade_stretch_at(&row->stretch, &p->calendar, at, e->trade.cross)) return 0;
  if (row->interval.end == 0) {
    row->its = (sd_vwap_row){0};
    sd_interval_begin(&row->interval, &row->stretch, p->every, at, ctx, key);
  }
  return add(&row->its, contract, e->trade.price, e->trade.size, ctx);
}

/* A new day. Nonzero: no memory. */
static int begin_day(sd_vwap_every_row *row, sd_context *ctx, int64_t i, uint32_t key, int64_t time) {
  const int64_t at = time > row->now ? time : row->now;
  sd_interval_cut(&row->interval, at, ctx, key);
  return pass_time(row, ctx, i, at);
}

int64_t sd_handle_vwap_every(void *rows, const sd_tick *ticks, int64_t n, sd_context *ctx) {
  const sd_interval_params *p = ctx->params;
  sd_event e;
  for (int64_t i = 0; i < n; i++) {
    const uint32_t key = ticks[i].instrument_id;
    if (sd_read_event(&p->source, ticks, i, n, ctx, &e)) return i;
    if (e.clear == SD_CLEAR_DAY && begin_day(row_of(rows, key, ctx), ctx, i, key, e.time)) return i;
    if (e.trade.size >= 0 && take_trade(row_of(rows, key, ctx), p, ctx, i, key, &e)) return i;
    if (ctx->yield) return i + 1;
  }
  return n;
}

int sd_wake_vwap_every(void *rows, uint32_t key, int64_t time, sd_context *ctx) {
  return pass_time(row_of(rows, key, ctx), ctx, -1, sd_due_at(time, ctx));
}

int sd_finish_vwap_every(void *rows, uint32_t key, sd_context *ctx) {
  const sd_interval_params *p = ctx->params;
  const sd_vwap_every_row *row = row_of(rows, key, ctx);
  return p->partial && row->interval.end && row->its.trades ? emit_interval(row, ctx, -1, SD_INTERVAL_PARTIAL) : 0;
}
