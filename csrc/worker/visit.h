/* Native handlers' visits, and what all that drain share. By the thread that is participant `participant`, a worker's or a publisher's that
 * helps, with the owned strand. */
#ifndef SD_WORKER_VISIT_H
#define SD_WORKER_VISIT_H

#include "state/state.h"

#define SD_AHEAD_UNKNOWN UINT64_MAX

/* How many records of a strand may be handled: those before its first task, where it has one. `ahead`: how many that is, from
 * sd_take_task, where it had one then. */
static inline int64_t sd_records_pending(sd_dispatcher *d, sd_strand *s, uint64_t ahead) {
  int64_t pending = sd_strand_pending(s);
  if (SD_LIKELY(!sd_strand_tasks(s))) return pending;
  /* The first task is the first one until its owner takes it out. */
  if (ahead != SD_AHEAD_UNKNOWN) return (int64_t)ahead;
  sd_lock(&s->publish_lock);
  pending = (int64_t)sd_task_ahead(&d->tasks, s);
  sd_unlock(&s->publish_lock);
  return pending;
}

/* One visit with a native handler, begun at `start`; `ahead` as for sd_records_pending. Ends with the strand let go. Returns the
 * clock at its end. */
uint64_t sd_visit(sd_dispatcher *d, uint32_t participant, uint32_t index, uint64_t start, uint64_t ahead);
/* Ends a visit of Python's, which handled n records of the batch, and failed on one more if `failed`. */
void sd_visit_over(sd_dispatcher *d, uint32_t participant, const sd_py_batch *batch, int64_t n, int failed);
/* Copies what waits on a lossy strand, under its lock, up to a budget; returns how many records. One at most where there are
 * timers, and none where one comes before it. */
int64_t sd_copy_out(sd_dispatcher *d, uint32_t participant, sd_strand *s);
/* The position of the first record of an owned strand. Zero: it has none that may be handled now. */
int sd_first_position(sd_dispatcher *d, uint32_t index, sd_position *position);
/* Lists a strand whose token a release left with the caller. A worker comes back to its own list by itself. A publisher
 * that helped may not: somebody has to know of it. */
void sd_list_again(sd_dispatcher *d, uint32_t participant, uint32_t index);

#endif
