/* How many of some ticks each symbol has: numpy's way gathers the keys, widens them and counts, in three passes. */
#ifndef SD_TALLY_H
#define SD_TALLY_H

#include "sd_tick.h"

/* Adds n ticks to the counts of their symbols. A symbol from n_counts on has no count, and is left out. */
void sd_tally(const sd_tick *ticks, uint64_t n, int64_t *counts, uint64_t n_counts);

#endif
