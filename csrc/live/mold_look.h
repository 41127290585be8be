/* What a receiver reports without going on: free space, gaps, what to ask for again, counts; and the stamps for the ticks made of what it
 * delivered. By the receiver's one thread. */
#pragma once

#include "live/mold_state.h"

/* cffi: begin */
const sd_mold_counts *sd_mold_look(sd_mold *m);

uint64_t sd_mold_out_bytes(const sd_mold *m);
uint64_t sd_mold_out_runs(const sd_mold *m);
/* cffi: end */
/* Whether the messages of any one packet would still fit. */
int sd_mold_has_space(const sd_mold *m);

/* When the oldest gap is given up, or delivery begins with the first packet alone; UINT64_MAX: neither. */
uint64_t sd_mold_deadline(const sd_mold *m);
/* What is missing from `from` on, up to the next message that waits. Empty: nothing is known to be missing there. */
sd_range sd_mold_hole_at(const sd_mold *m, uint64_t from);
/* The first gaps, up to `capacity`, that are at least `request_after_ns` old. */
uint64_t sd_mold_holes(sd_mold *m, uint64_t now_ns, sd_range *holes, uint64_t capacity);

/* cffi: begin */
/* Gaps that were given up (-1), or messages that a line missed. */
const sd_range *sd_mold_gaps(const sd_mold *m, int line, uint64_t *count);

/* Sets ts_recv and sequence of ticks that a decoder numbered by position - `shift`; runs and ticks in rising order. */
void sd_mold_stamp(sd_tick *ticks, uint64_t count, const sd_mold_run *runs, uint64_t run_count, uint64_t shift);
/* cffi: end */
