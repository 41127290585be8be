/* First in, first out: strands are drained in the order in which they became ready. A list is a ring, with places for all strands, and a
 * chain behind it, which free tasks may need. So the rings are as large as there are strands, however many tasks there may be. */
#include "schedule/policy.h"

#if defined(SD_MODEL_SCHEDULER)
enum { LEAST_PLACES = 2 };
#else
enum { LEAST_PLACES = 4096 };
#endif

static uint32_t fifo_places(uint32_t n_strands) {
  uint32_t n = LEAST_PLACES;
  while (n < n_strands) n <<= 1;
  return n;
}

/* The rings, and then the links. */
static uint64_t fifo_state_bytes(const sd_policy_config *config, uint32_t n_lists, uint32_t n_strands,
                                 uint32_t n_entries) {
  (void)config;
  return ((uint64_t)n_lists * fifo_places(n_strands) + n_entries) * sizeof(uint32_t);
}

static void fifo_start(const sd_ready *ready, const sd_policy_config *config) {
  (void)config;
  for (uint32_t i = 0; i < ready->n_lists; i++) ready->lists[i].mask = fifo_places(ready->n_strands) - 1;
}

static inline sd_a32 *ring_of(const sd_ready *ready, uint32_t list) {
  return (sd_a32 *)(void *)ready->state + (uint64_t)list * (ready->lists[list].mask + 1);
}

static inline uint32_t *links_of(const sd_ready *ready) {
  return (uint32_t *)(void *)((sd_a32 *)(void *)ready->state + (uint64_t)ready->n_lists * (ready->lists[0].mask + 1));
}

static void fifo_ready(const sd_ready *ready, uint32_t list, const uint32_t *strands, uint32_t n, int why,
                       uint64_t now) {
  (void)why;
  (void)now;
  sd_list_push(&ready->lists[list], ring_of(ready, list), links_of(ready), strands, n);
}

static uint32_t fifo_pick(const sd_ready *ready, uint32_t list, uint32_t *strands, uint32_t maximum, uint32_t share) {
  return sd_list_pop(&ready->lists[list], ring_of(ready, list), links_of(ready), strands, maximum, share);
}

static uint32_t fifo_pick_if(const sd_ready *ready, uint32_t list, uint32_t *strand, sd_can_use can, const void *who) {
  return sd_list_pop_if(&ready->lists[list], ring_of(ready, list), links_of(ready), strand, can, who);
}

/* i: less than the places of a ring. */
static uint32_t fifo_peek(const sd_ready *ready, uint32_t list, uint32_t i) {
  return sd_list_peek(&ready->lists[list], ring_of(ready, list), i);
}

static int fifo_count(const sd_ready *ready, uint32_t list, uint32_t *times) {
  sd_list *l = &ready->lists[list];
  const uint32_t *links = links_of(ready);
  int good = 1;
  sd_lock(&l->lock);
  uint32_t chained = l->first;
  for (uint32_t i = 0, n = sd_list_length(l); i < n && good; i++) {
    const uint32_t strand = i <= l->mask ? fifo_peek(ready, list, i) : chained - 1;
    good = strand < ready->n_entries;
    if (!good) break;
    times[strand]++;
    if (i > l->mask) chained = chained == l->last ? 0 : links[strand];
  }
  good = good && !chained; /* the chain has as many as the length says */
  sd_unlock(&l->lock);
  return good;
}

const sd_policy sd_policy_fifo = {
    .name = "fifo",
    .runs_inline = 1,
    .state_bytes = fifo_state_bytes,
    .entry_bytes = sizeof(uint32_t),
    .start = fifo_start,
    .ready = fifo_ready,
    .pick = fifo_pick,
    .pick_if = fifo_pick_if,
    .peek = fifo_peek,
    .count = fifo_count,
};
