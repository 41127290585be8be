/* Where the level books of all symbols lie. */
#ifndef SD_HANDLERS_DEPTH_LAYOUT_H
#define SD_HANDLERS_DEPTH_LAYOUT_H

#include "handlers/depth_side.h"

typedef struct sd_depth {
  sd_depth_side side[2];
  uint64_t in_snapshot;
} sd_depth;

struct sd_depths {
  uint64_t n;
  sd_relative book; /* sd_depth by symbol */
  sd_pools pools;
};

#endif
