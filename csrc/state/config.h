/* A dispatcher's sizes and options. The arena keeps them for those who attach. */
#pragma once

#include <stdint.h>

#include "schedule/policy.h"

/* cffi: begin */
enum { SD_ON_ERROR_STOP = 0, SD_ON_ERROR_QUARANTINE = 1 };

/* For sd_config.python_workers: one less than are active, and at least one. */
#define SD_ALL_BUT_ONE UINT32_MAX

typedef struct sd_sizes {
  uint32_t n_symbols, n_strands, n_workers, n_publishers;
  uint32_t record_size, key_offset;
  uint32_t sequence_offset; /* offset in a record of its sequence, a u64; SD_NONE: records have none */
  uint32_t sequence_high;   /* not 0: the sequence is a u32, and the byte here has its next eight bits, as in sd_tick */
  uint32_t row_bytes;
  uint32_t n_segments;
  uint32_t has_positions;  /* records have positions */
  uint32_t n_tasks;        /* tasks that may wait or run at once */
  uint64_t counters_start; /* where free-running counters start; tests choose a value just below wrap-around */
} sd_sizes;

typedef struct sd_config {
  sd_sizes sizes;
  sd_policy_config policy;
  uint32_t time_offset;    /* offset in a record of its time, a u64, for positions; SD_NONE: records have none */
  int32_t idle;            /* SD_IDLE_* */
  int32_t on_error;        /* SD_ON_ERROR_* */
  int32_t on_full;         /* SD_BLOCK and so on */
  uint32_t capacity;       /* the bound on a strand, in records */
  uint64_t total_capacity; /* the bound on all strands together; 0: none */
  uint64_t level_capacity[SD_LEVEL_COUNT]; /* and on the strands of each level, likewise */
  uint32_t budget_records;                 /* the most records per visit */
  uint64_t budget_ns;                      /* the time after which a visit ends, at the next run of records */
  uint32_t batch_records;                  /* how many records a publisher groups at once */
  uint32_t ahead_records;                  /* with more records in flight than this, a publisher helps to drain */
  int32_t publisher_drains;                /* publishers run handlers, to help and where enqueueing costs more */
  int32_t one_core;                        /* publishers and workers share one core */
  int32_t ingest;                          /* SD_INGEST_*: whether publishers handle long calls in blocks */
  uint32_t python_workers; /* workers that may run Python's tasks at a time, or SD_ALL_BUT_ONE; 0: all */
} sd_config;
/* cffi: end */
