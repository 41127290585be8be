/* A publisher's private part, shared by the files that publish: sd_publish.c (the call, and which way) and sd_queue.c (groups
 * into their strands). */
#ifndef SD_PUBLISHER_H
#define SD_PUBLISHER_H

#include "sd_dispatcher.h"

#if defined(SD_MODEL_SCHEDULER)
enum { SPLICE = 2 };
#else
enum { SPLICE = 64 }; /* strands listed at one go */
#endif

/* A strand's part of the chunk: records order[from .. to). */
typedef struct group {
  uint32_t strand;
  uint32_t from, to;
  uint32_t linked;
} group;

typedef struct ready_chain {
  uint32_t n;
  uint32_t strand[SPLICE];
} ready_chain;

struct sd_publisher {
  uint32_t *count;  /* a strand: records in this chunk; zero between chunks */
  uint32_t *strand; /* a record of the chunk: its strand */
  uint16_t *order;  /* the chunk's records, grouped by strand */
  group *late;      /* groups whose strand another publisher was at */
  group *groups;    /* the chunk's groups; those not yet all in lie at the front, n_left of them */
  uint32_t n_groups, n_left;
  ready_chain *chains; /* a slot: strands to list with it */
  /* the call under way */
  const unsigned char *records;
  int64_t n, at; /* records in all; where the chunk starts */
  int64_t chunk; /* records in the chunk */
  int nested;    /* published from inside a handler: never waits, never runs handlers */
  int open;      /* a call is under way, perhaps between two slices */
  int within;    /* a nested call in the middle of the slot's own */
  uint64_t since_look;
  /* which way */
  double queue_cost, claim_cost; /* clock counts a record; 0: not known yet */
  uint32_t chunks;
};

static inline void prefetch_publisher_line(sd_dispatcher *d, const group *groups, uint32_t i, uint32_t n) {
  if (i < n) sd_prefetch_write(&d->strands[groups[i].strand].publish_lock);
}

static inline void prefetch_token_line(sd_dispatcher *d, const group *groups, uint32_t i, uint32_t n) {
  if (i < n) sd_prefetch_write(&d->strands[groups[i].strand].pending);
}

/* Queues the chunk's records, counted by strand in groups[]: those that find no room stay there, n_left groups of them. */
void sd_queue_chunk(sd_dispatcher *d, uint32_t slot, sd_publisher *p, uint64_t now);
/* Tries once more to put in what found no room; returns how many records are dealt with. */
uint64_t sd_queue_left(sd_dispatcher *d, uint32_t slot, sd_publisher *p);

#endif
