/* Outputs: records that handlers emit, collected a slot and merged into the order of the ticks they were emitted for.
 *
 * A slot fills chunks of its own, one lane for each output, with nothing shared until a handler returns: then it says how far
 * the lane is filled (E1). One merger reads all lanes. It takes the watermark first and how far lanes are filled afterwards,
 * so it has read all that was emitted for numbers below the watermark, and nothing will be added there. Numbers are
 * dense, so records are put in order by counting: a table holds for each number the first record emitted there, which leads to
 * the next one by its link. Records stay where the slot wrote them until they are handed out, in order.
 *
 * Where a lane's numbers rise, as those of a publisher that handles records in place do, its entries are in order already:
 * they are handed out where they lie, between what references lead to. Slots find out whether they rise as they commit, while
 * the lines are theirs. Only where all handlers are native: what C and Python emit for one tick lies in several lanes.
 *
 * Who calls what: sd_emit* and sd_sinks_* the thread that runs the slot; sd_outputs_round and _take one thread at a time; the rest anyone.
 */
#ifndef SD_OUTPUT_H
#define SD_OUTPUT_H

#include <stddef.h>

#include "sd_atomic.h"
#include "sd_due.h"
#include "sd_handler.h"

struct sd_dispatcher;
struct sd_handler;

enum {
#if defined(SD_MODEL_SCHEDULER) || defined(SD_STRESS)
  SD_CHUNK_BYTES = 256,
  SD_SLAB_CHUNKS = 2,
  SD_PAGE_BITS = 3,
#else
  SD_CHUNK_BYTES = 1 << 16,
  SD_SLAB_CHUNKS = 32, /* as large as a large page */
  SD_PAGE_BITS = 12,
#endif
  SD_CHUNK_HEADER = 64,
  SD_REF_BITS = 11, /* of a reference: the place in a chunk; the others name the chunk */
  SD_PAGE = 1 << SD_PAGE_BITS,
  /* Chunks, as a multiple of the bound at which publishers wait, from which on a handler that emits fails. */
  SD_OUTPUT_SLACK = 8
};

/* In the link of what Python emits for a tick: it comes after what is emitted in C, as a chain's end, of which the native part
 * may have been ahead on another slot. */
#define SD_BY_PYTHON (1u << 31)
/* The number of a record that was emitted for a tick its handler then failed on. */
#define SD_VOID (UINT64_MAX - 2)
/* Bytes of a merged record before its declared ones: number, sequence, time, key. */
#define SD_MERGED_HEAD 28

typedef struct sd_chunk {
  struct sd_chunk *next; /* the lane's next one; written before a lane says that it is filled beyond this one */
  uint64_t top;          /* the merger's: the greatest number in it, a timer's time, as far as it was read */
  uint32_t index;        /* in the pool's table */
  sd_a32 mixed; /* its numbers do not rise from one entry to the next, beginning after those of the chunk before */
} sd_chunk;

/* Chunks of all lanes; those that are free go to who freed one last. */
typedef struct sd_chunk_pool {
  sd_a32 lock;
  sd_chunk *free;
  sd_chunk **table;       /* of `most`; those of a slab lie in a row */
  uint32_t n, room, most; /* handed out so far, in slabs, and at most */
  sd_a64 bytes;           /* in use by lanes and by the merger's tables */
  uint64_t soft_bytes;
} sd_chunk_pool;

/* What one slot emits to one output. */
typedef struct sd_lane {
  sd_sink sink; /* first: a sink is its lane */
  struct sd_dispatcher *d;
  sd_chunk *chunk;                       /* the one being filled */
  uint64_t before;                       /* bytes of entries in those before it */
  sd_chunk *done_chunk;                  /* where what is filled ends, ... */
  unsigned char *done;                   /* ... and where in it */
  sd_chunk *first;                       /* written before anything is said to be filled */
  uint64_t least;                        /* while numbers rise: the next one has to be at least this */
  uint32_t chunk_bytes;                  /* of entries in a chunk */
  SD_ALIGNED(2 * SD_LINE) sd_a64 filled; /* bytes of entries that the merger may read */
  /* the merger's */
  SD_ALIGNED(2 * SD_LINE) sd_chunk *reading;
  sd_chunk *oldest; /* from here to the one being read they have something that has not been handed out */
  uint64_t read;
  unsigned char *at;
  uint64_t straight; /* from `read` to here numbers rise, and entries are handed out where they lie; else `read` */
  int timers;
} sd_lane;

