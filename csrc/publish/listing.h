/* A strand's bound, and listing strands that a publisher made ready. By the publisher whose participant it is. */
#pragma once

#include "publish/publisher.h"

/* Lists the strands of a chain with participant `list`. */
void sd_list_chain(sd_dispatcher *d, uint32_t participant, uint32_t list, ready_chain *chain, uint64_t now);
/* Lists the strands of all chains. */
void sd_list_chains(sd_dispatcher *d, uint32_t participant, sd_publisher *p, uint64_t now);

/* Lists a strand whose token this publisher holds, with the participant that drained it last. */
static inline void list_ready(sd_dispatcher *d, uint32_t participant, sd_publisher *p, uint32_t strand, uint32_t list,
                              uint64_t now) {
  ready_chain *chain = &p->chains[list];
  chain->strand[chain->n++] = strand;
  if (chain->n == SPLICE) sd_list_chain(d, participant, list, chain, now);
}

/* How many of n records fit into a strand that keeps what it has; the rest waits, is dropped or is refused. `free_records` avoids most
 * reads of pending, which is on a line that a worker writes. It can only be too small, because only publishers make pending grow. */
static inline uint32_t free_for(const sd_dispatcher *d, sd_strand *s, uint32_t n) {
  if (SD_UNLIKELY(s->free_records < n)) {
    /* P7: relaxed; only the bound depends on it, and pending can only shrink while we hold the lock. */
    int64_t pending = sd_load(&s->pending, relaxed, P7), free_records = (int64_t)s->capacity - pending;
    /* Tasks do not count against the bound. */
    if (SD_UNLIKELY(sd_strand_tasks(s))) free_records = (int64_t)s->capacity - (int64_t)sd_records_there(s);
    s->free_records = free_records <= 0 ? 0 : (uint32_t)free_records;
  }
  return s->free_records < n ? s->free_records : n;
}

/* Adds what was linked, releases the lock, and lists the strand if that made it ready. */
static inline void add_and_unlock(sd_dispatcher *d, uint32_t participant, sd_publisher *p, uint32_t strand, int64_t net,
                                  uint64_t now) {
  sd_strand *s = &d->strands[strand];
  /* An add of 0 would find 0 on an idle strand, and create a second token. */
  int ready = net && sd_strand_add(s, net);
  /* We hold the token, so `last` and `oldest` are ours to use. */
  uint32_t list = ready ? s->last : 0;
  if (ready) s->oldest = now;
  sd_unlock(&s->publish_lock);
  if (ready) list_ready(d, participant, p, strand, list, now);
}
