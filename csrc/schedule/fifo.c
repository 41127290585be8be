/* First in, first out: strands are drained in the order in which they became ready. A list is a ring of strand indices; a strand stands
 * on at most one list, so a ring with as many places as there are entries is never full. */
#include "schedule/fifo.h"

static uint32_t fifo_places(uint32_t n_entries) {
  uint32_t n = 1;
  while (n < n_entries) n <<= 1;
  return n;
}

static uint64_t fifo_state_bytes(uint32_t n_lists, uint32_t n_strands, uint32_t n_entries) {
  (void)n_strands;
  return (uint64_t)n_lists * fifo_places(n_entries) * sizeof(sd_a32);
}

static void fifo_start(const sd_ready *ready, const sd_policy_config *config) {
  (void)config;
  for (uint32_t i = 0; i < ready->n_lists; i++) ready->lists[i].mask = fifo_places(ready->n_entries) - 1;
}

static inline sd_a32 *ring_of(const sd_ready *ready, uint32_t list) {
  return (sd_a32 *)(void *)ready->state + (uint64_t)list * (ready->lists[list].mask + 1);
}

static void fifo_ready(const sd_ready *ready, uint32_t list, const uint32_t *strands, uint32_t n, int why,
                       uint64_t now) {
  (void)why;
  (void)now;
  sd_list_push(&ready->lists[list], ring_of(ready, list), strands, n);
}

static uint32_t fifo_pick(const sd_ready *ready, uint32_t list, uint32_t *strands, uint32_t maximum, uint32_t share) {
  return sd_list_pop(&ready->lists[list], ring_of(ready, list), strands, maximum, share);
}

static uint32_t fifo_peek(const sd_ready *ready, uint32_t list, uint32_t i) {
  return sd_list_peek(&ready->lists[list], ring_of(ready, list), i);
}

static int fifo_count(const sd_ready *ready, uint32_t list, uint32_t *times) {
  sd_list *l = &ready->lists[list];
  int good = 1;
  sd_lock(&l->lock);
  for (uint32_t i = 0, n = sd_list_length(l); i < n && good; i++) {
    const uint32_t strand = fifo_peek(ready, list, i);
    good = strand < ready->n_entries;
    if (good) times[strand]++;
  }
  sd_unlock(&l->lock);
  return good;
}

const sd_policy sd_policy_fifo = {
    .name = "fifo",
    .runs_inline = 1,
    .state_bytes = fifo_state_bytes,
    .start = fifo_start,
    .ready = fifo_ready,
    .pick = fifo_pick,
    .peek = fifo_peek,
    .count = fifo_count,
};
