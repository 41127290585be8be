/* What one line missed by itself: a bit per sequence, in a window that moves with the line. */
#pragma once

#include "live/mold_state.h"

/* Decides everything below `to`: what has not come by now was missed. */
static inline void mold_track_decide(mold_track *t, uint64_t to) {
  if (to <= t->floor) return;
  uint64_t known = to - t->floor < WINDOW ? to : t->floor + WINDOW;
  uint64_t s = t->floor;
  while (s < known) {
    uint64_t *word = &t->seen[(s & (WINDOW - 1)) >> 6];
    if ((s & 63) == 0 && known - s >= 64 && (*word == UINT64_MAX || *word == 0)) {
      if (*word == 0) sd_ranges_add(&t->gaps, s, s + 64);
      *word = 0;
      s += 64;
      continue;
    }
    uint64_t bit = UINT64_C(1) << (s & 63);
    if (!(*word & bit)) sd_ranges_add(&t->gaps, s, s + 1);
    *word &= ~bit;
    s++;
  }
  sd_ranges_add(&t->gaps, known, to);
  t->floor = to;
}

/* Messages [from, to) came on the line; or the line announced them, if from and to are equal. */
static inline void mold_track_saw(mold_track *t, uint64_t from, uint64_t to) {
  if (to > t->floor + WINDOW) mold_track_decide(t, to - WINDOW);
  if (to > t->high) t->high = to;
  if (from < t->floor) from = t->floor;
  for (uint64_t s = from; s < to;) {
    uint64_t n = 64 - (s & 63);
    if (n > to - s) n = to - s;
    t->seen[(s & (WINDOW - 1)) >> 6] |= (n == 64 ? UINT64_MAX : (UINT64_C(1) << n) - 1) << (s & 63);
    s += n;
  }
}
