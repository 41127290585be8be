#include "sd_tally.h"

#include "sd_atomic.h"

void sd_tally(const sd_tick *ticks, uint64_t n, int64_t *counts, uint64_t n_counts) {
  for (uint64_t i = 0; i < n; i++)
    if (SD_LIKELY(ticks[i].instrument_id < n_counts)) counts[ticks[i].instrument_id]++;
}
