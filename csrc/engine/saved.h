/* The part of a dispatcher that a saved state holds. While a dispatcher is quiescent, its queues, lists and caches are empty. So a few
 * tables of the arena are enough, together with what handlers keep in the space. */
#pragma once

#include "state/state.h"

/* cffi: begin */
enum { SD_SAVED_NAME = 24 };

/* A part of the arena. Another process may read it back into the same part of its own arena. */
typedef struct sd_saved_table {
  char name[SD_SAVED_NAME];
  void *at;
  uint64_t bytes;
} sd_saved_table;

/* Fills in up to `capacity` tables and returns how many there are. The handlers are set, and the dispatcher is quiescent: its workers have not
 * started, or have ended. */
uint32_t sd_saved_tables(sd_dispatcher *d, sd_saved_table *tables, uint32_t capacity);
/* After all tables have been read back, before the workers start: resets everything that was in use when they were saved. Participants'
 * counters start anew; counts of strands continue, and so do rows. */
void sd_saved_restore(sd_dispatcher *d);
/* cffi: end */
