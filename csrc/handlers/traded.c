#include "handlers/traded.h"

#include <stdio.h>

#include "base/atomic.h"

/* Nonzero: *made is a trade, and the handler is called with it. */
static int traded_of(const sd_traded_params *p, const sd_tick *t, const sd_trade *trade, sd_traded *made) {
  if (trade->size < 0) return 0;
  if (trade->price == SD_UNDEF_PRICE) {
    p->unpriced[t->instrument_id]++;
    return 0;
  }
  *made = (sd_traded){
      .ts_event = t->ts_event,
      .ts_recv = t->ts_recv,
      .order_id = trade->order_id,
      .price = trade->price,
      .size = trade->size,
      .instrument_id = t->instrument_id,
      .publisher_id = t->publisher_id,
      .aggressor = trade->aggressor,
      .hidden = trade->hidden,
      .match_id = trade->match_id,
      .sequence = sd_sequence(t),
      .cross = trade->cross,
  };
  return 1;
}

/* Trades that a call of the handler gets together. */
enum { TOGETHER = 32 };

/* The next trades among ticks, from tick *i on, and their places. A trade without a price is counted in its turn. Sets *i to the tick where
 * it stopped. */
static int64_t next_trades(const sd_traded_params *p, const sd_tick *ticks, int64_t n, int64_t *i, sd_traded *made,
                           int64_t *places) {
  const sd_top no_quote = SD_NO_TOP;
  const sd_resting nobody = {SD_UNDEF_PRICE, 'N'};
  int64_t k = 0;
  for (; *i < n && k < TOGETHER; ++*i) {
    const sd_tick *t = &ticks[*i];
    if (!sd_is_trade(t, &p->source.rules)) continue;
    const sd_trade trade = sd_trade_of(t, &p->source.rules, nobody, &no_quote);
    if (k && trade.price == SD_UNDEF_PRICE) break;
    places[k] = *i;
    k += traded_of(p, t, &trade, &made[k]);
  }
  return k;
}

/* Without outputs and timers, which need one tick a call, and without books, which would be ahead of a failure. */
static int64_t handle_together(void *rows, const sd_tick *ticks, int64_t n, sd_context *ctx) {
  const sd_traded_params *p = ctx->params;
  sd_traded made[TOGETHER];
  int64_t places[TOGETHER], i = 0;
  while (i < n) {
    const int64_t k = next_trades(p, ticks, n, &i, made, places);
    if (!k) continue;
    ctx->params = p->params;
    const int64_t done = p->fn(rows, (const sd_tick *)(const void *)made, k, ctx);
    ctx->params = p;
    if (SD_LIKELY(done == k)) continue;
    if (done >= 0 && done < k) return places[done];
    snprintf(ctx->message, sizeof ctx->message, "the handler returned %lld for %lld trades", (long long)done,
             (long long)k);
    return places[0];
  }
  return n;
}

int64_t sd_handle_traded(void *rows, const sd_tick *ticks, int64_t n, sd_context *ctx) {
  const sd_traded_params *p = ctx->params;
  if (!ctx->positions && !p->source.tape) return handle_together(rows, ticks, n, ctx);
  const sd_position *positions = ctx->positions;
  const unsigned char *keys = ctx->keys;
  sd_reader reader;
  const sd_event *e;
  sd_traded made;
  int64_t i;
  sd_open_events(&reader, &p->source, ticks, n, ctx);
  for (i = 0; i < n; i++) {
    if (!(e = sd_read_event(&reader, i))) break;
    if (!traded_of(p, &ticks[i], &e->trade, &made)) continue;
    /* The handler emits, and asks for timers, on behalf of this tick. */
    ctx->params = p->params;
    if (positions) {
      ctx->positions = positions + i;
      ctx->keys = keys + (uint64_t)i * ctx->record_size;
    }
    const int64_t done = p->fn(rows, (const sd_tick *)(const void *)&made, 1, ctx);
    ctx->params = p;
    if (done != 1) {
      ctx->yield = 0; /* else tick i - 1 would be the one that asked for a timer, and this one would come again */
      break;
    }
    if (ctx->yield) {
      i++;
      break;
    }
  }
  ctx->positions = positions;
  ctx->keys = keys;
  return i;
}

int sd_wake_traded(void *rows, uint32_t key, int64_t time, sd_context *ctx) {
  const sd_traded_params *p = ctx->params;
  ctx->params = p->params;
  const int code = p->wake(rows, key, time, ctx);
  ctx->params = p;
  return code;
}

int sd_finish_traded(void *rows, uint32_t key, sd_context *ctx) {
  const sd_traded_params *p = ctx->params;
  ctx->params = p->params;
  const int code = p->finish(rows, key, ctx);
  ctx->params = p;
  return code;
}

int64_t sd_trades_of(const sd_traded_params *p, const sd_tick *ticks, int64_t n, sd_traded *made, sd_context *ctx) {
  sd_reader reader;
  sd_open_events(&reader, &p->source, ticks, n, ctx);
  for (int64_t i = 0; i < n; i++) {
    const sd_event *e = sd_read_event(&reader, i);
    if (!e) return i;
    if (!traded_of(p, &ticks[i], &e->trade, &made[i])) made[i] = (sd_traded){.size = -1};
  }
  return n;
}
