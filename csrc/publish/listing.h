/* A strand's bound, and listing strands that a publisher made ready. By the publisher whose participant it is. */
#ifndef SD_PUBLISH_LISTING_H
#define SD_PUBLISH_LISTING_H

#include "publish/publisher.h"

/* Lists the strands of a chain with participant `list`. */
void sd_list_chain(sd_dispatcher *d, uint32_t participant, uint32_t list, ready_chain *chain);
/* Lists those of all chains. */
void sd_list_chains(sd_dispatcher *d, uint32_t participant, sd_publisher *p);

/* Lists a strand whose token this publisher holds, with the participant that drained it last. */
static inline void list_ready(sd_dispatcher *d, uint32_t participant, sd_publisher *p, uint32_t strand, uint32_t list) {
  ready_chain *chain = &p->chains[list];
  chain->strand[chain->n++] = strand;
  if (chain->n == SPLICE) sd_list_chain(d, participant, list, chain);
}

/* How many of n records a strand that keeps what it has lets in; the rest waits, is dropped or refused. `free_records` spares most
 * looks at pending, whose line is a worker's: it can only be too small, because pending grows by publishers alone. */
static inline uint32_t free_for(const sd_dispatcher *d, sd_strand *s, uint32_t n) {
  if (SD_UNLIKELY(s->free_records < n)) {
    /* P7: relaxed; only the bound hangs on it, and pending can only shrink while we hold the lock. */
    int64_t pending = sd_load(&s->pending, relaxed, P7), free_records = (int64_t)s->capacity - pending;
    /* Tasks take no place. */
    if (SD_UNLIKELY(sd_strand_tasks(s))) free_records += sd_task_count(&d->tasks, s);
    s->free_records = free_records <= 0 ? 0 : (uint32_t)free_records;
  }
  return s->free_records < n ? s->free_records : n;
}

/* Adds what was linked, gives the lock back, and lists the strand if that made it ready. */
static inline void add_and_unlock(sd_dispatcher *d, uint32_t participant, sd_publisher *p, uint32_t strand, int64_t net,
                                  uint64_t now) {
  sd_strand *s = &d->strands[strand];
  /* An add of 0 would find 0 on an idle strand, and make a token out of nothing. */
  int ready = net && sd_strand_add(s, net);
  /* The token is ours: so are `last` and `oldest`. */
  uint32_t list = ready ? s->last : 0;
  if (ready) s->oldest = now;
  sd_unlock(&s->publish_lock);
  if (ready) list_ready(d, participant, p, strand, list);
}

#endif
