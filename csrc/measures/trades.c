#include "measures/trades.h"

/* Nonzero: the sum does not fit into a volume, or no memory. */
static int take(void *at, sd_context *ctx, int64_t i, const sd_tick *t, const sd_event *e) {
  sd_trades_row *row = at;
  const sd_trade *trade = &e->trade;
  if (trade->size < 0) return 0;
  if (trade->price == SD_UNDEF_PRICE) {
    row->unpriced++;
    return 0;
  }
  if (sd_add_volume(&row->volume, trade->size, ctx)) return -1;
  row->trades++;
  row->last_price = trade->price;
  row->last_size = trade->size;
  const sd_trade_emitted emitted = {
      .ts_event = t->ts_event,
      .price = trade->price,
      .size = trade->size,
      .order_id = trade->order_id,
      .match_id = trade->match_id,
      .aggressor = trade->aggressor,
      .hidden = trade->hidden,
      .cross = trade->cross,
  };
  return sd_emit(ctx, 0, i, &emitted);
}

int64_t sd_handle_trades(void *rows, const sd_tick *ticks, int64_t n, sd_context *ctx) {
  return sd_take_events(rows, ticks, n, ctx, take);
}
