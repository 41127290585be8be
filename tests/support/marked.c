/* The handler of marked.py, as a user writes it in C. */
#include "sd_handler.h"

typedef struct marked_row {
  uint64_t ticks, hash, wakes, finished;
  double sum;
  int64_t last;
} marked_row;

typedef struct marked_params {
  uint64_t factor;
  int64_t span, fail_at;
} marked_params;

typedef struct mark {
  uint64_t hash;
  uint32_t what;
} mark;

typedef struct late {
  int64_t time, ticks;
} late;

static marked_row *row_of(void *rows, uint32_t key, const sd_context *ctx) {
  return (marked_row *)((unsigned char *)rows + key * ctx->row_stride);
}

static const marked_params *params_of(uint32_t key, const sd_context *ctx) {
  return (const marked_params *)ctx->params + key;
}

static void mix(marked_row *row, uint64_t value, const marked_params *params) {
  row->hash = (row->hash ^ value) * (params->factor | 1);
}

static void ask(marked_row *row, uint32_t key, int64_t now, const marked_params *params, sd_context *ctx) {
  int64_t draw = (int64_t)(row->hash >> 33);
  if (draw % 3 == 0) ctx->wake_at(ctx, key, draw % 7 == 0 ? 0 : now + draw % params->span);
}

int64_t on_ticks(void *rows, const sd_tick *ticks, int64_t n, sd_context *ctx) {
  for (int64_t i = 0; i < n; i++) {
    const sd_tick *t = &ticks[i];
    marked_row *row = row_of(rows, t->instrument_id, ctx);
    const marked_params *params = params_of(t->instrument_id, ctx);
    row->ticks++;
    mix(row, (uint64_t)t->price, params);
    mix(row, (uint64_t)t->size, params);
    mix(row, t->order_id, params);
    mix(row, t->ref_id, params);
    mix(row, (uint64_t)t->ts_event, params);
    mix(row, (uint64_t)sd_sequence(t), params);
    mix(row, (uint64_t)t->publisher_id << 24 | (uint64_t)t->flags << 16 | (uint64_t)t->depth << 8 | t->kind, params);
    mix(row, (uint64_t)(t->action == 'T') * 4 + (uint64_t)(t->action == 'A') * 2 + (uint64_t)(t->side == 'B'), params);
    row->sum += (double)t->size / 3.0;
    row->last = t->price;
    if (row->ticks == (uint64_t)params->fail_at) {
      ctx->error_code = 77;
      return i;
    }
    if (row->hash >> 62 == 0) {
      mark record = {row->hash, (uint32_t)row->ticks};
      if (sd_emit(ctx, 0, i, &record)) return i;
    }
    ask(row, t->instrument_id, ctx->positions[i].time, params, ctx);
    if (ctx->yield) return i + 1;
  }
  return n;
}

int on_wake(void *rows, uint32_t key, int64_t time, sd_context *ctx) {
  marked_row *row = row_of(rows, key, ctx);
  const marked_params *params = params_of(key, ctx);
  row->wakes++;
  mix(row, (uint64_t)time, params);
  late record = {time, (int64_t)row->ticks};
  if (sd_emit(ctx, 1, -1, &record)) return 1;
  ask(row, key, time, params, ctx);
  return 0;
}

int on_finish(void *rows, uint32_t key, sd_context *ctx) {
  marked_row *row = row_of(rows, key, ctx);
  row->finished++;
  mix(row, 1, params_of(key, ctx));
  mark record = {row->hash, 1000000};
  return sd_emit(ctx, 0, -1, &record);
}

int64_t on_trades(void *rows, const sd_traded *trades, int64_t n, sd_context *ctx) {
  for (int64_t i = 0; i < n; i++) {
    const sd_traded *t = &trades[i];
    marked_row *row = row_of(rows, t->instrument_id, ctx);
    const marked_params *params = params_of(t->instrument_id, ctx);
    row->ticks++;
    mix(row, (uint64_t)t->price, params);
    mix(row, (uint64_t)t->size, params);
    mix(row, t->order_id, params);
    mix(row, t->match_id, params);
    mix(row, (uint64_t)t->sequence, params);
    mix(row,
        (uint64_t)t->hidden * 8 + (uint64_t)t->cross * 4 + (uint64_t)(t->aggressor == 'B') * 2 +
            (uint64_t)(t->aggressor == 'A'),
        params);
    row->sum += (double)t->size / 3.0;
    row->last = t->price;
    if (row->hash >> 62 == 0) {
      mark record = {row->hash, (uint32_t)row->ticks};
      if (sd_emit(ctx, 0, i, &record)) return i;
    }
  }
  return n;
}
