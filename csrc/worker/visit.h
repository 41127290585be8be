/* Native handlers' visits, and what all threads that drain share. By the thread that is participant `participant`, a worker's or a
 * helping publisher's, which owns the strand. */
#pragma once

#include "state/state.h"

#define SD_AHEAD_UNKNOWN UINT64_MAX

/* How many records of a strand may be handled: those before its first task, if it has one. `ahead`: how many sd_take_task found before
 * that task, if there was one then. */
static inline int64_t sd_records_pending(sd_dispatcher *d, sd_strand *s, uint64_t ahead) {
  int64_t pending = sd_strand_pending(s);
  if (SD_LIKELY(!sd_strand_tasks(s))) return pending;
  /* The first task stays the first one until its owner takes it out. */
  if (ahead != SD_AHEAD_UNKNOWN) return (int64_t)ahead;
  sd_lock(&s->publish_lock);
  pending = (int64_t)sd_task_ahead(d->tasks.tasks, s);
  sd_unlock(&s->publish_lock);
  return pending;
}

/* One visit with a native handler, begun at `start`; `ahead` as for sd_records_pending. Lets the strand go at the end. Returns the clock
 * at its end. */
uint64_t sd_visit(sd_dispatcher *d, uint32_t participant, uint32_t index, uint64_t start, uint64_t ahead);
/* Ends a visit of Python's, which handled n records of the batch, and failed on the next one if `failed`. */
void sd_visit_over(sd_dispatcher *d, uint32_t participant, const sd_py_batch *batch, int64_t n, int failed);
/* Copies what waits on a lossy strand, under its lock, up to a budget; returns how many records. If there are timers it copies at most
 * one, and none if a timer comes before it. */
int64_t sd_copy_out(sd_dispatcher *d, uint32_t participant, sd_strand *s);
/* The position of the first record of an owned strand. Zero: it has no record that may be handled now. */
int sd_first_position(sd_dispatcher *d, uint32_t index, sd_position *position);
/* Notes that the participant drained the strand, whose token it has: the strand is listed with the worker that drained it last. */
static inline void sd_strand_drained_by(const sd_dispatcher *d, sd_strand *s, uint32_t participant) {
  if (participant < d->n_workers) s->last = participant;
}
/* Lists a strand whose token a release left with the caller. A worker comes back to its own list by itself. A publisher that helped has to
 * wake the strand's worker. */
void sd_list_again(sd_dispatcher *d, uint32_t participant, uint32_t index, int why);
