/* The dispatcher: one process's view of an arena, and what the engine's parts share.
 *
 * A thread that holds a publisher's participant (sd_publisher_enter) calls sd_publish_*. The one thread that is worker `participant` calls
 * sd_worker_*. Any thread may call the other functions. */
#pragma once

#include "alarms/tree.h"
#include "schedule/policy.h"
#include "sd_handler.h"
#include "state/arena.h"

#include <string.h>

/* cffi: begin */
/* A handler. If `fn` is NULL, Python runs it. */
typedef struct sd_handler {
  sd_handler_fn fn;
  const void *params;
  int32_t never_publishes; /* it never publishes, so it may run under the publish locks of its strands */
  uint32_t n_outputs;
  const uint32_t *outputs; /* indices of its outputs, in the order of sd_dispatcher_outputs */
  sd_wake_fn wake;         /* NULL: no timers */
  sd_finish_fn finish;
  int32_t yields;          /* it returns early when ctx->yield asks for it */
  int32_t wakes, finishes; /* if Python runs it: whether it has timers, and finishes its symbols */
} sd_handler;
/* cffi: end */

typedef struct sd_publisher sd_publisher;
typedef struct sd_blocks sd_blocks;
typedef struct sd_outputs sd_outputs;

/* cffi: begin */
/* What a Python worker gets to do. */
enum { SD_PY_RECORDS = 1, SD_PY_TASK = 2, SD_PY_WAKE = 3, SD_PY_OTHER = 4, SD_PY_RESUME = 5 };
/* Bits of a task's tag are below this one. sd_py_task_next has `rose` of the batch above. */
enum { SD_PY_ROSE_AT = 56 };

/* A strand that a Python worker owns, or a free task: then `strand` is n_strands plus the task's index. */
typedef struct sd_py_batch {
  uint32_t strand;
  uint32_t handler;
  const void *records; /* n contiguous records, valid until sd_worker_done */
  int64_t n;
  int64_t pending; /* records that were pending when the strand was taken */
  uint64_t start;
  const sd_position *positions; /* the records' positions, if they have any */
  uint64_t task;                /* the tag of the task to run; such a batch has no records. 0: none */
  uint32_t rose;      /* one more than the level to which the task had risen before its first turn; 0: it had not */
  uint32_t wake_key;  /* of a timer: its symbol, ... */
  uint64_t wake_time; /* ... and its time */
} sd_py_batch;
/* cffi: end */

/* What an idle worker knows about a victim's list. */
typedef struct sd_watch {
  uint32_t head;
  uint32_t turns; /* consecutive looks that found strands on the list, while nobody took one off it */
  uint64_t since; /* when `head` was first seen, in clock counts */
} sd_watch;

/* How long visits to a strand took, if that is recorded. The strand's owner is the only writer. */
typedef struct sd_strand_time {
  sd_a64 counts; /* clock counts spent in handlers */
  sd_a64 records;
} sd_strand_time;

/* If there are bounds over strands: how many records a participant has admitted to strands of each level, and how many have ended there,
 * handled or shed. The participant is the only writer. Without levels all count as SD_NORMAL. */
typedef struct sd_admitted {
  SD_ALIGNED(2 * SD_LINE) sd_a64 admitted[SD_LEVEL_COUNT];
  sd_a64 ended[SD_LEVEL_COUNT];
} sd_admitted;

/* What such a dispatcher knows of a strand. */
typedef struct sd_strand_admission {
  sd_a32 level;   /* to which its records count. It changes under the publish lock, while nothing is pending. */
  sd_a32 settled; /* it has had records; until then its level says nothing, even if a task is pending */
  sd_a64 shed;    /* records that owners have shed; the owner's, and counted in the strand's `handled` before */
} sd_strand_admission;

