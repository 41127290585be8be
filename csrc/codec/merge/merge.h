/* Merges several sources of ticks into the order of a replay: receive time, then source, then position.
 *
 * It is a loser tree over the sources' next ticks. Its leaves are sources; an inner node keeps the loser of the two winners below it, and
 * node[0] has the winner of all. Taking a tick replays the way from its leaf to the root. A source that has won twice in a row will
 * probably win again, so its ticks are then copied up to the runner-up's place without a look at the tree.
 *
 * A source whose time runs back goes on at once: it has just won, and now stands before its last tick. So that tick stays where it
 * arrived. Ticks are read where they lie. A tick that is taken is copied, and its instrument_id is looked up in the source's table.
 * Called by one thread at a time; touches nothing but what its arguments point to. */
#pragma once

#include "sd_error.h"
#include "sd_tick.h"

/* cffi: begin */
/* In a source's table: an id without a number yet. */
#define SD_MERGE_UNMAPPED UINT32_MAX

typedef struct sd_merge_source {
  const sd_tick *at;   /* the next tick; any alignment */
  const sd_tick *end;  /* at == end: the caller has to give more, unless `ended` */
  const uint32_t *ids; /* by the source's own instrument_id; NULL: ids stay as they are */
  uint64_t n_ids;
  uint64_t ended; /* nonzero: nothing follows `end` */
} sd_merge_source;

/* A place in the tree. The order is by time, then source; a source at its end loses to all others. */
typedef struct sd_merge_node {
  uint64_t time;
  uint64_t source;
} sd_merge_node;

typedef struct sd_merge {
  sd_merge_source *sources;
  sd_merge_node *nodes; /* as many as sources */
  uint64_t n_sources;   /* 1 or more */
  uint64_t built;       /* 0 before the first call */
  uint64_t made;        /* ticks of the last call */
  uint64_t wanted;      /* the source because of which the last call stopped */
} sd_merge;

/* Copies ticks in order, and the source of each to `from`. Stops when `out` is full, when all sources are at their end (SD_OK with made <
 * capacity), or when it cannot tell what comes next: SD_AGAIN if source `wanted` needs more ticks or its end, SD_E_KEY if the
 * instrument_id of its next tick has no number. `made` ticks are in `out`, whatever the code. */
int sd_merge_take(sd_merge *merge, sd_tick *out, int32_t *from, uint64_t capacity);

/* The position of the first tick whose receive time is before `latest`, or before that of an earlier tick; n if there is none. *reached:
 * the latest receive time of the ticks before it, or `latest`. */
uint64_t sd_merge_ordered(const sd_tick *ticks, uint64_t n, uint64_t latest, uint64_t *reached);
/* cffi: end */
