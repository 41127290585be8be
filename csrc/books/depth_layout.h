/* Where the level books of all symbols lie. */
#pragma once

#include "books/depth_side.h"

/* The ticks of an event that has not ended wait, so that every question finds the book as the last event left it. */
typedef struct sd_depth {
  sd_depth_side side[2];
  sd_relative waiting; /* sd_tick, of kind QUOTE; unset: none ever waited */
  uint32_t n_waiting, capacity;
  uint64_t in_snapshot; /* the latest tick was part of a snapshot; with ends of events: a tick of this event was */
} sd_depth;

struct sd_depths {
  uint64_t n;
  sd_relative book; /* sd_depth by symbol */
  sd_pools pools;
};
