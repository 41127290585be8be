/* The same handler twice: one emits a record a tick, the other does not. */
#include "sd_handler.h"

typedef struct row {
  uint64_t ticks, volume;
} row;

typedef struct emitted {
  int64_t price;
  uint32_t size, volume;
} emitted;

static row *handle(void *rows, const sd_tick *t, const sd_context *ctx) {
  row *r = (row *)((char *)rows + t->instrument_id * ctx->row_stride);
  r->ticks++;
  r->volume += t->size;
  return r;
}

int64_t quiet(void *rows, const sd_tick *ticks, int64_t n, sd_context *ctx) {
  for (int64_t i = 0; i < n; i++) handle(rows, &ticks[i], ctx);
  return n;
}

int64_t emitting(void *rows, const sd_tick *ticks, int64_t n, sd_context *ctx) {
  for (int64_t i = 0; i < n; i++) {
    row *r = handle(rows, &ticks[i], ctx);
    emitted *record = sd_emit_reserve(ctx, 0, i);
    if (!record) return i;
    *record = (emitted){ticks[i].price, ticks[i].size, (uint32_t)r->volume};
  }
  return n;
}
