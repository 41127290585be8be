/* The dispatcher: one process's view of an arena, and what the parts of the engine share.
 *
 * Who calls what: sd_publish_* from any thread that holds a publisher's slot (sd_publisher_enter); sd_worker_* from the one
 * thread that is worker `slot`; the rest from any thread.
 */
#ifndef SD_DISPATCHER_H
#define SD_DISPATCHER_H

#include "sd_arena.h"
#include "sd_handler.h"
#include "sd_output.h"
#include "sd_policy.h"
#include "sd_wish.h"

#include <string.h>

enum { SD_ON_ERROR_STOP = 0, SD_ON_ERROR_QUARANTINE = 1 };

typedef struct sd_config {
  sd_sizes sizes;
  uint32_t time_offset; /* of the u64 in a record that is its time, for marks; SD_NONE: it has none */
  int32_t shared;
  int32_t idle;             /* SD_IDLE_* */
  int32_t on_error;         /* SD_ON_ERROR_* */
  int32_t on_full;          /* SD_BLOCK ... */
  uint32_t capacity;        /* bound of a strand, in records */
  uint32_t quantum_records; /* most records a visit */
  uint64_t quantum_ns;      /* time after which a visit ends at the next run of records */
  uint32_t batch_records;   /* records grouped at one go by a publisher */
  uint32_t ahead_records;   /* records in flight beyond which a publisher helps to drain */
  int32_t
      publisher_drains; /* whether publishers run handlers: when ahead, and where queueing costs more than handling */
  int32_t one_core;     /* publishers and workers have one core between them */
} sd_config;

/* A handler: fn NULL says that Python runs it. */
typedef struct sd_handler {
  sd_handler_fn fn;
  const void *params;
  int32_t pure; /* never publishes: may run under the publish locks of the strands it serves */
  uint32_t n_outputs;
  const uint32_t *outputs; /* what it declares, by their place in sd_dispatcher_outputs */
  sd_wake_fn wake;         /* NULL: it has no timers */
  sd_finish_fn finish;
  int32_t yields;          /* returns where ctx->yield says so */
  int32_t wakes, finishes; /* of one that Python runs: whether it has timers, and an end */
} sd_handler;

typedef struct sd_publisher sd_publisher;

/* A strand in a Python worker's hands. */
typedef struct sd_claim {
  uint32_t strand;
  uint32_t handler;
  const void *records; /* n in a row, valid until sd_worker_done */
  int64_t n;
  int64_t pending; /* records that were there when it was taken */
  uint64_t start;
  const sd_mark *marks; /* the records', where they carry any */
  uint64_t task;        /* the tag of the task it was taken for, which has no records */
  uint32_t wake_key;    /* of a timer: whose, ... */
  uint64_t wake_time;   /* ... and for when */
} sd_claim;

/* What an idle worker knows of a victim's list. */
typedef struct sd_watch {
  uint32_t head;
  uint32_t turns; /* looks at a list that was not empty, during which nobody took a strand off it */
  uint64_t since; /* when its head was seen first, in clock counts */
} sd_watch;

/* What visits to a strand took, where that is kept. One writer at a time, the holder. */
typedef struct sd_strand_time {
  sd_a64 counts; /* of the clock, in handlers */
  sd_a64 records;
} sd_strand_time;

