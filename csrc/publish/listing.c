/* Lists strands that a publisher made ready, several at once. */
#include "publish/listing.h"

void sd_list_chain(sd_dispatcher *d, uint32_t participant, uint32_t list, ready_chain *chain, uint64_t now) {
  sd_make_ready(d, list, chain->strand, chain->n, SD_WAS_EMPTY, now);
  chain->n = 0;
  if (sd_idle_wake_one(&d->arena->idle)) sd_bump(&d->participants[participant].counters.wakes, 1);
}

void sd_list_chains(sd_dispatcher *d, uint32_t participant, sd_publisher *p, uint64_t now) {
  for (uint32_t list = 0; list < d->n_workers; list++)
    if (p->chains[list].n) sd_list_chain(d, participant, list, &p->chains[list], now);
}
