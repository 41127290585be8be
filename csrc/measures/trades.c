#include "measures/trades.h"

/* Nonzero: the sum does not fit into a volume, or no memory. */
static int take(sd_trades_row *row, const sd_trade *trade, sd_context *ctx, int64_t i, int64_t ts_event) {
  if (trade->price == SD_UNDEF_PRICE) {
    row->unpriced++;
    return 0;
  }
  if (sd_add_volume(&row->volume, trade->size, ctx)) return -1;
  row->trades++;
  row->last_price = trade->price;
  row->last_size = trade->size;
  const sd_trade_emitted emitted = {
      .ts_event = ts_event,
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
  const sd_source *source = ctx->params;
  sd_event e;
  for (int64_t i = 0; i < n; i++) {
    if (sd_read_event(source, ticks, i, n, ctx, &e)) return i;
    if (e.trade.size < 0) continue;
    sd_trades_row *row = (sd_trades_row *)((unsigned char *)rows + ticks[i].instrument_id * ctx->row_stride);
    if (take(row, &e.trade, ctx, i, ticks[i].ts_event)) return i;
  }
  return n;
}
