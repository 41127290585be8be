/* What a scheduling policy is: how ready strands are ordered. It sees strand indices and lists, never queues or handlers.
 *
 * Every function may be called by any participant at any time; a policy keeps what it needs behind the locks of its lists.
 */
#ifndef SD_SCHEDULE_POLICY_H
#define SD_SCHEDULE_POLICY_H

#include <stdint.h>

#include "schedule/list.h"

/* The participants' lists of ready strands. */
typedef struct sd_ready {
  sd_list *lists;
  unsigned char *rings; /* a list's ring lies at rings + lists[list].ring */
} sd_ready;

static inline sd_a32 *sd_ring(const sd_ready *ready, uint32_t list) {
  return (sd_a32 *)(void *)(ready->rings + ready->lists[list].ring);
}

typedef struct sd_policy {
  const char *name;
  /* Lists n strands, whose tokens the caller holds, with participant `list`. */
  void (*ready)(const sd_ready *ready, uint32_t list, const uint32_t *strands, uint32_t n);
  /* Takes up to `maximum` strands (and at most `share` quarters of what is there) listed with participant `list`; returns how many. */
  uint32_t (*pick)(const sd_ready *ready, uint32_t list, uint32_t *strands, uint32_t maximum, uint32_t share);
} sd_policy;

extern const sd_policy sd_policy_fifo;

#endif
