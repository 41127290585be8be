/* The claims of a Python worker, one after the other. */
#ifndef SD_WORKER_PY_WORKER_H
#define SD_WORKER_PY_WORKER_H

#include "state/state.h"

/* A Python worker, and what it has in its hands: whole, so that one crossing with one argument ends a claim and takes
 * the next one. */
typedef struct sd_hand {
  int64_t first, end; /* where the claim's records lie, in records from the start of the arena */
  sd_dispatcher *d;
  uint32_t slot;
  int32_t what; /* the claim's kind, as sd_worker_next says it */
  sd_claim claim;
} sd_hand;
/* sd_worker_next for Python. Returns the strand where its records lie in the arena, from `first` to `end`; -1 for all
 * that has to be looked at more closely: `what` says which it is. */
int64_t sd_hand_next(sd_hand *hand);
/* The same, when Python has handled all of the claim in hand. */
int64_t sd_hand_go_on(sd_hand *hand);

#endif
