/* One symbol's book by price, for formats that give the best levels after each event. */
#pragma once

#include <stdint.h>

typedef struct sd_depth_level {
  int64_t price;
  uint64_t shares;
} sd_depth_level;

/* Levels in order, the best one last, so that a change near the touch moves few of them. */
typedef struct sd_depth_side {
  sd_depth_level *levels;
  uint32_t count, capacity;
  int sign; /* 1 where a higher price is better, -1 where a lower one is */
} sd_depth_side;

/* Adds shares at a price, or removes them if `shares` is negative. SD_OK, SD_E_NO_MEMORY, or SD_E_ARGUMENT if there are fewer to remove.
 * The last two change nothing. */
int sd_depth_change(sd_depth_side *side, int64_t price, int64_t shares);
void sd_depth_destroy(sd_depth_side *side);
