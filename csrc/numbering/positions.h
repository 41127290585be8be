/* Positions: the numbers of records in the order of publishing, and the feed's time at each. */
#pragma once

#include <string.h>

#include "state/state.h"

/* Returns the next number, and the feed's time before it. The caller has the numbers to itself until it says how many it took, and what
 * the feed's time is after them. It may wait for no lock in between. */
static inline sd_position sd_numbers_begin(sd_dispatcher *d) {
  sd_arena *a = d->arena;
  sd_lock(&a->numbering);
  return (sd_position){sd_load(&a->next_sequence, relaxed, N1) - d->config.sizes.counters_start,
                       sd_load(&a->feed_time, relaxed, N1)};
}

static inline void sd_numbers_end(sd_dispatcher *d, uint32_t n, uint64_t time) {
  sd_arena *a = d->arena;
  sd_lock(&a->number_lock);
  sd_fetch_add(&a->next_sequence, (uint64_t)n, acq_rel, M4);
  sd_store(&a->feed_time, time, relaxed, N1);
  sd_unlock(&a->number_lock);
  sd_unlock(&a->numbering);
}

/* The feed's time at a record, if it was `time` before the record. */
static inline int64_t sd_time_at(const sd_dispatcher *d, const unsigned char *record, int64_t time) {
  int64_t its = 0;
  if (SD_LIKELY(d->config.time_offset != SD_NONE)) memcpy(&its, record + d->config.time_offset, sizeof its);
  return its > time ? its : time;
}
