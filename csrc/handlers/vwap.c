#include "handlers/vwap.h"

static inline void take(void *rows, uint32_t key, const sd_context *ctx, int64_t price, uint64_t size) {
  sd_vwap_row *row = (sd_vwap_row *)((unsigned char *)rows + key * ctx->row_stride);
  row->trades++;
  row->volume += size;
  row->notional += (double)price * 1e-9 * (double)size;
  row->vwap = row->notional / (double)row->volume;
}

static int64_t over_books(void *rows, const sd_tick *ticks, int64_t n, sd_context *ctx, const sd_source *source) {
  sd_event e;
  for (int64_t i = 0; i < n; i++) {
    if (sd_read_event(source, &ticks[i], ctx, &e)) return i;
    if (e.size && e.price != SD_UNDEF_PRICE) take(rows, ticks[i].instrument_id, ctx, e.price, e.size);
  }
  return n;
}

int64_t sd_handle_vwap(void *rows, const sd_tick *ticks, int64_t n, sd_context *ctx) {
  const sd_source *source = ctx->params;
  if (source->tape) return over_books(rows, ticks, n, ctx, source);
  for (int64_t i = 0; i < n; i++) {
    const sd_tick *t = &ticks[i];
    if (t->kind != SD_KIND_TRADE || t->price == SD_UNDEF_PRICE || t->size == 0) continue;
    if (!(t->flags & SD_DOES_NOT_COUNT)) take(rows, t->instrument_id, ctx, t->price, t->size);
  }
  return n;
}
