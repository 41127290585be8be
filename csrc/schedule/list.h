/* A list of strands that are ready: a ring of strand indices under a short lock, and a chain of those that the ring has no place for.
 *
 * An entry is a token: a push gives the token away, and a pop takes it. A strand stands on at most one list, so all lists have one array
 * of links for their chains. Each pop fills the place that it empties from the chain, and so the ring always has the entries at the front.
 * A worker may read the length without the lock, to see whether a look is worthwhile. It may also peek at the next entries, to prefetch
 * the strands that they name. */
#pragma once

#include "base/atomic.h"

typedef struct sd_list {
  sd_a32 lock;
  sd_a32 head;              /* free-running: next to pop */
  sd_a32 tail;              /* free-running: next place to push */
  uint32_t mask;            /* first in, first out: the places of its ring, less one */
  SD_PLAIN(uint32_t) first; /* of its chain, as index + 1; 0: the ring has all */
  SD_PLAIN(uint32_t) last;
  uint32_t unused[(2 * SD_LINE - 24) / 4];
} sd_list;

/* Puts an entry behind the chain's last one. `next`: the links of all entries. Under the lock. */
static inline void sd_list_append(sd_list *list, uint32_t *next, uint32_t entry) {
  if (list->first) next[list->last - 1] = entry + 1;
  else list->first = entry + 1;
  list->last = entry + 1;
}

/* R1: the lock's L3 and L1 carry the token from pusher to popper; entries and bounds are atomic for threads that only peek. */
static inline void sd_list_push(sd_list *list, sd_a32 *ring, uint32_t *next, const uint32_t *strands, uint32_t n) {
  sd_lock(&list->lock);
  const uint32_t head = sd_load(&list->head, relaxed, R1), tail = sd_load(&list->tail, relaxed, R1);
  for (uint32_t i = 0; i < n; i++) {
    if (SD_UNLIKELY(tail + i - head > list->mask)) sd_list_append(list, next, strands[i]);
    else sd_store(&ring[(tail + i) & list->mask], strands[i], relaxed, R1);
  }
  sd_store(&list->tail, tail + n, relaxed, R1);
  sd_unlock(&list->lock);
}

static inline uint32_t sd_list_length(sd_list *list) {
  /* R2: relaxed; a hint. */
  uint32_t head = sd_load(&list->head, relaxed, R2);
  return sd_load(&list->tail, relaxed, R2) - head;
}

/* The length as a sleeper has to see it before it sleeps (schedule/idle.h). */
static inline uint32_t sd_list_length_locked(sd_list *list) {
  /* I2: the lock orders this look and every push. */
  sd_lock(&list->lock);
  uint32_t length = sd_list_length(list);
  sd_unlock(&list->lock);
  return length;
}

/* For a policy that keeps the strands of a list elsewhere, under the lock: n more are listed, or were taken. */
static inline void sd_list_count_listed(sd_list *list, uint32_t n) {
  sd_store(&list->tail, sd_load(&list->tail, relaxed, R1) + n, relaxed, R1);
}

static inline void sd_list_count_taken(sd_list *list, uint32_t n) {
  sd_store(&list->head, sd_load(&list->head, relaxed, R1) + n, relaxed, R1);
}

/* Takes so many of its entries, and fills their places from the chain. Under the lock. */
static inline void sd_list_take(sd_list *list, sd_a32 *ring, const uint32_t *next, uint32_t *strands, uint32_t n) {
  const uint32_t head = sd_load(&list->head, relaxed, R1);
  for (uint32_t i = 0; i < n; i++) {
    sd_a32 *place = &ring[(head + i) & list->mask];
    strands[i] = sd_load(place, relaxed, R1);
    if (SD_LIKELY(!list->first)) continue;
    const uint32_t entry = list->first - 1;
    list->first = list->first == list->last ? 0 : next[entry];
    sd_store(place, entry, relaxed, R1);
  }
  sd_store(&list->head, head + n, relaxed, R1);
}

/* Takes up to `maximum` entries, and of a list of n at most `share` quarters (at least one entry). */
static inline uint32_t sd_list_pop(sd_list *list, sd_a32 *ring, const uint32_t *next, uint32_t *strands,
                                   uint32_t maximum, uint32_t share) {
  if (sd_list_length(list) == 0) return 0;
  sd_lock(&list->lock);
  uint32_t head = sd_load(&list->head, relaxed, R1), n = sd_load(&list->tail, relaxed, R1) - head;
  uint32_t take = (uint32_t)(((uint64_t)n * share + 3) / 4);
  if (take > maximum) take = maximum;
  sd_list_take(list, ring, next, strands, take);
  sd_unlock(&list->lock);
  return take;
}

/* The entry i places from the front, for prefetching: it may already be gone, or be an old one. */
static inline uint32_t sd_list_peek(sd_list *list, sd_a32 *ring, uint32_t i) {
  return sd_load(&ring[(sd_load(&list->head, relaxed, R2) + i) & list->mask], relaxed, R2);
}

/* Whether somebody can use an entry. */
typedef int (*sd_can_use)(const void *who, uint32_t entry);

/* Takes the first entry if can(who, it) says so. It looks without the lock first: most often the answer is the same. */
static inline uint32_t sd_list_pop_if(sd_list *list, sd_a32 *ring, const uint32_t *next, uint32_t *strand,
                                      sd_can_use can, const void *who) {
  if (sd_list_length(list) == 0 || !can(who, sd_list_peek(list, ring, 0))) return 0;
  sd_lock(&list->lock);
  const uint32_t yes = sd_list_length(list) && can(who, sd_list_peek(list, ring, 0));
  sd_list_take(list, ring, next, strand, yes);
  sd_unlock(&list->lock);
  return yes;
}
