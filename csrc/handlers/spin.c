#include "handlers/spin.h"

#include "base/atomic.h"

static inline void spin(sd_spin_row *row, const sd_tick *tick, int64_t steps) {
  row->broken += sd_sequence(tick) != row->last_sequence + 1;
  row->last_sequence = sd_sequence(tick);
  row->ticks++;
  uint64_t x = row->value + (uint64_t)tick->price;
  for (int64_t i = 0; i < steps; i++) x = x * 6364136223846793005u + 1442695040888963407u;
  row->value = x;
}

int64_t sd_handle_spin(void *rows, const sd_tick *ticks, int64_t n, sd_context *ctx) {
  /* This is a copy, because the compiler has to assume that rows overlap the parameters. */
  const sd_spin_params params = *(const sd_spin_params *)ctx->params;
  const uint64_t stride = ctx->row_stride;
  unsigned char *base = rows;
  for (int64_t i = 0; i < n; i++) {
    /* The row of the tick two places on is often in another core's cache, so ask for it now. */
    sd_prefetch_write(base + ticks[i + 2 < n ? i + 2 : i].instrument_id * stride);
    int64_t steps = params.work;
    if (params.dear_every && ticks[i].instrument_id % params.dear_every == 0) steps *= params.dear_times;
    spin((sd_spin_row *)(base + ticks[i].instrument_id * stride), &ticks[i], steps);
  }
  return n;
}
