/* What a scheduling policy is: how ready strands are ordered. It sees strand indices and lists, never queues or handlers.
 *
 * Every function may be called by any slot at any time; a policy keeps what it needs behind the locks of its lists.
 */
#ifndef SD_POLICY_H
#define SD_POLICY_H

#include <stdint.h>

struct sd_dispatcher;

typedef struct sd_policy {
  const char *name;
  /* Lists n strands, whose tokens the caller holds, with slot `list`. */
  void (*ready)(struct sd_dispatcher *d, uint32_t list, const uint32_t *strands, uint32_t n);
  /* Takes up to `most` strands (and at most `share` quarters of what is there) listed with slot `list`; returns how many. */
  uint32_t (*pick)(struct sd_dispatcher *d, uint32_t list, uint32_t *strands, uint32_t most, uint32_t share);
  /* After a visit, optional: it took `counts` of the clock for n records. */
  void (*charge)(struct sd_dispatcher *d, uint32_t strand, uint64_t n, uint64_t counts);
  /* Now and then by each worker, optional: lets what has waited long move up. */
  void (*promote)(struct sd_dispatcher *d, uint32_t list, uint64_t now);
} sd_policy;

extern const sd_policy sd_policy_fifo;

#endif
