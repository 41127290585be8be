#include "measures/vwap.h"

#include <math.h>

/* A trade whose size is in the volume already, which was `before`. */
static void add_contracts(sd_vwap_row *row, const sd_contract *contract, int64_t price, int64_t size, int64_t before) {
  const double paid = (double)price / 1e9, volume = (double)row->volume;
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
  row->notional += (double)price / 1e9 * (double)size;
  row->vwap = row->volume ? row->notional / (double)row->volume : (double)NAN;
  return 0;
}

static int take(void *row, sd_context *ctx, int64_t i, const sd_tick *t, const sd_event *e) {
  const sd_contract *contract = sd_contract_of(ctx->params, t->instrument_id);
  return e->trade.size >= 0 && add(row, contract, e->trade.price, e->trade.size, ctx);
}

int64_t sd_handle_vwap(void *rows, const sd_tick *ticks, int64_t n, sd_context *ctx) {
  const sd_source *source = ctx->params;
  if (source->tape) return sd_take_events(rows, ticks, n, ctx, take);
  for (int64_t i = 0; i < n; i++) {
    const sd_tick *t = &ticks[i];
    if (!sd_is_trade(t, &source->rules)) continue;
    const sd_contract *contract = sd_contract_of(source, t->instrument_id);
    if (add(sd_row_of(rows, t->instrument_id, ctx), contract, sd_price_or_none(t->price), t->size, ctx)) return i;
  }
  return n;
}

/* ---- by intervals */

static int emit(const void *at, sd_context *ctx, int64_t i, uint64_t flags) {
  const sd_vwap_every_row *row = at;
  const sd_vwap interval = {row->interval.start, row->interval.end, row->its, flags};
  return sd_emit(ctx, 0, i, &interval);
}

static void begin(void *row) { ((sd_vwap_every_row *)row)->its = (sd_vwap_row){0}; }

static const sd_measure VWAP = {
    .stretch = offsetof(sd_vwap_every_row, stretch),
    .interval = offsetof(sd_vwap_every_row, interval),
    .now = offsetof(sd_vwap_every_row, now),
    .events = offsetof(sd_vwap_every_row, its.trades),
    .emit = emit,
    .begin = begin,
};

/* Nonzero: no memory, or the sum does not fit into a volume. */
static int take_every(void *at, sd_context *ctx, int64_t i, const sd_tick *t, const sd_event *e) {
  sd_vwap_every_row *row = at;
  const sd_turn turn = sd_turn_of(&VWAP, row, t->instrument_id, ctx, i);
  const sd_measure_params *p = turn.p;
  if (e->clear == SD_CLEAR_DAY && sd_begin_day(&turn, e->time)) return -1;
  if (e->trade.size < 0) return 0;
  /* Timers move this, so the totals do not use it. */
  const int64_t now = sd_interval_time(&turn, e->time);
  if (sd_advance(&turn, now)) return -1;
  sd_pass(&turn, now);
  if (!sd_trade_stretch_at(&row->stretch, &p->calendar, e->time, e->trade.cross))
    return sd_leave_out(&row->outside, &row->stretch, &p->calendar, ctx);
  const sd_contract *contract = sd_contract_of(&p->source, t->instrument_id);
  if (add(&row->all, contract, e->trade.price, e->trade.size, ctx)) return -1;
  if (!p->every || !sd_trade_stretch_at(&row->stretch, &p->calendar, now, e->trade.cross)) return 0;
  if (row->interval.end == 0) sd_begin(&turn, now);
  return add(&row->its, contract, e->trade.price, e->trade.size, ctx);
}

SD_MEASURE_HANDLER(vwap_every, VWAP, take_every)
