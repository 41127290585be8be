/* The arena: all state that participants share. It lies in one space (memory/space.h) and refers to its parts by index and offset only, so
 * another process may map it anywhere. Private to a process are pointers, handlers' functions and scratch memory; they lie in struct
 * sd_dispatcher. */
#pragma once

#include <stddef.h>
#include <stdint.h>

#include "base/atomic.h"
#include "base/clock.h"
#include "base/meter.h"
#include "memory/counters.h"
#include "memory/segment.h"
#include "memory/space.h"
#include "schedule/idle.h"
#include "schedule/permits.h"
#include "schedule/policy.h"
#include "sd_handler.h"
#include "state/config.h"
#include "strand/strand.h"
#include "strand/task_pool.h"

/* cffi: begin */
/* Rings of samples: of the state now, and of a few minutes. */
enum { SD_SAMPLES_NOW = 0, SD_SAMPLES_PAST, SD_SAMPLE_RINGS };
enum { SD_ERRORS = 64, SD_MESSAGE_BYTES = 256, SD_FAILED_RECORD_BYTES = 64 };

/* A handler's failure, kept until somebody asks for it. */
typedef struct sd_failure {
  uint32_t strand;
  uint32_t key;
  uint64_t sequence; /* the record's in the feed; SD_NO_SEQUENCE: it has none, or a timer or the end failed */
  uint64_t place;    /* how many records of the strand were handled, or failed, before it; of a timer or end its time */
  uint32_t handler;
  uint32_t participant;
  int32_t code;
  uint32_t record_bytes; /* of the record it failed on, which follows; 0: on none, or on a larger one */
  unsigned char record[SD_FAILED_RECORD_BYTES];
  char message[SD_MESSAGE_BYTES];
} sd_failure;
/* cffi: end */

/* What one worker or publisher writes. No other participant writes these lines. */
typedef struct sd_participant {
  SD_ALIGNED(2 * SD_LINE) sd_segment_cache cache;
  uint32_t py_batch_maximum; /* records that a Python handler with timers gets; lowered if it stops before their end */
  uint32_t own_turns;    /* workers: strands taken from the own list since the last look at the others' lists, ... */
  uint64_t looked;       /* ... and the time of that look, in clock counts */
  sd_a32 looking;        /* workers: looking for a strand, with none in hand */
  sd_a32 taken;          /* publishers: a thread has taken this participant */
  sd_a64 publishing;     /* publishers: a lower bound on the numbers being linked, or sd_not_publishing() */
  sd_a64 published_time; /* and the feed's time there, if records have positions */
  sd_cpu_meter meter;    /* if the policy charges on-CPU time */
  SD_ALIGNED(2 * SD_LINE) sd_task_counts tasks;
  uint32_t kept;   /* workers: what was taken and not visited yet, as index + 1; 0: nothing */
  uint32_t permit; /* workers: it holds a permit */
  sd_task_cache task_cache;
  SD_ALIGNED(2 * SD_LINE) sd_counters counters;
} sd_participant;

/* The current round of the watermark (numbering/watermark.c). Protected by its lock. */
typedef struct sd_watermark_round {
  sd_a32 lock;
  uint32_t left; /* strands that have not reached the round's goal; they are the first ones in watermark_strands */
  uint64_t next, next_time;
  uint64_t at, time; /* the watermark, and the feed's time there, if records have positions */
} sd_watermark_round;

