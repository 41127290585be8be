/* A publisher's private part, shared by the files that publish: publish/publish.c (the call), publish/cost_model.c (which way pays),
 * publish/inline.c (records handled where they lie), publish/chunk.c, publish/one_by_one.c and publish/listing.c (records into their
 * strands). */
#pragma once

#include "blocks/choice.h"
#include "state/state.h"

#include <string.h>

#if defined(SD_MODEL_SCHEDULER)
enum { SPLICE = 2, SD_REPEAT_RECORDS = 1 };
#else
enum {
  SPLICE = 64,          /* strands listed at once */
  SD_REPEAT_RECORDS = 8 /* a chunk has few strands if it has more than so many records of each */
};
#endif
enum {
  SD_MAX_GROUPS = UINT16_MAX,
  SD_SLICE = 128 /* the most records handled inline in one call */
};

/* A strand's part of what is being published. */
typedef struct group {
  unsigned char *to, *end; /* where its next record goes, and where the segment ends */
  uint32_t n;              /* records */
  uint32_t missing;        /* how many of them found no place */
  uint32_t strand;
  uint8_t locked; /* its publish lock is held */
  uint8_t open;   /* and its records may be linked */
} group;

/* Records order[from .. to) of a strand, which have found no space yet. */
typedef struct waiting_group {
  uint32_t strand;
  uint32_t from, to;
  uint32_t level; /* with bounds over strands: for which it was asked whether there is room, ... */
  uint32_t asked; /* ... and for how many of them: those that the strand itself has a place for */
} waiting_group;

typedef struct ready_chain {
  uint32_t n;
  uint32_t strand[SPLICE];
} ready_chain;

/* Scratch memory for conflating, for the records of a strand and of a chunk. It is allocated with the publisher, so that no allocation
 * happens under a strand's lock. All NULL if no strand conflates. */
typedef struct sd_conflation {
  unsigned char *records;
  sd_position *positions;
  uint32_t *origin; /* per record that is kept: its place among all of them */
  uint32_t *seen;   /* per symbol: the last round that kept a record of it */
  uint32_t round;
} sd_conflation;

enum { SD_COSTS = 4 };

/* What one of the ways cost in the last samples, in clock counts per record. */
typedef struct sd_cost {
  double last[SD_COSTS];
  uint32_t n; /* samples so far */
} sd_cost;

/* Whose a call's records are. */
enum { SD_ANYBODYS = 0, SD_FEEDERS, SD_CONSTANT };

/* Which way records are published. */
enum { BY_ENQUEUE = 0, BY_INLINE = 1 };