typedef struct sd_dispatcher {
  sd_arena *arena;
  sd_strand *strands;
  sd_list *lists;
  sd_slot *slots;
  uint32_t *map;
  unsigned char *rows;
  const sd_policy *policy;
  sd_pool pool;
  sd_task_pool tasks;
  sd_handler *handlers;
  uint32_t n_handlers;
  uint32_t n_slots, n_workers;
  sd_config config;
  uint64_t quantum_counts;
  int all_native; /* every strand's handler is native: publishers may help */
  int one_pure;   /* every strand has the same, pure, native handler: publishers may handle records where they lie */
  int far;        /* symbols are so many that what is looked up by their keys does not stay in a core's caches */
  int lossy;      /* strands drop what waits at their bound, or conflate it */
  int shed;       /* empty strands give their block back: there are more strands than blocks to spare */
  sd_watch **watches;       /* a slot: what it knows of the others */
  unsigned char **scratch;  /* a quantum of records a worker */
  const sd_claim **claimed; /* a slot: what Python has in hand */
  sd_mark **scratch_marks;  /* and of their marks */
  uint64_t
      *last_number; /* a strand: a number not above its last record's, where there are marks; under the publish lock */
  sd_a32 timed;     /* a handler has timers */
  sd_wishes wishes;
  sd_a64 *clock_until; /* a strand: up to when the clock task that waits there fires; 0: there is none */
  sd_a32 clock_later;  /* strands with a wish that is due were left to the merger */
  unsigned char *seen; /* a symbol: whether it has had records; NULL: no handler has an end */
  sd_publisher **publishers;
  sd_outputs *outputs;         /* NULL: there are none */
  sd_strand_time *strand_time; /* a strand; NULL: not kept */
  uint64_t *watermark_target;  /* a round's goal a strand, see sd_watermark */
  uint32_t *watermark_strand;
  uint32_t watermark_left;
  uint64_t watermark_next, watermark;
  uint64_t watermark_next_time, watermark_time; /* the feed's times there, where records carry marks */
  sd_a32 watermark_lock;
  int fd;
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

static inline sd_a32 *sd_ring(sd_dispatcher *d, uint32_t list) { return sd_arena_at(d->arena, d->lists[list].ring); }

static inline void sd_make_ready(sd_dispatcher *d, uint32_t list, const uint32_t *strands, uint32_t n) {
  d->policy->ready(d, list, strands, n);
}

int sd_dispatcher_create(const sd_config *config, sd_dispatcher **out);
void sd_dispatcher_destroy(sd_dispatcher *d);
/* Before workers start: strand of each symbol, handler of each strand, the handlers themselves. */
int sd_dispatcher_route(sd_dispatcher *d, const uint32_t *strand_of_symbol, const uint16_t *handler_of_strand);
int sd_dispatcher_handlers(sd_dispatcher *d, const sd_handler *handlers, uint32_t n);
uint64_t sd_dispatcher_bytes(const sd_dispatcher *d);
void *sd_dispatcher_rows(sd_dispatcher *d, uint64_t *stride);

/* SD_OK when nothing is left but what is held back; else helps, or waits, for up to slice_ns and answers SD_AGAIN. */
int sd_dispatcher_drain(sd_dispatcher *d, uint32_t slot, uint64_t slice_ns);
int sd_dispatcher_hold(sd_dispatcher *d, uint32_t strand, uint32_t why);
int sd_dispatcher_resume(sd_dispatcher *d, uint32_t strand, uint32_t why);
/* Puts a task on a strand, behind all that is published there: a worker gets it from sd_worker_next when all of that is done
 * with, and before anything published later. From any thread. SD_AGAIN: too many are waiting. `tag` is the caller's name for
 * it, not in use elsewhere. */
int sd_task_queue(sd_dispatcher *d, uint32_t strand, uint64_t tag);
/* Gives a task up. SD_OK: it will not run; SD_AGAIN: it runs, has run, or was never there. */
int sd_task_give_up(sd_dispatcher *d, uint32_t strand, uint64_t tag);
/* Records published and not yet done with, summed over the slots' counters: a moment's estimate, never negative at rest. */
uint64_t sd_in_flight(sd_dispatcher *d);
/* Every number below the result has been handled (or dropped). Never goes back. */
uint64_t sd_watermark(sd_dispatcher *d);
/* The same, with the greatest time of the records below it; 0 where records carry no marks. */
uint64_t sd_watermark_time(sd_dispatcher *d, uint64_t *time);
/* Every number below the result has been taken, and its record queued or handled; and the feed's time there. */
uint64_t sd_lowest_unpublished(sd_dispatcher *d, uint64_t *time);

/* *left: records that are pending on a strand, without its tasks (and one more while one is ending). SD_AGAIN: it has tasks, and
 * a publisher holds its lock. */
int sd_records_left(sd_dispatcher *d, sd_strand *s, int64_t *left);
/* Records that a strand's handlers are done with; what they emitted for them may be read. */
uint64_t sd_records_finished(sd_strand *s);
/* The greatest time of a record so far; 0 where records carry no marks. */
uint64_t sd_feed_time(sd_dispatcher *d);
/* Calls sd_finish_fn of all symbols that have had records, in order of keys. At rest, after the workers' end. */
int sd_dispatcher_finish(sd_dispatcher *d);
/* Puts a clock task on each strand whose timers are due, see sd_timer.h. */
uint32_t sd_clock_sweep(sd_dispatcher *d);
/* Whether a symbol is to be finished. */
int sd_dispatcher_seen(sd_dispatcher *d, uint32_t key);
/* Python has finished a symbol, or (code nonzero) failed on it. SD_E_HANDLER: then nothing more is to be finished. */
int sd_dispatcher_finished(sd_dispatcher *d, uint32_t key, int32_t code, const char *message);

/* ---- workers */
/* Runs native handlers until there is a strand for Python (SD_CLAIM_RECORDS, *claim is filled), a task has its turn
 * (SD_CLAIM_TASK, *claim says where and which) or a timer of a Python handler (SD_CLAIM_WAKE), or the end (SD_E_STOPPED). */
enum { SD_CLAIM_RECORDS = 1, SD_CLAIM_TASK = 2, SD_CLAIM_WAKE = 3 };
int sd_worker_next(sd_dispatcher *d, uint32_t slot, sd_claim *claim);
/* Python handled the first n records of the claim; code nonzero: and failed on the next one. */
int sd_worker_done(sd_dispatcher *d, uint32_t slot, const sd_claim *claim, int64_t n, int32_t code,
                   const char *message);
/* A Python worker, and what it has in its hands: whole, so that one crossing with one argument ends a claim and takes
 * the next one. */
typedef struct sd_hand {
  int64_t first, end; /* where the claim's records lie, in records from the start of the arena */
  sd_dispatcher *d;
  uint32_t slot;
  int32_t what; /* the claim's kind, as sd_worker_next says it */
  sd_claim claim;
} sd_hand;
/* sd_worker_next for Python. Returns the strand where its records lie in the arena, from `first` to `end`; -1 for all
 * that has to be looked at more closely: `what` says which it is. */
int64_t sd_hand_next(sd_hand *hand);
/* The same, when Python has handled all of the claim in hand. */
int64_t sd_hand_go_on(sd_hand *hand);
/* The memory in which a slot's claims may lie: the arena (0), or what is copied together for the slot (1). */
const void *sd_claims_memory(const sd_dispatcher *d, uint32_t slot, int copied, uint64_t *bytes);
/* The timer of the claim has run; wish: the symbol's next one, 0: none. Code nonzero: it failed. */
int sd_worker_wake_done(sd_dispatcher *d, uint32_t slot, const sd_claim *claim, uint64_t wish, int32_t code,
                        const char *message);
/* A Python handler's wish, made when it had handled so many records of the claim, which it will answer for. SD_E_ARGUMENT: it is
 * not after the last of them. */
int sd_claim_wake_at(sd_dispatcher *d, const sd_claim *claim, int64_t handled, uint64_t ns);
/* The task of the claim has run. */
void sd_worker_task_done(sd_dispatcher *d, uint32_t slot, const sd_claim *claim);
/* One visit to one ready strand, native handlers only. Zero: none was ready. */
int sd_help(sd_dispatcher *d, uint32_t slot);

/* Emits n records of `record_bytes` from a Python handler: record i on behalf of record at[i] of the claim. */
int sd_emit_claimed(sd_dispatcher *d, uint32_t slot, const sd_claim *claim, uint32_t output, const int64_t *at,
                    const void *records, int64_t n, char *message);
/* The same on behalf of a symbol's timer that slot `slot` runs, or (`at_end`) of its end. */
int sd_emit_timer(sd_dispatcher *d, uint32_t slot, uint32_t key, uint64_t time, int at_end, uint32_t output,
                  const void *records, int64_t n, char *message);
/* The claim is over: what was emitted for the first `handled` records of it counts. */
void sd_claim_emitted(sd_dispatcher *d, uint32_t slot, const sd_claim *claim, int64_t handled);
void sd_context_of(sd_dispatcher *d, uint32_t slot, const sd_handler *handler, sd_context *ctx);
/* The one place where a native handler is called: returns how many of the n records in a row it handled. Short of n it
 * failed on the next one, and *ctx says why: call sd_fail. `strand`: that of them all, or SD_NONE where they are of several. */
int64_t sd_run_handler(sd_dispatcher *d, const sd_handler *handler, uint32_t strand, const unsigned char *records,
                       const sd_mark *marks, int64_t n, sd_context *ctx);

/* ---- publishers */
/* A free publisher's slot, or SD_AGAIN when all are in use. */
int64_t sd_publisher_enter(sd_dispatcher *d);
/* Gives the slot back; a call that was answered SD_AGAIN is given up, so ask for what was rejected before. */
void sd_publisher_leave(sd_dispatcher *d, uint32_t slot);
/* The two for a caller that an interrupt may keep from reading an answer: *slot is always what it holds, negative for none. */
void sd_publisher_take(sd_dispatcher *d, int64_t *slot);
void sd_publisher_give(sd_dispatcher *d, int64_t *slot);
int sd_publishers_create(sd_dispatcher *d);
void sd_publishers_destroy(sd_dispatcher *d);
/* Publishes n records; the records must stay until it has ended. Returns SD_OK; SD_AGAIN after slice_ns of waiting for room:
 * look for signals and call sd_publish_more; or an error, and then sd_publish_rejected tells which records did not go in. */
int sd_publish(sd_dispatcher *d, uint32_t slot, const void *records, int64_t n, uint64_t slice_ns);
/* The same of records that no other thread can change meanwhile: those that are handled at once are not copied first. */
int sd_publish_own(sd_dispatcher *d, uint32_t slot, const void *records, int64_t n, uint64_t slice_ns);
int sd_publish_more(sd_dispatcher *d, uint32_t slot, uint64_t slice_ns);
/* How many records were not accepted; fills `positions` (may be NULL) with up to `room` of them, in order. */
int64_t sd_publish_rejected(sd_dispatcher *d, uint32_t slot, int nested, int64_t *positions, int64_t room);
/* From inside a handler that slot `slot` runs, worker's or publisher's: never waits, never runs handlers, and has what it
 * needs set aside for it, so that publishers that wait for room cannot keep a handler from going on. */
int sd_publish_nested(sd_dispatcher *d, uint32_t slot, const void *records, int64_t n);
int sd_publish_from_handler(sd_context *ctx, const void *records, int64_t n, int64_t *accepted);

/* ---- looking on */
typedef struct sd_totals {
  uint64_t accepted, handled, failed, lost, dropped[4], pending;
  uint64_t visits, claimed, stolen, cut, parks, wakes, failures, blocks_used, watermark_sequence;
} sd_totals;
void sd_dispatcher_totals(sd_dispatcher *d, sd_totals *out);
/* A slot's counters as numbers: SD_COUNTER_FIELDS values in the order of struct sd_counters. */
enum { SD_COUNTER_FIELDS = 16 };
void sd_slot_counters(sd_dispatcher *d, uint32_t slot, uint64_t *out);
enum { SD_WAIT = 0, SD_HANDLER_TIME = 1, SD_END_TO_END = 2 };
/* Adds a histogram of all slots up: SD_BUCKETS counts; sd_bucket_floors gives the buckets' lower edges in ns. */
void sd_histogram_sum(sd_dispatcher *d, int which, uint64_t *counts);
void sd_bucket_floors(double *ns);
typedef struct sd_look {
  int64_t pending;
  uint64_t owner, accepted, handled, failed, lost, dropped[4];
  uint32_t control, capacity, tasks;
} sd_look;
int sd_strand_look(sd_dispatcher *d, uint32_t strand, sd_look *out);
/* Before workers run: from now on it is kept what visits to each strand take. */
int sd_dispatcher_time_strands(sd_dispatcher *d);
/* For each strand the time its handlers took, in ns, and the records that this was for: of claimed ones it is not known. */
void sd_strand_times(sd_dispatcher *d, uint64_t *ns, uint64_t *records);
/* The books at rest (nothing publishing, no worker in a visit): rules 2 and 3 of the contract for every strand. Returns
 * SD_OK, or SD_E_CORRUPT with the strand in *strand and what is wrong in `what` (128 bytes). */
int sd_dispatcher_check(sd_dispatcher *d, uint32_t *strand, char *what);

#endif