typedef struct sd_arena {
  sd_config config; /* as the dispatcher was created */
  sd_clock clock;   /* the unit of the clock counts in its counters and histograms */
  uint32_t n_symbols, n_strands, n_workers, n_publishers;
  uint32_t record_size, key_offset, row_stride;
  uint32_t segment_records, n_segments;
  uint32_t segment_bytes, positions_at;
  sd_sequence_at sequence;
  uint64_t row_bytes;
  /* Offsets from the start of the space. */
  uint64_t strands, lists, policy, participants, by_level, stack, segments, map, rows, tasks, task_stack;
  uint64_t last_numbers;                         /* per strand, see sd_dispatcher */
  uint64_t watermark_targets, watermark_strands; /* per strand */
  /* Offsets of parts that not every dispatcher has; 0: this one has no such part. */
  uint64_t alarm_spans, alarm_places, alarm_nodes, alarm_symbols, overdue_until; /* timers */
  uint64_t seen;                                                                 /* if a handler finishes its symbols */
  uint64_t strand_times;
  uint64_t admitted, admissions; /* if there are bounds over strands, see sd_admitted and sd_strand_admission */
  uint64_t description, description_bytes, names; /* of an attachable dispatcher: a text, and sd_name_of() per symbol */
  uint64_t samples[SD_SAMPLE_RINGS];              /* and rings of samples, see sd_dispatcher_sample */
  uint64_t emitted, chunk_list,
      chunks; /* if there are outputs, see emit/buffer.h; `emitted`: per participant and output */
  SD_ALIGNED(2 * SD_LINE) sd_free_list free_list;
  SD_ALIGNED(2 * SD_LINE) sd_task_list task_list;
  SD_ALIGNED(2 * SD_LINE) sd_idle idle;
  SD_ALIGNED(2 * SD_LINE) sd_idle resting; /* where workers sleep that are not active */
  SD_ALIGNED(2 * SD_LINE) sd_permits permits;
  SD_ALIGNED(2 * SD_LINE) sd_a32 stopping;
  sd_a32 active; /* so many workers, from the first one on, take strands */
  sd_a32 timed;  /* a handler has timers */
  sd_a32 failures_lock;
  sd_a32 failures;                              /* how many were recorded; the first SD_ERRORS are kept */
  SD_ALIGNED(2 * SD_LINE) sd_a64 next_sequence; /* number of the next record, plus counters_start */
  sd_a64 feed_time;                             /* the greatest time of a record with a position */
  sd_a64 given_back; /* how many times numbers were given back, so that next_sequence went back */
  /* If records have positions, all of the above change only under both locks. A publisher holds `numbering` while it gives out numbers.
   * number_lock is held only for a moment, to read them or to change them. */
  sd_a32 number_lock, numbering;
  /* The latest time that sd_publish_time was given. feed_time does not go back before it; changed only under `numbering`. */
  sd_a64 moved_to;
  SD_ALIGNED(2 * SD_LINE)
  sd_a64 next_alarm;    /* no alarm that still needs an overdue alarm is earlier; see worker/alarm.h */
  sd_a32 overdue_later; /* a sweep left strands whose alarm is due to the merger */
  SD_ALIGNED(2 * SD_LINE) sd_a32 admission_lock; /* see publish/admission.h */
  SD_ALIGNED(2 * SD_LINE) sd_watermark_round watermark;
  SD_ALIGNED(2 * SD_LINE) sd_block_counts blocks;
  SD_ALIGNED(2 * SD_LINE) sd_failure failure[SD_ERRORS];
} sd_arena;

/* A name's offset and length in one word; 0: the symbol has no name. */
enum { SD_LONGEST_NAME = (1 << 20) - 1 };
static inline uint64_t sd_name_of(uint64_t at, uint32_t bytes) { return at << 20 | bytes; }
static inline uint64_t sd_name_at(uint64_t name) { return name >> 20; }
static inline uint32_t sd_name_bytes(uint64_t name) { return (uint32_t)(name & SD_LONGEST_NAME); }

/* Creates the arena in a space that has none. Returns an error code. */
int sd_arena_create(sd_space *space, const sd_config *config, sd_arena **arena);
/* Returns memory for n elements, all zeros; *offset says where it lies. NULL: out of memory. */
void *sd_arena_get(sd_space *space, uint64_t n, size_t size, uint64_t *offset);
/* How many lists there are: one for each worker, and the deferred list. */
static inline uint32_t sd_lists_for(uint32_t n_workers) { return n_workers + 1; }
/* The lists and the policy's state, for the policy. */
sd_ready sd_arena_ready(const sd_space *space, const sd_arena *arena);
/* Gives segments memory: all of them in a private space; in an attachable one those that are used first if `touch`, else none. If `touch`,
 * it pre-faults those that are used first, including those for records_in_flight records. Otherwise the first ticks of a day would pay for
 * the page faults, and publishers, which measure what enqueueing costs, would measure the faults too. */
int sd_arena_fill_segments(sd_space *space, sd_arena *arena, uint64_t records_in_flight, int touch);
