/* The arena: one mapping that holds all shared state and refers to itself by index or offset only, so that another process
 * may map it anywhere. What is private to a process (pointers, handlers, scratch) lies in struct sd_dispatcher. */
#ifndef SD_STATE_ARENA_H
#define SD_STATE_ARENA_H

#include <stddef.h>
#include <stdint.h>

#include "base/atomic.h"
#include "memory/counters.h"
#include "memory/segment.h"
#include "schedule/idle.h"
#include "schedule/list.h"
#include "sd_handler.h"
#include "strand/strand.h"
#include "strand/tasks.h"

#define SD_MAGIC UINT64_C(0x3144304e41525453) /* "STRAN0D1" */
enum { SD_ABI_VERSION = 3, SD_ERRORS = 64, SD_MESSAGE_BYTES = 256 };

/* A handler's failure, kept for whoever asks. */
typedef struct sd_failure {
  uint32_t strand;
  uint32_t key;
  uint64_t sequence; /* the feed's, of the record; SD_NO_SEQUENCE: it has none, or it was a timer or the end */
  uint32_t handler;
  uint32_t participant;
  int32_t code;
  uint32_t unused;
  char message[SD_MESSAGE_BYTES];
} sd_failure;

/* What one worker or publisher writes: its lines are nobody else's to write. */
typedef struct sd_participant {
  SD_ALIGNED(2 * SD_LINE) sd_segment_cache cache;
  uint32_t most_a_call;      /* records a handler is given at once: fewer where it turns out slow */
  uint32_t py_batch_maximum; /* records that a Python handler with timers is given: fewer where it stops before them */
  uint32_t own_turns;        /* workers: strands off the own list since it last looked at the others', ... */
  uint64_t looked;           /* ... and when that was, in clock counts */
  sd_a32 looking;            /* workers: for a strand, having none in hand */
  sd_a32 taken;              /* publishers: in use by a thread */
  sd_a64 publishing;         /* publishers: no sequence below this is still being linked; UINT64_MAX when at rest */
  sd_a64 published_time;     /* and the feed's time there, where records carry positions */
  SD_ALIGNED(2 * SD_LINE) sd_counters counters;
} sd_participant;

typedef struct sd_arena {
  uint64_t magic;
  uint32_t abi_version;
  uint32_t header_bytes;
  uint64_t bytes;
  uint32_t n_symbols, n_strands, n_workers, n_publishers;
  uint32_t record_size, key_offset, row_stride;
  uint32_t segment_records, n_segments;
  uint32_t segment_bytes, positions_at;
  sd_sequence_at sequence;
  uint64_t row_bytes;
  /* offsets from the start of the mapping */
  uint64_t strands, lists, rings, participants, stack, segments, map, rows, tasks;
  SD_ALIGNED(2 * SD_LINE) sd_free_list free_list;
  SD_ALIGNED(2 * SD_LINE) sd_task_list task_list;
  SD_ALIGNED(2 * SD_LINE) sd_idle idle;
  SD_ALIGNED(2 * SD_LINE) sd_a32 stopping;
  sd_a32 failures_lock;
  sd_a32 failures;                              /* recorded in all; the first SD_ERRORS are kept */
  SD_ALIGNED(2 * SD_LINE) sd_a64 next_sequence; /* number of the next record, and counters_start */
  sd_a64 feed_time;                             /* the greatest time of a record with a position */
  /* With positions both change under both locks: `numbering` is held by who gives numbers out, for as long as that takes,
   * number_lock for a look at the two, or for a change. */
  sd_a32 number_lock, numbering;
  SD_ALIGNED(2 * SD_LINE)
  sd_a64 next_alarm; /* no alarm that still needs an overdue alarm is earlier, see worker/alarm.h */
  SD_ALIGNED(2 * SD_LINE) sd_failure failure[SD_ERRORS];
} sd_arena;

typedef struct sd_sizes {
  uint32_t n_symbols, n_strands, n_workers, n_publishers;
  uint32_t record_size, key_offset;
  uint32_t sequence_offset; /* of the sequence in a record: a u64; SD_NONE: there is none */
  uint32_t sequence_high;   /* not 0: that one is a u32, and its next eight bits are a byte here, as in sd_tick */
  uint32_t row_bytes;
  uint32_t n_segments;
  uint32_t has_positions;  /* records carry positions */
  uint64_t counters_start; /* where free-running counters start; tests put it just below wrap-around */
} sd_sizes;

/* Maps and lays out an arena; shared: over a memfd whose pages are reserved, else private memory. Returns an error code. */
int sd_arena_create(const sd_sizes *sizes, int shared, sd_arena **arena, int *fd);
/* Brings the pages of the segments in that are used first, those for so many records in flight among them: the first ticks of a
 * day would pay for them, and so would what a publisher learns about its ways. */
void sd_arena_touch_segments(sd_arena *arena, const sd_sizes *sizes, uint64_t records_in_flight);
void sd_arena_destroy(sd_arena *arena, int fd);

static inline void *sd_arena_at(sd_arena *arena, uint64_t offset) { return (unsigned char *)arena + offset; }

#endif
