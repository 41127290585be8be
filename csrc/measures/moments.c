#include "measures/moments.h"

static void begin(sd_moments_row *row, const sd_moments_params *p, uint32_t key) {
  const sd_contract *list = sd_contract_of(&p->source, key);
  row->begun = 1;
  row->price = SD_UNDEF_PRICE;
  row->state.top = SD_NO_TOP;
  if (!list) return;
  row->at = p->bounds[(uint64_t)list->worth - 1];
  row->end = p->bounds[(uint64_t)list->worth];
}

/* Adds the time up to a moment to the price that stands. Nonzero: the sum does not fit. */
static int pass(sd_moment_state *state, const sd_moments_row *row, const sd_moments_params *p, int64_t time,
                sd_context *ctx) {
  const sd_top *top = &row->state.top;
  const int64_t ns = time - row->now;
  const int is_priced =
      p->mid ? top->bid != SD_UNDEF_PRICE && top->ask != SD_UNDEF_PRICE : row->price != SD_UNDEF_PRICE;
  if (ns <= 0 || !is_priced) return 0;
  const sd_wide price = p->mid ? (sd_wide)top->bid + top->ask : row->price;
  state->priced_ns += ns;
  return sd_wide_add(&state->price_low, &state->price_high, price, ns, ctx);
}

/* Emits the states at the moments that lie before an event at `now`. Nonzero: no memory, or a sum does not fit. */
static int answer(sd_moments_row *row, const sd_moments_params *p, sd_context *ctx, int64_t i, int64_t now) {
  for (; row->at < row->end; row->at++) {
    const int64_t time = p->times[row->at];
    if (i >= 0 && (p->strict ? time > now : time >= now)) return 0;
    sd_moment found = {.index = row->at, .state = row->state};
    if (pass(&found.state, row, p, time, ctx) || sd_emit(ctx, 0, i, &found)) return -1;
  }
  return 0;
}

static int trade(sd_moments_row *row, sd_context *ctx, const sd_trade *trade) {
  sd_moment_state *state = &row->state;
  if (trade->price == SD_UNDEF_PRICE) {
    row->unpriced++;
    return 0;
  }
  row->price = trade->price;
  state->trades++;
  return sd_add_volume(&state->volume, trade->size, ctx) ||
         sd_wide_add(&state->notional_low, &state->notional_high, trade->price, trade->size, ctx);
}

static int take(void *at, sd_context *ctx, int64_t i, const sd_tick *t, const sd_event *e) {
  sd_moments_row *row = at;
  const sd_moments_params *p = ctx->params;
  if (!row->begun) begin(row, p, t->instrument_id);
  const int64_t now = e->time > row->now ? e->time : row->now;
  if (answer(row, p, ctx, i, now) || pass(&row->state, row, p, now, ctx)) return -1;
  row->now = now;
  if (sd_top_change(&row->state.top, e)) row->state.quoted = now;
  if (e->clear == SD_CLEAR_DAY) {
    row->price = SD_UNDEF_PRICE;
    row->state.quoted = 0;
  }
  return e->trade.size >= 0 && trade(row, ctx, &e->trade);
}

int64_t sd_handle_moments(void *rows, const sd_tick *ticks, int64_t n, sd_context *ctx) {
  return sd_take_events(rows, ticks, n, ctx, take);
}

int sd_finish_moments(void *rows, uint32_t key, sd_context *ctx) {
  sd_moments_row *row = sd_row_of(rows, key, ctx);
  return row->begun ? answer(row, ctx->params, ctx, -1, row->now) : 0;
}
