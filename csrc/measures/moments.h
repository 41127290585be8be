/* The state of a market at given moments: the best bid and ask that stood, and sums of all trades and of time up to there. The difference
 * of two such states is what happened in between.
 *
 * A symbol's moments are in order. `strict`: what has a moment's own time comes after it; else before it. Receive times that run backwards
 * count as the latest so far. A day's end empties the top, and the last price. */
#pragma once

#include "measures/tape.h"

/* The state at a moment. */
typedef struct sd_moment_state {
  sd_top top;
  int64_t quoted; /* time of the day's last change of the top; 0: there was none */
  int64_t volume; /* of trades so far, as the next three */
  uint64_t notional_low;
  int64_t notional_high; /* price x size, in 1e-9 */
  int64_t trades;
  int64_t priced_ns; /* time with a price */
  uint64_t price_low;
  int64_t price_high; /* price x that time; of a mid, (bid + ask) x time */
} sd_moment_state;

/* Emitted. */
typedef struct sd_moment {
  uint64_t index; /* of the moment */
  sd_moment_state state;
} sd_moment;

typedef struct sd_moments_row {
  sd_moment_state state;
  int64_t price;    /* of the last trade of the day; SD_UNDEF_PRICE: none. Undefined before `begun` */
  int64_t now;      /* the latest time so far: up to it the state is */
  uint64_t at, end; /* the moments that are left */
  uint64_t begun;
  int64_t unpriced; /* trades without a price: they are in no sum */
} sd_moments_row;

/* The list of a symbol's moments is that with the number `worth` - 1 of its contract; a symbol without one has no moments. */
typedef struct sd_moments_params {
  sd_source source;
  const int64_t *times;   /* of all moments, list by list */
  const uint64_t *bounds; /* where each list begins, and where the last one ends */
  uint32_t strict;
  uint32_t mid; /* the price that is weighted by time is the mid; else that of the last trade */
} sd_moments_params;

/* cffi: begin */
/* Emits sd_moment to output 0. */
int64_t sd_handle_moments(void *rows, const sd_tick *ticks, int64_t n, sd_context *ctx);
int sd_finish_moments(void *rows, uint32_t key, sd_context *ctx);
/* cffi: end */
