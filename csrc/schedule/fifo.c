/* First in, first out: strands are drained in the order in which they became ready. */
#include "schedule/policy.h"

static void list_strands(const sd_ready *ready, uint32_t list, const uint32_t *strands, uint32_t n) {
  sd_list_push(&ready->lists[list], sd_ring(ready, list), strands, n);
}

static uint32_t pick(const sd_ready *ready, uint32_t list, uint32_t *strands, uint32_t maximum, uint32_t share) {
  return sd_list_pop(&ready->lists[list], sd_ring(ready, list), strands, maximum, share);
}

const sd_policy sd_policy_fifo = {"fifo", list_strands, pick};
