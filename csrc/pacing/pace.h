/* Publishing at a pace: waits until a tick is due, and counts by how much each was late. Times are those of CLOCK_MONOTONIC, in ns. */
#pragma once

#include <stdint.h>

#include "memory/counters.h"

/* cffi: begin */
/* One thread writes it; others read it while that thread does not run. */
typedef struct sd_pace_book {
  uint64_t ticks;
  uint64_t late;               /* ticks more than late_after behind */
  uint64_t furthest;           /* the most that a tick was behind, ns */
  uint64_t bucket[SD_BUCKETS]; /* ticks by ns behind, buckets as in memory/counters.h */
} sd_pace_book;

uint64_t sd_pace_now(void);

/* Waits. Returns 1 at `until`, or 0 if a signal came first. Sleeps until `spin` before that, because a sleeper wakes some tens of us
 * late, and then watches the clock. */
int sd_pace_wait(uint64_t until, uint64_t spin);

/* Counts n ticks that were due at due[i] and are published `now`; an early one counts as on time. */
void sd_pace_note(sd_pace_book *book, const int64_t *due, uint64_t n, int64_t now, uint64_t late_after);

/* The smallest value of each of SD_BUCKETS buckets. */
void sd_pace_floors(uint64_t *floors);
/* cffi: end */