typedef struct sd_dispatcher {
  sd_space *space; /* its creator owns it */
  /* in the arena */
  sd_arena *arena;
  sd_strand *strands;
  sd_ready ready;
  sd_participant *participants;
  sd_level_counts *by_level; /* per participant and level */
  uint32_t *map;
  unsigned char *rows;
  sd_segment_pool pool;
  sd_task_pool tasks;
  uint64_t *last_number; /* per strand, with positions: not above its last record's number; under the publish lock */
  uint64_t *watermark_target; /* a round's goal per strand, see sd_watermark */
  uint32_t *watermark_strand; /* the strands that have a goal */
  sd_alarms alarms;           /* if there are timers */
  sd_a64 *overdue_until; /* per strand: the time up to which its waiting overdue alarm fires; 0: no such alarm waits */
  unsigned char *seen;   /* per symbol: whether it has had records; NULL: no handler finishes its symbols */
  sd_strand_time *strand_time;     /* per strand; NULL: not recorded */
  sd_admitted *admitted;           /* per participant; NULL: there are no bounds over strands */
  sd_strand_admission *admissions; /* per strand, likewise */
  /* private */
  const sd_policy *policy;
  sd_handler *handlers;
  uint32_t n_handlers;
  int (*publish)(sd_context *ctx, const void *records, int64_t n, int64_t *accepted); /* given to handlers' contexts */
  int refused; /* a handler has tried to publish, and there is nobody to publish to: see caller/caller.h */
  uint32_t n_participants, n_workers, n_levels;
  sd_config config; /* a copy of the arena's, close to the fields around it */
  uint64_t budget_counts;
  int all_native;     /* every strand's handler is native, so publishers may help */
  int may_run_inline; /* every strand has the same native handler, which never publishes */
  int cache_cold;     /* there are so many symbols that what is looked up by key does not stay in a core's caches */
  int lossy;          /* at their bound, strands drop or conflate waiting records */
  int by_strand;      /* records go in strand by strand: strands are lossy, or there are bounds over several */
  int shed;           /* empty strands give their segment back, because there are too few segments for all of them */
  sd_watch **watches; /* per worker: what it knows about the others */
  unsigned char **scratch;         /* per participant: space for a budget of records */
  const sd_py_batch **py_batches;  /* per participant: what Python has in hand */
  sd_position **scratch_positions; /* per participant: space for those records' positions */
  sd_publisher **publishers;
  sd_blocks *blocks;   /* NULL: records may not be handled in blocks */
  sd_a32 joins_blocks; /* not 0: `blocks` and the function are there */
  sd_a32 waiting;      /* threads in sd_lock_strand */
  /* A worker takes part in blocks that are under way, or, if `looks`, asks whether some are. Zero: none are. */
  int (*join_blocks)(struct sd_dispatcher *d, uint32_t participant, int looks);
  sd_outputs *outputs;  /* NULL: no outputs */
  sd_failure *failures; /* of a run that goes on after a failure: room for one more per strand. NULL: it stops */
} sd_dispatcher;

/* Takes a strand's publish lock, which a run of blocks holds for long: between two runs there is time for who waits here. */
static inline void sd_lock_strand(sd_dispatcher *d, sd_strand *s) {
  if (SD_LIKELY(sd_try_lock(&s->publish_lock))) return;
  /* H10: relaxed; a hint. */
  sd_fetch_add(&d->waiting, 1u, relaxed, H10);
  sd_lock(&s->publish_lock);
  sd_fetch_sub(&d->waiting, 1u, relaxed, H10);
}

/* What a participant's `publishing` holds while no call is at work: the number before the first one. No call takes it in the first 2^64 - 1
 * records. */
static inline uint64_t sd_not_publishing(const sd_dispatcher *d) { return d->config.sizes.counters_start - 1; }

/* Returns the key at `at`, aligned or not. It is read exactly once, whatever the compiler assumes about memory: the caller of a publish
 * may change it at any time, and the engine must use the same key that it checked. */
static inline uint32_t sd_key_at(const unsigned char *at) {
  typedef uint32_t __attribute__((aligned(1), may_alias)) key_there;
  return *(const volatile key_there *)at;
}

static inline uint32_t sd_key_of(const sd_dispatcher *d, const unsigned char *record) {
  return sd_key_at(record + d->arena->key_offset);
}

/* What a participant counts of visits to strands that were taken at a level. */
static inline sd_level_counts *sd_counts_at(const sd_dispatcher *d, uint32_t participant, uint32_t level) {
  return &d->by_level[participant * d->n_levels + level];
}

/* The same for a strand that it has taken. */
static inline sd_level_counts *sd_counts_of(const sd_dispatcher *d, uint32_t participant, uint32_t strand) {
  return sd_counts_at(d, participant, d->policy->taken_at ? d->policy->taken_at(&d->ready, strand) : 0);
}

/* The level of a strand, as its policy has it now. */
static inline uint32_t sd_level_now(const sd_dispatcher *d, uint32_t strand) {
  return d->policy->level ? d->policy->level(&d->ready, strand) : SD_NORMAL;
}

/* I10: relaxed; I7 and I5 carry it to a worker that rests, and one that does not may see it late. */
static inline uint32_t sd_active_workers(sd_dispatcher *d) { return sd_load(&d->arena->active, relaxed, I10); }

/* Whether blocks are under way, of which a worker takes its part, unless it only `looks`. */
static inline int sd_join_blocks(sd_dispatcher *d, uint32_t participant, int looks) {
  /* H9: acquire; pairs with H9 of sd_blocks_decide: the function and what it uses are there. */
  return SD_UNLIKELY(sd_load(&d->joins_blocks, acquire, H9)) && d->join_blocks(d, participant, looks);
}

/* Lists n strands, whose tokens the caller holds, on the list of a worker or the deferred list. `why`: see schedule/policy.h. */
static inline void sd_make_ready(sd_dispatcher *d, uint32_t list, const uint32_t *strands, uint32_t n, int why,
                                 uint64_t now) {
  d->policy->ready(&d->ready, list, strands, n, why, now);
}
