/* Counters and histograms: a fixed layout in the arena, with one writer per participant and no lock. Readers only load.
 *
 * A histogram is log-linear, with 16 buckets per octave, so a bucket is at most a sixteenth as wide as the values in it. It counts clock
 * counts (base/clock.h); the reader converts the edges of buckets to ns. */
#pragma once

#include "base/atomic.h"

enum {
#if defined(SD_MODEL_RELACY)
  SD_SUB_BITS = 0,
  SD_OCTAVES = 1,
#else
  SD_SUB_BITS = 4,
  SD_OCTAVES = 44,
#endif
  SD_SUB = 1 << SD_SUB_BITS,
  SD_BUCKETS = SD_SUB * (SD_OCTAVES - SD_SUB_BITS + 1)
};

typedef struct sd_histogram {
  sd_a64 bucket[SD_BUCKETS];
} sd_histogram;

/* A participant's counters. Workers and publishers have the same ones. */
typedef struct sd_counters {
  sd_a64 accepted;       /* records published through this participant, dropped ones included */
  sd_a64 handled;        /* records whose handler ran here */
  sd_a64 failed;         /* records whose handler failed here */
  sd_a64 dropped[5];     /* by this publisher: newest, oldest, conflated, quarantined, shed */
  sd_a64 dropped_at[5];  /* the same by level, under a policy with levels */
  sd_a64 lost;           /* records that the owner of a lossy strand had copied out when the strand was quarantined */
  sd_a64 handled_inline; /* records handled where they lay, by the publisher, without being enqueued */
  sd_a64 handled_ungrouped; /* of these, those for which the publisher owned all strands, so that it grouped none */
  sd_a64 handled_in_blocks; /* records handled in blocks, without being enqueued */
  sd_a64 stolen;            /* strands taken from another participant's list */
  sd_a64 cut;               /* visits that the budget ended */
  sd_a64 busy;              /* clock counts spent draining, and in tasks */
  sd_a64 parks;             /* how often this participant went to sleep */
  sd_a64 wakes;             /* how often it woke another participant */
  sd_a64 waited;            /* publishers: clock counts spent on waiting for space or helping to drain */
} sd_counters;

/* What a participant counts by level: by that at which the policy had the strand when it was taken. */
typedef struct sd_level_counts {
  SD_ALIGNED(2 * SD_LINE) sd_a64 visits; /* strands drained */
  sd_a64 failed;                         /* records whose handler failed; the histograms have them too */
  sd_histogram wait;       /* from publishing a visit's oldest record to the visit's start, once per record */
  sd_histogram handler;    /* the handler's time per record */
  sd_histogram end_to_end; /* from publishing a visit's oldest record to the visit's end, once per record */
} sd_level_counts;

/* What is told of blocks (blocks/blocks.h). One thread writes at a time: the one that publishes, or, within a run, the one that adopts. */
typedef struct sd_block_counts {
  sd_a64 reason;        /* of sd_blocks_reason, plus 1; 0: the handlers are not set */
  sd_a64 runs, refused; /* runs of blocks, and those that found a strand busy, paused or quarantined, and did nothing */
  sd_a64 slots, homes;  /* of the last run */
  sd_a64 used, behind; /* as a block was adopted last: slots in use, and blocks that the slowest home has not handled */
  sd_a64 adopted;      /* blocks */
  sd_a64 elapsed, threads; /* clock counts of the runs, and the same times the threads of each */
  /* Clock counts of threads: reading files; making lists, with frames; handling; and of each run's busiest home, handling. */
  sd_a64 reading, listing, handling, busiest;
  sd_a64 cost
      [2]; /* clock counts per 1,024 records without blocks and in them, as one publisher measured last; 0: not known */
} sd_block_counts;

/* C1: relaxed; one writer, so no read-modify-write is needed. */
static inline void sd_bump(sd_a64 *counter, uint64_t n) {
  sd_store(counter, sd_load(counter, relaxed, C1) + n, relaxed, C1);
}
/* For a strand's counts of finished records. M7: release; pairs with M6: a thread that reads the count may also read what the handlers of
 * the counted records emitted. */
static inline void sd_bump_finished(sd_a64 *counter, uint64_t n) {
  sd_store(counter, sd_load(counter, relaxed, C1) + n, release, M7);
}
/* C2: relaxed; for readers, for whom a slightly old value is good enough. */
static inline uint64_t sd_peek(sd_a64 *counter) { return sd_load(counter, relaxed, C2); }

static inline unsigned sd_bucket_of(uint64_t value) {
  if (value < SD_SUB) return (unsigned)value;
  unsigned octave = 63u - (unsigned)__builtin_clzll(value);
  if (octave >= SD_OCTAVES) return SD_BUCKETS - 1;
  return (octave - SD_SUB_BITS + 1) * SD_SUB + (unsigned)((value >> (octave - SD_SUB_BITS)) & (SD_SUB - 1));
}

/* The smallest value that falls into a bucket. */
static inline uint64_t sd_bucket_floor(unsigned bucket) {
  if (bucket < SD_SUB) return bucket;
  unsigned octave = bucket / SD_SUB + SD_SUB_BITS - 1;
  return (1ull << octave) + ((uint64_t)(bucket % SD_SUB) << (octave - SD_SUB_BITS));
}

static inline void sd_record(sd_histogram *h, uint64_t value, uint64_t weight) {
  sd_bump(&h->bucket[sd_bucket_of(value)], weight);
}
