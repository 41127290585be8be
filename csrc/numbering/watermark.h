/* How far publishing and handling have come. From any thread. */
#ifndef SD_NUMBERING_WATERMARK_H
#define SD_NUMBERING_WATERMARK_H

#include "state/state.h"

/* Records published and not yet done with, summed over the participants' counters: a moment's estimate, never negative at rest. */
uint64_t sd_in_flight(sd_dispatcher *d);
/* Every number below the result has been handled (or dropped). Never goes back. */
uint64_t sd_watermark(sd_dispatcher *d);
/* The same, with the greatest time of the records below it; 0 where records carry no positions. */
uint64_t sd_watermark_time(sd_dispatcher *d, uint64_t *time);
/* Every number below the result has been taken, and its record queued or handled; and the feed's time there. */
uint64_t sd_lowest_unpublished(sd_dispatcher *d, uint64_t *time);
/* *left: records that are pending on a strand, without its tasks (and one more while one is ending). SD_AGAIN: it has tasks, and
 * a publisher holds its lock. */
int sd_records_left(sd_dispatcher *d, sd_strand *s, int64_t *left);
/* Records that a strand's handlers are done with; what they emitted for them may be read. */
uint64_t sd_records_finished(sd_strand *s);
/* The greatest time of a record so far; 0 where records carry no positions. */
uint64_t sd_feed_time(sd_dispatcher *d);

#endif
