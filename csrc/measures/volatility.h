/* Realised volatility of a symbol's price, from returns r_k = ln(p_k / p_k-1) between samples.
 *
 *   rv          realised variance, sum of r_k^2
 *   bv          bipower variation, pi/2 sum of |r_k| |r_k-1|: the part of rv that is not jumps
 *   volatility  sqrt(rv)
 *
 * Samples are taken on a grid of time (the last price before each point of it: previous-tick sampling), aligned to the session's
 * start, else to the UNIX epoch, from the first time above 0 on; or every n-th price. No return spans two sessions.
 *
 * T. Andersen, T. Bollerslev, F. Diebold, P. Labys, Modeling and forecasting realized volatility, Econometrica 71 (2003); O.
 * Barndorff-Nielsen, N. Shephard, Power and bipower variation with stochastic volatility and jumps, J. of Financial Econometrics
 * 2 (2004). Nothing is annualised, and bv has no correction for small samples. Plain sums in the order of samples.
 *
 * With `every`, the sums of each window of that length are emitted when it ends, if it has a return. A return belongs to the window in
 * which its sample was taken, and the last sample of one window is the first price of the next. Windows without a price are emitted by a
 * timer in the session of the last price, otherwise when the next price of the same day comes. Windows do not change the totals. The
 * totals count the returns of zero after the last changed price only once another price comes.
 *
 * A receive time that runs backwards counts as the latest of the symbol's ticks. It changes no earlier sample and no earlier window: if
 * such a price brings a return for a window that was emitted, the return goes into the window under way.
 */
#pragma once

#include "measures/interval.h"

/* The way of its params: prices of trades; or the mid, whenever a sound top changes it. */
enum { SD_PRICES_TRADES = 0, SD_PRICES_MID = 1 };

/* Emitted; also what a row sums up. */
typedef struct sd_variation {
  double rv, bv, volatility;
  double sum;      /* of returns: the window's whole return */
  int64_t returns; /* zero returns, where nothing was traded, are some */
} sd_variation;

typedef struct sd_volatility {
  int64_t start, end; /* ns, end not in it; cut by the session */
  sd_variation of;
  uint64_t flags; /* SD_INTERVAL_PARTIAL */
} sd_volatility;

typedef struct sd_volatility_row {
  sd_variation of;    /* since the start, all windows */
  int64_t price;      /* the last one */
  int64_t sampled;    /* of the last sample; 0: none yet in this session */
  int64_t next;       /* time grid: when the next sample is due; 0: no price yet in this session */
  int64_t prices;     /* seen in sessions */
  int64_t left_out;   /* prices at or below 0, or none */
  double last;        /* |r| of the last return; below 0: none that the next one could be multiplied with */
  int64_t last_time;  /* the latest of its ticks; timers do not move it */
  int64_t count;      /* prices since the last sample, where every n-th is one */
  sd_interval at;     /* the window under way; end 0: none, and start is where the last one ended */
  int64_t empty_left; /* how many without a price may come next */
  sd_variation window;
  sd_top top;
  sd_stretch stretch;
  int64_t quoted;  /* there has been a quote */
  int64_t outside; /* prices outside of sessions: left out */
} sd_volatility_row;

/* cffi: begin */
/* Emits sd_volatility to output 0. Its params are sd_measure_params; their step is that of the samples. */
int64_t sd_handle_volatility(void *rows, const sd_tick *ticks, int64_t n, sd_context *ctx);
int sd_wake_volatility(void *rows, uint32_t key, int64_t time, sd_context *ctx);
int sd_finish_volatility(void *rows, uint32_t key, sd_context *ctx);
/* cffi: end */
