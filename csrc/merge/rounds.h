/* Outputs: the records that handlers emit, collected per participant and merged into the order of the ticks for which they were emitted.
 *
 * A participant fills its own chunks, one buffer per output. It shares nothing until a handler returns; then it says how far the buffer
 * is filled (E1). One merger reads all buffers. It takes the watermark first, and then how far the buffers are filled. So it has read
 * everything that was emitted for numbers below the watermark, and nothing more will come there. Numbers are dense, so the merger sorts
 * by counting: a table holds for each number the first record emitted there, and each record's link leads to the next. Records stay where
 * the participant wrote them until they are given out, in order.
 *
 * A publisher that runs handlers inline fills a buffer whose numbers rise, so its entries are in order already. They are given out where
 * they lie, between the records that references lead to. Participants check whether numbers rise when they commit, while the lines are in
 * their cache. This works only if all handlers are native: what C and Python emit for one tick lies in several buffers.
 *
 * Who may call: sd_emit* and sd_writers_*, the thread that runs the participant; sd_outputs_round and sd_outputs_take, one thread at a
 * time; the others, any thread. */
#pragma once

#include "emit/buffer.h"

/* cffi: begin */
/* Before the first round: the caller keeps so many bytes for each tick until all records below it are out. They count as collected. */
void sd_outputs_tick_bytes(struct sd_dispatcher *d, uint64_t bytes);
enum { SD_FINAL_LIVE = 0, SD_FINAL_ABANDONED = 1, SD_FINAL_ALL = 2 };
/* Finds up to which number everything is final, and reads the buffers. LIVE: takes the watermark. The other two are for a quiescent
 * dispatcher. ABANDONED: what is pending will never be handled, and only what precedes its first record is final. ALL: nothing more will
 * be emitted. */
int sd_outputs_round(struct sd_dispatcher *d, int how);
/* All records of ticks below this number have been given out. Once all outputs have been taken, that is the frontier of the last round, or
 * the first record that waits for a timer which is due before it and has not fired. The thread that takes outputs calls it. */
uint64_t sd_outputs_below(const struct sd_dispatcher *d);
/* How many records were left out because their strand was quarantined, and the merger had passed over it. */
uint64_t sd_outputs_late(struct sd_dispatcher *d);
/* How long the last round needed to find the frontier. During that time strands' lines are away from their workers. */
uint64_t sd_outputs_look_ns(struct sd_dispatcher *d);
/* cffi: end */
