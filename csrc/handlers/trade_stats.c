#include "handlers/trade_stats.h"

/* 1: a buyer's, -1: a seller's, 0: nobody can tell. */
static int64_t direction_of(sd_trade_stats_row *row, const sd_event *e, uint64_t sign) {
  if (row->trades && e->price != row->price_last) row->direction = e->price > row->price_last ? 1 : -1;
  if (sign == SD_SIGN_TICK) return row->direction;
  const int64_t of_side = e->side == 'B' ? 1 : e->side == 'A' ? -1 : 0;
  return sign == SD_SIGN_SIDE ? of_side : -of_side;
}

static void take_sizes(sd_trade_stats_row *row, uint64_t size) {
  if (row->trades == 1 || size < row->size_min) row->size_min = size;
  if (row->trades == 1 || size > row->size_max) row->size_max = size;
  const double off = (double)size - row->size_mean;
  row->size_mean += off / (double)row->trades;
  row->size_squares += off * ((double)size - row->size_mean);
  if (row->trades > 1) row->size_variance = row->size_squares / (double)(row->trades - 1);
}

static void take(sd_trade_stats_row *row, const sd_event *e, uint64_t sign) {
  const int64_t direction = direction_of(row, e, sign);
  row->trades++;
  row->volume += e->size;
  sd_wide_add(&row->notional_low, &row->notional_high, (sd_wide)e->price * (sd_wide)e->size);
  row->notional = (double)sd_wide_of(row->notional_low, row->notional_high) / (double)SD_PRICE_SCALE;
  take_sizes(row, e->size);
  if (row->trades == 1) {
    row->price_min = row->price_max = row->price_first = e->price;
    row->first_time = row->last_time = e->time;
  }
  if (e->price < row->price_min) row->price_min = e->price;
  if (e->price > row->price_max) row->price_max = e->price;
  row->price_last = e->price;
  row->signed_volume += direction * (int64_t)e->size;
  row->buys += direction > 0;
  row->sells += direction < 0;
  if (e->time > row->last_time) row->last_time = e->time;
  if (row->trades > 1) row->interarrival_ns = (double)(row->last_time - row->first_time) / (double)(row->trades - 1);
}

int64_t sd_handle_trade_stats(void *rows, const sd_tick *ticks, int64_t n, sd_context *ctx) {
  const sd_trade_stats_params *p = ctx->params;
  sd_event e;
  for (int64_t i = 0; i < n; i++) {
    if (sd_read_event(&p->source, &ticks[i], ctx, &e)) return i;
    if (e.size == 0) continue;
    sd_trade_stats_row *row = (sd_trade_stats_row *)((unsigned char *)rows + ticks[i].instrument_id * ctx->row_stride);
    if (!sd_stretch_at(&row->stretch, &p->calendar, e.time)) continue;
    if (e.price == SD_UNDEF_PRICE) row->unpriced++;
    else take(row, &e, p->sign);
  }
  return n;
}
