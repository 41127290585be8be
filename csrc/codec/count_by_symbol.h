/* Counts how many ticks each symbol has, how many are of each kind, and how many have a time that runs backwards. It replaces numpy,
 * which would gather the fields, widen them and count, in several passes. */
#pragma once

#include "sd_tick.h"

/* cffi: begin */
/* What has been seen of a run's ticks. All 0 before the first. */
typedef struct sd_seen {
  int64_t ticks;
  int64_t orders, trades, quotes; /* of these kinds */
  int64_t zero_sizes;             /* ticks of kind trade without a size */
  int64_t latest;                 /* the greatest ts_recv, ns; negative: none */
  int64_t behind;                 /* ticks with a ts_recv before the greatest of those before them */
  int64_t furthest_ns;            /* the furthest that one of them was behind */
  int64_t furthest_at;            /* its place among all ticks, from 0 */
  int64_t furthest_symbol;        /* and its symbol */
} sd_seen;

/* Adds n ticks to the counts of their symbols, and to `seen` unless it is NULL. Symbols from n_counts on are not counted. */
void sd_count_by_symbol(const sd_tick *ticks, uint64_t n, int64_t *counts, uint64_t n_counts, sd_seen *seen);
/* cffi: end */