struct sd_publisher {
  uint32_t
      *group_of;    /* per strand: its place in groups[]; while it is owned, its number of records; 0 between chunks */
  uint32_t *of_key; /* per key: its records in a run that owns all strands; 0 between runs */
  uint16_t *in_group;  /* per record of the chunk: its group */
  uint32_t *keys;      /* and its key, as it was when it was checked */
  uint16_t *order;     /* records that wait, grouped by strand */
  unsigned char *copy; /* memory for records that are handled inline */
  const unsigned char *
      slice; /* the records of the slice: there, or, if nobody can change them, where they were (a key is read twice) */
  sd_position *positions; /* the chunk's, or a slice's; NULL where records carry none */
  sd_conflation conflation;
  group *groups; /* 1 .. n_groups */
  uint32_t n_groups, max_groups;
  uint32_t *repeat_groups;  /* the strands of the last chunk */
  uint32_t n_repeat_groups; /* how many; 0 if they were not few */
  int missed;               /* a record of the chunk found no place at first */
  waiting_group *waiting;
  uint32_t level, asked;            /* with bounds over strands: of the group that is put in; */
  uint64_t granted[SD_LEVEL_COUNT]; /* records that may still go in, ... */
  uint64_t denied[SD_LEVEL_COUNT];  /* ... and how many there was no room for */
  uint32_t n_waiting;
  ready_chain *chains; /* per worker: strands to list with it */
  /* the call under way */
  const unsigned char *records;
  int64_t n, at; /* records in all; where the chunk starts */
  int64_t chunk; /* records in the chunk */
  int nested;    /* published from inside a handler: never waits, never runs handlers */
  int one_core;  /* the publisher and the workers have one core */
  int cheap;     /* whether the handler was cheap when it last ran inline */
  int open;      /* a call is under way, perhaps between two slices */
  int own;       /* nobody else changes its records; SD_ANYBODYS, ... */
  int within;    /* a nested call, in the middle of the participant's own call */
  uint64_t since_look;
  uint64_t number, end_time;  /* of the records numbered last: the first number, and the feed's time after them */
  uint64_t numbered;          /* how many of them, if they were handled inline */
  uint32_t busy;              /* the strand that was not idle when strands were last to be owned */
  sd_choice in_blocks;        /* whether long calls go in blocks, see publish/in_blocks.h */
  const unsigned char *after; /* what is left of the call while records that blocks kept back are published */
  int64_t n_after, at_after;
  const uint64_t *held_places; /* where those records lie in the call's */
  const sd_position *given;    /* the positions that the call's records have already; NULL: they get some */
  /* which way, see publish/cost_model.h */
  int better;                   /* the way that costs less, as far as is known */
  int on_trial;                 /* the other way is being tried */
  int64_t next_trial, interval; /* records until the next trial, and between two trials */
  int64_t runs;                 /* inline runs one after another */
  uint64_t tried;               /* and the clock counts they took */
  sd_cost enqueue_cost, inline_cost;
  int64_t in_a_row; /* records of this call and of the long calls right before it */
  int64_t warm_up;  /* records to enqueue before their cost counts */
  int filled;       /* the first of them have been enqueued */
  uint64_t spent;   /* clock counts of the `sampled` records that were enqueued since */
  int64_t sampled;
};

static inline void prefetch_publisher_line(sd_dispatcher *d, uint32_t strand) {
  sd_prefetch_write(&d->strands[strand].publish_lock);
}

/* Whether no other participant is at work on a call of its own. N1: relaxed. With positions it is exact under number_lock, under which
 * every bound that counts is set and every number is taken. Otherwise it is a hint. */
static inline int sd_publishes_alone(const sd_dispatcher *d, uint32_t participant) {
  int alone = 1;
  for (uint32_t i = 0; i < d->n_participants; i++)
    alone &= i == participant || sd_load(&d->participants[i].publishing, relaxed, N1) == sd_not_publishing(d);
  return alone;
}

static inline void prefetch_token_line(sd_dispatcher *d, uint32_t strand) {
  sd_prefetch_write(&d->strands[strand].pending);
}

/* `at`: the key of a record; `left`: how many records there are from it on. Asks for what the keys of the following records will look up:
 * first their place in the map, then their strand's place in group_of. */
static inline void prefetch_lookups(const sd_dispatcher *d, const sd_publisher *p, const unsigned char *at,
                                    int64_t left) {
  enum { MAP_AHEAD = 24, GROUP_AHEAD = 12 };
  const size_t size = d->pool.record_size;
  if (SD_LIKELY(left > MAP_AHEAD)) sd_prefetch(d->map + sd_key_at(at + MAP_AHEAD * size));
  if (SD_LIKELY(left > GROUP_AHEAD)) {
    const uint32_t key = sd_key_at(at + GROUP_AHEAD * size);
    if (SD_LIKELY(key < d->arena->n_symbols)) sd_prefetch_write(p->group_of + d->map[key]);
  }
}

static inline void sd_forget_groups(sd_publisher *p) {
  for (uint32_t i = 1; i <= p->n_groups; i++) {
    p->group_of[p->groups[i].strand] = 0;
    p->groups[i].n = 0;
  }
  p->n_groups = 0;
}
