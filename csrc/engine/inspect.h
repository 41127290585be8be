/* Inspecting a dispatcher: counters, histograms, strands, and whether the invariants hold. */
#pragma once

#include "state/state.h"

/* cffi: begin */
typedef struct sd_totals {
  uint64_t accepted, handled, failed, lost, dropped[5], pending;
  uint64_t visits, handled_inline, handled_in_blocks, stolen, cut, parks, wakes, failures, watermark_sequence;
  uint64_t handled_ungrouped; /* of handled_inline */
  uint64_t dropped_at[5];     /* what is in `dropped`, by level, under a policy with levels */
} sd_totals;
/* What is told of blocks, see sd_block_counts: in ns; `reason` of sd_blocks_reason, negative: not known. */
typedef struct sd_blocks_told {
  int32_t ingest, reason;
  uint64_t runs, refused, slots, homes, used, behind, adopted;
  uint64_t elapsed, threads, reading, listing, handling, busiest;
  uint64_t tried_after; /* records, see sd_choice_tried_after */
  double cost[2];       /* ns per record without blocks and in them; 0: not known */
} sd_blocks_told;
void sd_dispatcher_blocks(sd_dispatcher *d, sd_blocks_told *out);
/* Strands and free tasks that wait for a worker, those without a permit too: a hint. 0 while the policy holds all back. */
uint64_t sd_dispatcher_ready(sd_dispatcher *d);
void sd_dispatcher_totals(sd_dispatcher *d, sd_totals *out);
/* What the policy has counted. Returns the policy's number, which says what of it is meant; SD_FIFO: it counts nothing. */
int sd_dispatcher_policy_counts(sd_dispatcher *d, sd_policy_counts *out);
/* What is counted of each of the policy's first n groups, and of all groups. Takes a lock, so another process cannot call it.
 * SD_E_ARGUMENT: the policy has no groups. */
int sd_dispatcher_group_counts(sd_dispatcher *d, uint32_t n, sd_group_counts *groups, sd_fair_counts *all);
/* Groups of tasks that end: see `close` and `returned` of sd_policy. SD_E_ARGUMENT: there is no such group, or it was closed before. */
int sd_group_close(sd_dispatcher *d, uint32_t group);
uint32_t sd_groups_returned(sd_dispatcher *d, uint32_t n, int all, uint32_t *groups, sd_group_counts *counts);
/* Writes a participant's counters to `out`: SD_COUNTER_FIELDS values, in the order of struct sd_counters; busy and waited in ns. */
enum { SD_COUNTER_FIELDS = 18, SD_COUNTER_BUSY = 14, SD_COUNTER_PARKS = 15, SD_COUNTER_WAITED = 17 };
void sd_participant_counters(sd_dispatcher *d, uint32_t participant, uint64_t *out);
enum { SD_WAIT = 0, SD_HANDLER_TIME = 1, SD_END_TO_END = 2 };
/* By how many levels visits are counted: those of SD_LEVELS, the classes of SD_AGING, else one. */
uint32_t sd_dispatcher_levels(sd_dispatcher *d);
/* Adds up a histogram of a level over all participants, to SD_BUCKETS counts. sd_bucket_floors gives the lower edges of the buckets in ns. */
void sd_histogram_sum(sd_dispatcher *d, int which, uint32_t level, uint64_t *counts);
/* What else is counted by level. `listed`: strands and tasks that wait for a worker now, held back or not. */
typedef struct sd_at_level {
  uint64_t visits, failed, listed;
} sd_at_level;
void sd_dispatcher_at_level(sd_dispatcher *d, uint32_t level, sd_at_level *out);
void sd_bucket_floors(double ns_per_count, double *ns);
/* The ns per clock count in this process. */
double sd_ns_per_count(void);
typedef struct sd_inspection {
  int64_t pending;
  uint64_t owner; /* 0: none; else participant + 1 */
  uint64_t accepted, handled, failed, lost, dropped[5];
  uint32_t control, capacity, tasks;
} sd_inspection;
/* cffi: end */
/* Reads a strand's counts without a lock. `pending` then includes tasks, and `tasks` is 0. */
void sd_strand_counts(sd_dispatcher *d, uint32_t strand, sd_inspection *out);
/* cffi: begin */
int sd_strand_inspect(sd_dispatcher *d, uint32_t strand, sd_inspection *out);
/* Before workers start: from now on the time that visits to each strand take is recorded. */
int sd_dispatcher_time_strands(sd_dispatcher *d);
/* Writes for each strand how long its handlers ran, in ns, and for how many records. Inline execution is in neither. */
void sd_strand_times(sd_dispatcher *d, uint64_t *ns, uint64_t *records);
/* Checks rules 2 and 3 of the contract for every strand, while the dispatcher is quiescent. Returns SD_OK, or SD_E_CORRUPT with the strand
 * in *strand and a description of the fault in `what` (128 bytes). */
int sd_dispatcher_verify(sd_dispatcher *d, uint32_t *strand, char *what);
/* cffi: end */
