/* Looking on: counters, histograms, strands, and whether all adds up. */
#ifndef SD_ENGINE_INSPECT_H
#define SD_ENGINE_INSPECT_H

#include "state/state.h"

typedef struct sd_totals {
  uint64_t accepted, handled, failed, lost, dropped[4], pending;
  uint64_t visits, handled_inline, stolen, cut, parks, wakes, failures, watermark_sequence;
} sd_totals;
void sd_dispatcher_totals(sd_dispatcher *d, sd_totals *out);
/* A participant's counters as numbers: SD_COUNTER_FIELDS values in the order of struct sd_counters. */
enum { SD_COUNTER_FIELDS = 16 };
void sd_participant_counters(sd_dispatcher *d, uint32_t participant, uint64_t *out);
enum { SD_WAIT = 0, SD_HANDLER_TIME = 1, SD_END_TO_END = 2 };
/* Adds a histogram of all participants up: SD_BUCKETS counts; sd_bucket_floors gives the buckets' lower edges in ns. */
void sd_histogram_sum(sd_dispatcher *d, int which, uint64_t *counts);
void sd_bucket_floors(double ns_per_count, double *ns);
/* Of this process's clock. */
double sd_ns_per_count(void);
typedef struct sd_inspection {
  int64_t pending;
  uint64_t owner; /* 0, or participant + 1 */
  uint64_t accepted, handled, failed, lost, dropped[4];
  uint32_t control, capacity, tasks;
} sd_inspection;
/* Without a lock: the tasks of a strand that exists count as pending here. */
void sd_strand_counts(sd_dispatcher *d, uint32_t strand, sd_inspection *out);
int sd_strand_inspect(sd_dispatcher *d, uint32_t strand, sd_inspection *out);
/* Before workers run: from now on it is kept what visits to each strand take. */
int sd_dispatcher_time_strands(sd_dispatcher *d);
/* For each strand the time its handlers took, in ns, and the records that this was for: of handled_inline ones it is not known. */
void sd_strand_times(sd_dispatcher *d, uint64_t *ns, uint64_t *records);
/* The books at rest (nothing publishing, no worker in a visit): rules 2 and 3 of the contract for every strand. Returns
 * SD_OK, or SD_E_CORRUPT with the strand in *strand and what is wrong in `what` (128 bytes). */
int sd_dispatcher_verify(sd_dispatcher *d, uint32_t *strand, char *what);

#endif
