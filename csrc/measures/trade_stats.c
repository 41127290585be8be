#include "measures/trade_stats.h"

#include <string.h>

static sd_trade_stats_row *row_of(void *rows, uint32_t key, const sd_context *ctx) {
  return (sd_trade_stats_row *)((unsigned char *)rows + key * ctx->row_stride);
}

/* ---- figures */

/* 1: a buyer's, -1: a seller's, 0: unknown. */
static int64_t direction_of(sd_trade_stats_row *row, const sd_event *e, uint64_t sign) {
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
static int take(sd_trade_totals *t, const sd_contract *contract, sd_context *ctx, const sd_event *e, int64_t time,
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

/* ---- intervals */

static int emit_interval(const sd_trade_stats_row *row, sd_context *ctx, int64_t i, uint64_t flags) {
  const sd_trade_stats interval = {row->interval.start, row->interval.end, row->its.of, flags};
  return sd_emit(ctx, 0, i, &interval);
}

/* Ends the interval under way if a moment is at or after its end. Nonzero: no memory. */
static int pass_time(sd_trade_stats_row *row, sd_context *ctx, int64_t i, int64_t time) {
  if (time > row->now) row->now = time;
  if (!sd_interval_over(&row->interval, time)) return 0;
  if (row->its.of.trades && emit_interval(row, ctx, i, 0)) return -1;
  row->interval.end = 0;
  return 0;
}

/* Nonzero: no memory. */
static int take_event(sd_trade_stats_row *row, const sd_trade_stats_params *p, sd_context *ctx, int64_t i, uint32_t key,
                      const sd_event *e) {
  /* The moment at which the trade counts for intervals. Timers move it, so the totals do not use it. Without `every`, a row ends before
   * `now`. */
  const int64_t at = p->every && row->now > e->time ? row->now : e->time;
  if (p->every && pass_time(row, ctx, i, at)) return -1;
  if (!sd_trade_stretch_at(&row->stretch, &p->calendar, e->time, e->trade.cross)) {
    row->outside++;
    return 0;
  }
  const int in_interval = p->every && sd_trade_stretch_at(&row->stretch, &p->calendar, at, e->trade.cross);
  if (in_interval && row->interval.end == 0) {
    memset(&row->its, 0, sizeof row->its);
    sd_interval_begin(&row->interval, &row->stretch, p->every, at, ctx, key);
  }
  const sd_contract *contract = sd_contract_of(&p->source, key);
  if (e->trade.price == SD_UNDEF_PRICE || sd_no_price(contract, e->trade.price)) {
    row->all.of.unpriced++;
    if (in_interval) row->its.of.unpriced++;
    return 0;
  }
  const int64_t direction = direction_of(row, e, p->sign);
  if (take(&row->all, contract, ctx, e, e->time, direction)) return -1;
  return in_interval ? take(&row->its, contract, ctx, e, at, direction) : 0;
}

/* A new day. Nonzero: no memory. */
static int begin_day(sd_trade_stats_row *row, const sd_trade_stats_params *p, sd_context *ctx, int64_t i, uint32_t key,
                     int64_t time) {
  row->direction = 0;
  row->new_day = 1;
  if (!p->every) return 0;
  const int64_t at = time > row->now ? time : row->now;
  sd_interval_cut(&row->interval, at, ctx, key);
  return pass_time(row, ctx, i, at);
}

int64_t sd_handle_trade_stats(void *rows, const sd_tick *ticks, int64_t n, sd_context *ctx) {
  const sd_trade_stats_params *p = ctx->params;
  sd_event e;
  for (int64_t i = 0; i < n; i++) {
    const uint32_t key = ticks[i].instrument_id;
    if (sd_read_event(&p->source, ticks, i, n, ctx, &e)) return i;
    if (e.clear == SD_CLEAR_DAY && begin_day(row_of(rows, key, ctx), p, ctx, i, key, e.time)) return i;
    if (e.trade.size >= 0 && take_event(row_of(rows, key, ctx), p, ctx, i, key, &e)) return i;
    if (ctx->yield) return i + 1;
  }
  return n;
}

int sd_wake_trade_stats(void *rows, uint32_t key, int64_t time, sd_context *ctx) {
  return pass_time(row_of(rows, key, ctx), ctx, -1, sd_due_at(time, ctx));
}

int sd_finish_trade_stats(void *rows, uint32_t key, sd_context *ctx) {
  const sd_trade_stats_params *p = ctx->params;
  const sd_trade_stats_row *row = row_of(rows, key, ctx);
  return p->partial && row->interval.end && row->its.of.trades ? emit_interval(row, ctx, -1, SD_INTERVAL_PARTIAL) : 0;
}
