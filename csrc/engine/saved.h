/* What of a dispatcher outlasts its process. At rest that is a few tables of the arena, and what handlers keep in the space: queues,
 * lists and caches are empty then.
 */
#ifndef SD_ENGINE_SAVED_H
#define SD_ENGINE_SAVED_H

#include "state/state.h"

enum { SD_SAVED_NAME = 24 };

/* Part of the arena, which another process may read back into the same part of its own. */
typedef struct sd_saved_table {
  char name[SD_SAVED_NAME];
  void *at;
  uint64_t bytes;
} sd_saved_table;

/* Fills in up to `room` tables of a dispatcher whose handlers are set, and that is at rest: before its workers start, or after their
 * end. Returns how many there are. */
uint32_t sd_saved_tables(sd_dispatcher *d, sd_saved_table *tables, uint32_t room);
/* After all tables were read back, before the workers start: what was at work when they were saved is at rest. Participants count from
 * here on, and strands go on counting, as rows do. */
void sd_saved_restore(sd_dispatcher *d);

#endif
