/* Outputs: records that handlers emit, collected a participant and merged into the order of the ticks they were emitted for.
 *
 * A participant fills chunks of its own, one buffer for each output, with nothing shared until a handler returns: then it says how far
 * the buffer is filled (E1). One merger reads all buffers. It takes the watermark first and how far buffers are filled afterwards,
 * so it has read all that was emitted for numbers below the watermark, and nothing will be added there. Numbers are
 * dense, so records are put in order by counting: a table holds for each number the first record emitted there, which leads to
 * the next one by its link. Records stay where the participant wrote them until they are handed out, in order.
 *
 * Where a buffer's numbers rise, as those of a publisher that handles records in place do, its entries are in order already:
 * they are handed out where they lie, between what references lead to. Participants find out whether they rise as they commit, while
 * the lines are theirs. Only where all handlers are native: what C and Python emit for one tick lies in several buffers.
 *
 * Who calls what: sd_emit* and sd_writers_* the thread that runs the participant; sd_outputs_round and _take one thread at a time; the rest anyone.
 */
#ifndef SD_MERGE_ROUNDS_H
#define SD_MERGE_ROUNDS_H

#include "emit/buffer.h"

/* Before the first round: the caller keeps so many bytes for each tick until all below it is final. They count as collected. */
void sd_outputs_tick_bytes(struct sd_dispatcher *d, uint64_t bytes);
enum { SD_FINAL_LIVE = 0, SD_FINAL_ABANDONED = 1, SD_FINAL_ALL = 2 };
/* Finds out up to which number all is final and reads what buffers have. LIVE: by the watermark. At rest, ABANDONED: what is
 * pending will never be handled, and nothing beyond the first of it is final; ALL: nothing more will be emitted. */
int sd_outputs_round(struct sd_dispatcher *d, int how);
/* Of the last round: records below this number are handed out when all outputs have been taken. */
uint64_t sd_outputs_below(const struct sd_dispatcher *d);
/* Records left out because they were emitted on a strand that had been quarantined, and passed. */
uint64_t sd_outputs_late(struct sd_dispatcher *d);
/* What it took to find out, which is time that strands' lines are away from workers. */
uint64_t sd_outputs_look_ns(struct sd_dispatcher *d);

#endif
