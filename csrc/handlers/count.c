#include "handlers/count.h"

#include "measures/tape.h"

int64_t sd_handle_count(void *rows, const sd_tick *ticks, int64_t n, sd_context *ctx) {
  for (int64_t i = 0; i < n; i++) {
    const sd_tick *t = &ticks[i];
    sd_count_row *row = sd_row_of(rows, t->instrument_id, ctx);
    if (t->kind == SD_KIND_TRADE) {
      if (sd_add_volume(&row->volume, t->size, ctx)) return i;
      row->trades++;
      row->last_price = t->price;
    }
    if (row->ticks++ == 0) row->first_ts_recv = t->ts_recv;
    row->last_ts_recv = t->ts_recv;
    row->last_sequence = sd_sequence(t);
  }
  return n;
}
