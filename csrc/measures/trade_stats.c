#include "measures/trade_stats.h"

/* ---- figures */

/* 1: a buyer's, -1: a seller's, 0: unknown. */
static int64_t direction_of(sd_trade_stats_row *row, const sd_event *e, uint32_t sign) {
  const sd_trade_figures *all = &row->all.of;
  if (row->new_day) row->new_day = 0;
  else if (all->trades && e->trade.price != all->price_last) row->direction = e->trade.price > all->price_last ? 1 : -1;
  if (sign == SD_SIGN_TICK) return row->direction;
  return e->trade.aggressor == 'B' ? 1 : e->trade.aggressor == 'A' ? -1 : 0;
}

static void take_size(sd_trade_totals *t, int64_t size) {
  sd_trade_figures *of = &t->of;
  if (of->trades == 1 || size < of->size_min) of->size_min = size;
  if (of->trades == 1 || size > of->size_max) of->size_max = size;
  const double off = (double)size - of->size_mean;
  of->size_mean += off / (double)of->trades;
  t->size_squares += off * ((double)size - of->size_mean);
  if (of->trades > 1) of->size_variance = t->size_squares / (double)(of->trades - 1);
}

/* Nonzero: the sum does not fit into a volume. */
static int add(sd_trade_totals *t, const sd_contract *contract, sd_context *ctx, const sd_event *e, int64_t time,
               int64_t direction) {
  sd_trade_figures *of = &t->of;
  if (sd_add_volume(&of->volume, e->trade.size, ctx)) return -1;
  of->trades++;
  if (contract && contract->inverse) {
    of->notional = (double)of->volume * contract->worth;
  } else {
    if (sd_wide_add(&t->notional_low, &t->notional_high, e->trade.price, e->trade.size, ctx)) return -1;
    of->notional = (double)sd_wide_of(t->notional_low, t->notional_high) / (double)SD_PRICE_SCALE;
    if (contract) of->notional *= contract->worth;
  }
  take_size(t, e->trade.size);
  if (of->trades == 1) {
    of->price_min = of->price_max = of->price_first = e->trade.price;
    of->first_time = of->last_time = time;
  }
  if (e->trade.price < of->price_min) of->price_min = e->trade.price;
  if (e->trade.price > of->price_max) of->price_max = e->trade.price;
  of->price_last = e->trade.price;
  of->signed_volume += direction * e->trade.size;
  of->buys += direction > 0;
  of->sells += direction < 0;
  if (time > of->last_time) of->last_time = time;
  if (of->trades > 1) of->interarrival_ns = (double)(of->last_time - of->first_time) / (double)(of->trades - 1);
  return 0;
}

/* ---- events */

static int emit(const void *at, sd_context *ctx, int64_t i, uint64_t flags) {
  const sd_trade_stats_row *row = at;
  const sd_trade_stats interval = {row->interval.start, row->interval.end, row->its.of, flags};
  return sd_emit(ctx, 0, i, &interval);
}

static void begin(void *row) { ((sd_trade_stats_row *)row)->its = (sd_trade_totals){.size_squares = 0}; }

static const sd_measure STATS = {
    .stretch = offsetof(sd_trade_stats_row, stretch),
    .interval = offsetof(sd_trade_stats_row, interval),
    .now = offsetof(sd_trade_stats_row, now),
    .events = offsetof(sd_trade_stats_row, its.of.trades),
    .emit = emit,
    .begin = begin,
};

/* Nonzero: no memory, or the sum does not fit into a volume. */
SD_INLINE int trade(sd_trade_stats_row *row, const sd_turn *turn, const sd_event *e) {
  const sd_measure_params *p = turn->p;
  /* Timers move this, so the totals do not use it. Without `every`, a row ends before it. */
  const int64_t now = p->every ? sd_interval_time(turn, e->time) : e->time;
  if (p->every) {
    if (sd_advance(turn, now)) return -1;
    sd_pass(turn, now);
  }
  if (!sd_trade_stretch_at(&row->stretch, &p->calendar, e->time, e->trade.cross))
    return sd_leave_out(&row->outside, &row->stretch, &p->calendar, turn->ctx);
  const int in_interval = p->every && sd_trade_stretch_at(&row->stretch, &p->calendar, now, e->trade.cross);
  if (in_interval && row->interval.end == 0) sd_begin(turn, now);
  const sd_contract *contract = sd_contract_of(&p->source, turn->key);
  if (e->trade.price == SD_UNDEF_PRICE || sd_no_price(contract, e->trade.price)) {
    row->all.of.unpriced++;
    if (in_interval) row->its.of.unpriced++;
    return 0;
  }
  const int64_t direction = direction_of(row, e, p->way);
  if (add(&row->all, contract, turn->ctx, e, e->time, direction)) return -1;
  return in_interval ? add(&row->its, contract, turn->ctx, e, now, direction) : 0;
}

static int take(void *at, sd_context *ctx, int64_t i, const sd_tick *t, const sd_event *e) {
  sd_trade_stats_row *row = at;
  const sd_turn turn = sd_turn_of(&STATS, row, t->instrument_id, ctx, i);
  if (e->clear == SD_CLEAR_DAY) {
    row->direction = 0;
    row->new_day = 1;
    if (turn.p->every && sd_begin_day(&turn, e->time)) return -1;
  }
  return e->trade.size >= 0 && trade(row, &turn, e);
}

SD_MEASURE_HANDLER(trade_stats, STATS, take)
