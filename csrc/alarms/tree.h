/* Alarms: when each symbol's timer is due, with one tree per strand. The leaves are the strand's symbols. A node holds the earlier alarm
 * of its two children, so node 1, the root, says when the strand's next timer is due.
 *
 * Only the strand's owner writes, and only it reads below the root; others read roots (K4), see worker/alarm.h. Each tree begins on a
 * cache line of its own. With n symbols, leaf i is node n + i, and the children of node k are 2k and 2k + 1. */
#pragma once

#include "base/atomic.h"

#define SD_NEVER UINT64_MAX
enum { SD_ALARM_NEAR = 128 }; /* nodes */

typedef struct sd_alarm_tree {
  sd_a64 *node;
  const uint32_t *symbol; /* of each leaf */
  uint32_t n;
} sd_alarm_tree;

/* Where a strand's tree lies among all trees. */
typedef struct sd_alarm_span {
  uint64_t node;
  uint32_t symbol, n;
} sd_alarm_span;

/* Where a symbol's alarm is. */
typedef struct sd_alarm_place {
  uint32_t strand, leaf; /* the leaf is a node of the strand's tree */
} sd_alarm_place;

typedef struct sd_alarms {
  sd_alarm_span *span;   /* one per strand */
  sd_alarm_place *place; /* one per symbol */
  uint32_t *symbols;     /* one per symbol */
  sd_a64 *nodes;         /* sd_alarm_nodes() of them, at a cache line */
} sd_alarms;

/* How many nodes the trees need for so many symbols on so many strands. */
uint64_t sd_alarm_nodes(uint32_t n_symbols, uint32_t n_strands);
/* Sets all alarms to SD_NEVER, and takes the strand of each symbol. The caller has allocated w's memory and set it to zero. */
void sd_alarms_start(const sd_alarms *w, const uint32_t *strand_of, uint32_t n_symbols, uint32_t n_strands);

static inline sd_alarm_tree sd_alarm_tree_of(const sd_alarms *w, uint32_t strand) {
  const sd_alarm_span *span = &w->span[strand];
  return (sd_alarm_tree){w->nodes + span->node, w->symbols + span->symbol, span->n};
}

/* When the strand's next timer is due. By its owner. */
static inline uint64_t sd_alarm_next(const sd_alarm_tree *t) {
  /* K4: relaxed; the owner's own. */
  return sd_load(&t->node[1], relaxed, K4);
}

/* Whether an alarm comes before what has this time. The greatest time stands for never, even if the feed's time reaches it. */
static inline int sd_alarm_precedes(uint64_t alarm, uint64_t time) { return alarm <= time - (time == SD_NEVER); }

/* Sets a leaf. Nonzero: the root has changed. */
static inline int sd_alarm_set(const sd_alarm_tree *t, uint32_t leaf, uint64_t ns) {
  uint32_t at = leaf;
  while (at > 1) {
    sd_store(&t->node[at], ns, relaxed, K4);
    uint64_t other = sd_load(&t->node[at ^ 1], relaxed, K4);
    if (other < ns) ns = other;
    at /= 2;
    if (sd_load(&t->node[at], relaxed, K4) == ns) return 0;
  }
  if (sd_alarm_next(t) == ns) return 0;
  /* K4: release; pairs with the acquire of a thread that looks for alarms: if it sees that an alarm is gone, it sees that the timer fired
   * and what it emitted (E1). */
  sd_store(&t->node[1], ns, release, K4);
  return 1;
}

/* Asks for the tree, or for the part of it next to its root: another core may have written it last. */
static inline void sd_alarm_ask(const sd_alarm_tree *t) {
  const uint32_t a_line = SD_LINE / sizeof *t->node, nodes = 2 * t->n < SD_ALARM_NEAR ? 2 * t->n : SD_ALARM_NEAR;
  for (uint32_t at = 0; at < nodes; at += a_line) sd_prefetch_write(&t->node[at]);
}

static inline uint64_t sd_alarm_at(const sd_alarm_tree *t, uint32_t leaf) {
  return sd_load(&t->node[leaf], relaxed, K4);
}

/* The leaf with the earliest alarm. */
uint32_t sd_alarm_first(const sd_alarm_tree *t);
/* Up to `maximum` of the leaves whose alarms are at or before `time`; returns how many. */
uint32_t sd_alarm_due(const sd_alarm_tree *t, uint64_t time, uint32_t *leaf, uint32_t maximum);
