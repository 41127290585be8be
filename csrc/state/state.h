/* The dispatcher: one process's view of an arena, and what the parts of the engine share.
 *
 * Who calls what: sd_publish_* from any thread that holds a publisher's participant (sd_publisher_enter); sd_worker_* from the one
 * thread that is worker `participant`; the rest from any thread.
 */
#ifndef SD_STATE_STATE_H
#define SD_STATE_STATE_H

#include "alarms/tree.h"
#include "schedule/policy.h"
#include "sd_handler.h"
#include "state/arena.h"

#include <string.h>

/* A handler: fn NULL says that Python runs it. */
typedef struct sd_handler {
  sd_handler_fn fn;
  const void *params;
  int32_t never_publishes; /* never publishes: may run under the publish locks of the strands it serves */
  uint32_t n_outputs;
  const uint32_t *outputs; /* what it declares, by their place in sd_dispatcher_outputs */
  sd_wake_fn wake;         /* NULL: it has no timers */
  sd_finish_fn finish;
  int32_t yields;          /* returns where ctx->yield says so */
  int32_t wakes, finishes; /* of one that Python runs: whether it has timers, and an end */
} sd_handler;

typedef struct sd_publisher sd_publisher;
typedef struct sd_outputs sd_outputs;

/* What a Python worker is given. */
enum { SD_PY_RECORDS = 1, SD_PY_TASK = 2, SD_PY_WAKE = 3 };

/* A strand in a Python worker's possession. */
typedef struct sd_py_batch {
  uint32_t strand;
  uint32_t handler;
  const void *records; /* n in a row, valid until sd_worker_done */
  int64_t n;
  int64_t pending; /* records that were there when it was taken */
  uint64_t start;
  const sd_position *positions; /* the records', where they carry any */
  uint64_t task;                /* the tag of the task it was taken for, which has no records */
  uint32_t wake_key;            /* of a timer: whose, ... */
  uint64_t wake_time;           /* ... and for when */
} sd_py_batch;

/* What an idle worker knows of a victim's list. */
typedef struct sd_watch {
  uint32_t head;
  uint32_t turns; /* looks at a list that was not empty, during which nobody took a strand off it */
  uint64_t since; /* when its head was seen first, in clock counts */
} sd_watch;

/* What visits to a strand took, where that is kept. One writer at a time, the owner. */
typedef struct sd_strand_time {
  sd_a64 counts; /* of the clock, in handlers */
  sd_a64 records;
} sd_strand_time;

typedef struct sd_dispatcher {
  sd_space *space; /* its maker's */
  /* what lies there */
  sd_arena *arena;
  sd_strand *strands;
  sd_ready ready;
  sd_participant *participants;
  uint32_t *map;
  unsigned char *rows;
  sd_segment_pool pool;
  sd_task_pool tasks;
  uint64_t *
      last_number; /* a strand: a number not above its last record's, where there are positions; under the publish lock */
  uint64_t *watermark_target;  /* a round's goal a strand, see sd_watermark */
  uint32_t *watermark_strand;  /* the strands that have a goal */
  sd_alarms alarms;            /* where there are timers */
  sd_a64 *overdue_until;       /* a strand: up to when the overdue alarm that waits there fires; 0: there is none */
  unsigned char *seen;         /* a symbol: whether it has had records; NULL: no handler has an end */
  sd_strand_time *strand_time; /* a strand; NULL: not kept */
  /* private */
  const sd_policy *policy;
  sd_handler *handlers;
  uint32_t n_handlers;
  int (*publish)(sd_context *ctx, const void *records, int64_t n, int64_t *accepted); /* handlers' contexts have it */
  uint32_t n_participants, n_workers;
  sd_config config; /* a copy of the arena's, nearer to what is beside it */
  uint64_t budget_counts;
  int all_native;     /* every strand's handler is native: publishers may help */
  int may_run_inline; /* every strand has the same native handler, which never publishes */
  int cache_cold;     /* symbols are so many that what is looked up by their keys does not stay in a core's caches */
  int lossy;          /* strands drop what waits at their bound, or conflate it */
  int shed;           /* empty strands give their segment back: there are more strands than segments to spare */
  sd_watch **watches; /* a participant: what it knows of the others */
  unsigned char **scratch;         /* a budget of records a worker */
  const sd_py_batch **py_batches;  /* a participant: what Python has in hand */
  sd_position **scratch_positions; /* and of their positions */
  sd_publisher **publishers;
  sd_outputs *outputs; /* NULL: there are none */
} sd_dispatcher;

/* The key that lies at `at`, aligned or not. It is read once, whatever the compiler thinks of memory: the caller of a publish
 * may change it meanwhile, and the engine must use the same key that it has checked. */
static inline uint32_t sd_key_at(const unsigned char *at) {
  typedef uint32_t __attribute__((aligned(1), may_alias)) key_there;
  return *(const volatile key_there *)at;
}

static inline uint32_t sd_key_of(const sd_dispatcher *d, const unsigned char *record) {
  return sd_key_at(record + d->arena->key_offset);
}

static inline void sd_make_ready(sd_dispatcher *d, uint32_t list, const uint32_t *strands, uint32_t n) {
  d->policy->ready(&d->ready, list, strands, n);
}

#endif
