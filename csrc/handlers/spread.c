#include "handlers/spread.h"

/* Gives the top that was in force the time since the last event. */
static void pass_time(sd_spread_row *row, const sd_calendar *c, uint64_t time) {
  if (time <= row->last_time) return;
  if (sd_top_sound(&row->top)) {
    const uint64_t ns = sd_open_time(&row->stretch, c, row->last_time, time);
    const int64_t spread = (int64_t)((uint64_t)row->top.ask - (uint64_t)row->top.bid);
    const double mid = 0.5 * ((double)row->top.bid + (double)row->top.ask);
    row->quoted_ns += ns;
    sd_wide_add(&row->quoted_low, &row->quoted_high, (sd_wide)spread * (sd_wide)ns);
    if (mid != 0) row->relative_sum += (double)spread / mid * (double)ns;
    if (row->quoted_ns) {
      const double total = (double)row->quoted_ns;
      row->quoted = (double)sd_wide_of(row->quoted_low, row->quoted_high) / total * 1e-9;
      row->relative = row->relative_sum / total;
    }
  }
  row->last_time = time;
}

void sd_spread_quote(sd_spread_row *row, const sd_calendar *c, const sd_event *e) {
  if (row->quotes == 0) row->top = (sd_top){SD_UNDEF_PRICE, SD_UNDEF_PRICE, 0, 0};
  pass_time(row, c, e->time);
  if (!sd_top_take(&row->top, e)) return;
  row->quotes++;
  const int both = row->top.bid != SD_UNDEF_PRICE && row->top.ask != SD_UNDEF_PRICE;
  row->one_sided += !both;
  row->locked += both && row->top.bid >= row->top.ask;
}

void sd_spread_trade(sd_spread_row *row, const sd_calendar *c, const sd_event *e) {
  pass_time(row, c, e->time);
  if (!sd_stretch_at(&row->stretch, c, e->time)) return;
  if (e->price == SD_UNDEF_PRICE || !sd_top_sound(&row->top)) {
    row->unmatched++;
    return;
  }
  sd_wide twice = 2 * (sd_wide)e->price - row->top.bid - row->top.ask;
  if (twice < 0) twice = -twice;
  row->trades++;
  row->volume += e->size;
  sd_wide_add(&row->mean_low, &row->mean_high, twice);
  sd_wide_add(&row->effective_low, &row->effective_high, twice * (sd_wide)e->size);
  row->effective = (double)sd_wide_of(row->effective_low, row->effective_high) / (double)row->volume * 1e-9;
  row->effective_mean = (double)sd_wide_of(row->mean_low, row->mean_high) / (double)row->trades * 1e-9;
}

int64_t sd_handle_spread(void *rows, const sd_tick *ticks, int64_t n, sd_context *ctx) {
  const sd_spread_params *p = ctx->params;
  sd_event e;
  for (int64_t i = 0; i < n; i++) {
    if (sd_read_event(&p->source, &ticks[i], ctx, &e)) return i;
    sd_spread_row *row = (sd_spread_row *)((unsigned char *)rows + ticks[i].instrument_id * ctx->row_stride);
    /* The trade first: it met the top that its own fill changes. */
    if (e.size) sd_spread_trade(row, &p->calendar, &e);
    if (e.bid || e.ask) sd_spread_quote(row, &p->calendar, &e);
  }
  return n;
}
