#include "measures/bbo.h"

/* Nonzero: no memory for the record. */
static int change(sd_bbo_row *row, const sd_top *top, sd_context *ctx, int64_t i, int64_t ts_event) {
  const int both = top->bid != SD_UNDEF_PRICE && top->ask != SD_UNDEF_PRICE;
  row->top = *top;
  row->changes++;
  row->one_sided += !both;
  row->locked += both && top->bid >= top->ask;
  const sd_bbo emitted = {ts_event, *top};
  return sd_emit(ctx, 0, i, &emitted);
}

int64_t sd_handle_bbo(void *rows, const sd_tick *ticks, int64_t n, sd_context *ctx) {
  const sd_source *source = ctx->params;
  const sd_top none = SD_NO_TOP;
  sd_event e;
  for (int64_t i = 0; i < n; i++) {
    if (sd_read_event(source, ticks, i, n, ctx, &e)) return i;
    /* If something takes the place of a cleared book (a snapshot of Databento's), both together are one change. */
    if (e.clear && !(e.bid | e.ask)) {
      e.bid = e.ask = 1;
      e.top = none;
    }
    if (!(e.bid | e.ask)) continue;
    sd_bbo_row *row = (sd_bbo_row *)((unsigned char *)rows + ticks[i].instrument_id * ctx->row_stride);
    sd_top top = row->changes ? row->top : none;
    if (sd_top_take(&top, &e) && change(row, &top, ctx, i, ticks[i].ts_event)) return i;
  }
  return n;
}
