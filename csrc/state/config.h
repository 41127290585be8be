/* How a dispatcher is made: its sizes and choices. The arena keeps them, for whoever looks at it. */
#ifndef SD_STATE_CONFIG_H
#define SD_STATE_CONFIG_H

#include <stdint.h>

enum { SD_ON_ERROR_STOP = 0, SD_ON_ERROR_QUARANTINE = 1 };

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

typedef struct sd_config {
  sd_sizes sizes;
  uint32_t time_offset;    /* of the u64 in a record that is its time, for positions; SD_NONE: it has none */
  int32_t idle;            /* SD_IDLE_* */
  int32_t on_error;        /* SD_ON_ERROR_* */
  int32_t on_full;         /* SD_BLOCK ... */
  uint32_t capacity;       /* bound of a strand, in records */
  uint32_t budget_records; /* most records a visit */
  uint64_t budget_ns;      /* time after which a visit ends at the next run of records */
  uint32_t batch_records;  /* records grouped at one go by a publisher */
  uint32_t ahead_records;  /* records in flight beyond which a publisher helps to drain */
  int32_t
      publisher_drains; /* whether publishers run handlers: when ahead, and where queueing costs more than handling */
  int32_t one_core;     /* publishers and workers have one core between them */
} sd_config;

#endif
