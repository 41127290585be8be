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

static int take(void *at, sd_context *ctx, int64_t i, const sd_tick *t, const sd_event *e) {
  sd_bbo_row *row = at;
  sd_top top = row->changes ? row->top : SD_NO_TOP;
  return sd_top_change(&top, e) && change(row, &top, ctx, i, t->ts_event);
}

int64_t sd_handle_bbo(void *rows, const sd_tick *ticks, int64_t n, sd_context *ctx) {
  return sd_take_events(rows, ticks, n, ctx, take);
}