/* For each number of a page the first record emitted there; 0: none. */
typedef struct sd_page {
  uint32_t ref[SD_PAGE];
} sd_page;

typedef struct sd_output {
  uint32_t record_bytes, entry_bytes, merged_bytes;
  /* numbers: pages[number >> SD_PAGE_BITS & mask] */
  sd_page **pages, *spare;
  uint64_t n_pages, low_page, high_page; /* room, and the pages in use: from low, below high */
  uint64_t next;                         /* all that was emitted for lower numbers has been handed out */
  uint32_t rest;                         /* the rest of a tick's records that found no room; 0: none */
  sd_due_list timers;
} sd_output;

typedef struct sd_outputs {
  uint32_t n, n_slots;
  sd_output *output;
  sd_lane **lane;     /* [slot * 2n + output], and timers' lanes n further on */
  sd_sink ***sinks;   /* a slot: all handlers' sinks, each handler's in its own order, two an output */
  size_t *first_sink; /* a handler: where its sinks begin */
  sd_chunk_pool pool;
  uint64_t frontier, time, armed; /* the last round's */
  uint64_t looked;                /* clock counts that finding out the frontier took */
  uint64_t passed;                /* times that quarantined strands were passed */
  uint64_t late;                  /* records that came after their place had been handed out: on such a strand */
  uint64_t tick_bytes;            /* that the caller keeps for each tick until all below it is final */
  uint64_t beside;                /* in pool.bytes: what it keeps of all ticks by the last round */
  int ended;
} sd_outputs;

/* Before sd_dispatcher_handlers: outputs whose records are so many bytes. Publishers wait while more than soft_bytes are
 * collected. SD_E_ARGUMENT: soft_bytes is less than sd_outputs_least() of them. */
int sd_dispatcher_outputs(struct sd_dispatcher *d, const uint32_t *record_bytes, uint32_t n, uint64_t soft_bytes);
uint64_t sd_outputs_least(const struct sd_dispatcher *d, uint32_t n);
/* Before the first round: the caller keeps so many bytes for each tick until all below it is final. They count as collected. */
void sd_outputs_tick_bytes(struct sd_dispatcher *d, uint64_t bytes);
void sd_outputs_destroy(struct sd_dispatcher *d);
/* After the handlers are set. */
int sd_outputs_connect(struct sd_dispatcher *d);

/* Nonzero: publishers have to wait for the merger. */
int sd_outputs_full(struct sd_dispatcher *d);

/* The sinks of a handler that slot `slot` runs. */
sd_sink **sd_sinks_of(struct sd_dispatcher *d, uint32_t slot, const struct sd_handler *handler);
/* A handler has returned: what it emitted may be merged. */
void sd_sinks_commit(sd_context *ctx);
/* The same where it failed: what it emitted since the last commit for numbers from `number` on is void. */
void sd_sinks_void(sd_context *ctx, uint64_t number);

/* ---- merging */
enum { SD_FINAL_LIVE = 0, SD_FINAL_ABANDONED = 1, SD_FINAL_ALL = 2 };
/* Finds out up to which number all is final and reads what lanes have. LIVE: by the watermark. At rest, ABANDONED: what is
 * pending will never be handled, and nothing beyond the first of it is final; ALL: nothing more will be emitted. */
int sd_outputs_round(struct sd_dispatcher *d, int how);
/* Hands out up to `room` merged records of an output, in order: number, sequence, time, key, then the declared bytes, without padding.
 * `to` has 8 bytes more than they take. Returns how many; fewer than `room`: there are no more before the next round. */
int64_t sd_outputs_take(struct sd_dispatcher *d, uint32_t output, unsigned char *to, int64_t room);
/* Of the last round: records below this number are handed out when all outputs have been taken. */
uint64_t sd_outputs_below(const struct sd_dispatcher *d);
/* Records left out because they were emitted on a strand that had been quarantined, and passed. */
uint64_t sd_outputs_late(struct sd_dispatcher *d);
/* What it took to find out, which is time that strands' lines are away from workers. */
uint64_t sd_outputs_look_ns(struct sd_dispatcher *d);

#endif
