/* First in, first out: strands are drained in the order in which they became ready. */
#include "sd_state.h"

static void ready(sd_dispatcher *d, uint32_t list, const uint32_t *strands, uint32_t n) {
  sd_list_push(&d->lists[list], sd_ring(d, list), strands, n);
}

static uint32_t pick(sd_dispatcher *d, uint32_t list, uint32_t *strands, uint32_t most, uint32_t share) {
  return sd_list_pop(&d->lists[list], sd_ring(d, list), strands, most, share);
}

const sd_policy sd_policy_fifo = {"fifo", ready, pick, NULL, NULL};
