/* The arena: all state that participants share, in one space (memory/space.h), by index and offset only: another process may map
 * it anywhere. What is private to a process (pointers, handlers' functions, scratch) lies in struct sd_dispatcher. */
#ifndef SD_STATE_ARENA_H
#define SD_STATE_ARENA_H

#include <stddef.h>
#include <stdint.h>

#include "base/atomic.h"
#include "base/clock.h"
#include "memory/counters.h"
#include "memory/segment.h"
#include "memory/space.h"
#include "schedule/idle.h"
#include "schedule/list.h"
#include "sd_handler.h"
#include "state/config.h"
#include "strand/strand.h"
#include "strand/tasks.h"

enum { SD_ERRORS = 64, SD_MESSAGE_BYTES = 256 };

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
  uint32_t max_per_call;     /* records a handler is given at once: fewer where it turns out slow */
  uint32_t py_batch_maximum; /* records that a Python handler with timers is given: fewer where it stops before them */
  uint32_t own_turns;        /* workers: strands off the own list since it last looked at the others', ... */
  uint64_t looked;           /* ... and when that was, in clock counts */
  sd_a32 looking;            /* workers: for a strand, having none in hand */
  sd_a32 taken;              /* publishers: in use by a thread */
  sd_a64 publishing;         /* publishers: no sequence below this is still being linked; UINT64_MAX when at rest */
  sd_a64 published_time;     /* and the feed's time there, where records carry positions */
  SD_ALIGNED(2 * SD_LINE) sd_counters counters;
} sd_participant;

/* Rounds of the watermark (numbering/watermark.c), under the lock. */
typedef struct sd_watermark_round {
  sd_a32 lock;
  uint32_t left; /* strands that have not reached the round's goal: the first ones of watermark_strands */
  uint64_t next, next_time;
  uint64_t at, time; /* the watermark, and the feed's time there, where records carry positions */
} sd_watermark_round;

typedef struct sd_arena {
  sd_config config; /* as it was made */
  sd_clock clock;   /* what a count of its counters and histograms is */
  uint32_t n_symbols, n_strands, n_workers, n_publishers;
  uint32_t record_size, key_offset, row_stride;
  uint32_t segment_records, n_segments;
  uint32_t segment_bytes, positions_at;
  sd_sequence_at sequence;
  uint64_t row_bytes;
  /* Offsets from the start of the space. */
  uint64_t strands, lists, rings, participants, stack, segments, map, rows, tasks;
  uint64_t last_numbers;                         /* a strand, see sd_dispatcher */
  uint64_t watermark_targets, watermark_strands; /* a strand */
  /* Offsets of what not all have; 0: there is none. */
  uint64_t alarm_spans, alarm_places, alarm_nodes, alarm_symbols, overdue_until; /* timers */
  uint64_t seen;                                                                 /* handlers with an end */
  uint64_t strand_times;
  uint64_t description, description_bytes,
      names;                            /* of those that may be looked at: a text, and sd_name_of() a symbol */
  uint64_t emitted, chunk_list, chunks; /* outputs, see emit/buffer.h: of each participant and output, and in all */
  SD_ALIGNED(2 * SD_LINE) sd_free_list free_list;
  SD_ALIGNED(2 * SD_LINE) sd_task_list task_list;
  SD_ALIGNED(2 * SD_LINE) sd_idle idle;
  SD_ALIGNED(2 * SD_LINE) sd_a32 stopping;
  sd_a32 timed; /* a handler has timers */
  sd_a32 failures_lock;
  sd_a32 failures;                              /* recorded in all; the first SD_ERRORS are kept */
  SD_ALIGNED(2 * SD_LINE) sd_a64 next_sequence; /* number of the next record, and counters_start */
  sd_a64 feed_time;                             /* the greatest time of a record with a position */
  /* With positions both change under both locks: `numbering` is held by who gives numbers out, for as long as that takes,
   * number_lock for a look at the two, or for a change. */
  sd_a32 number_lock, numbering;
  SD_ALIGNED(2 * SD_LINE)
  sd_a64 next_alarm;    /* no alarm that still needs an overdue alarm is earlier, see worker/alarm.h */
  sd_a32 overdue_later; /* strands with an alarm that is due were left to the merger */
  SD_ALIGNED(2 * SD_LINE) sd_watermark_round watermark;
  SD_ALIGNED(2 * SD_LINE) sd_failure failure[SD_ERRORS];
} sd_arena;

/* A name's place and length in one word; 0: there is none. */
enum { SD_LONGEST_NAME = (1 << 20) - 1 };
static inline uint64_t sd_name_of(uint64_t at, uint32_t bytes) { return at << 20 | bytes; }
static inline uint64_t sd_name_at(uint64_t name) { return name >> 20; }
static inline uint32_t sd_name_bytes(uint64_t name) { return (uint32_t)(name & SD_LONGEST_NAME); }

/* Lays an arena out in a space that has none. Returns an error code. */
int sd_arena_create(sd_space *space, const sd_config *config, sd_arena **arena);
/* Memory for n more of something, zeros; *offset says where it is. NULL: there is none. */
void *sd_arena_get(sd_space *space, uint64_t n, size_t size, uint64_t *offset);
/* Brings the pages of the segments in that are used first, those for so many records in flight among them: the first ticks of a
 * day would pay for them, and so would what a publisher learns about its ways. */
int sd_arena_fill_segments(sd_space *space, sd_arena *arena, uint64_t records_in_flight, int touch);

#endif
