/* How far publishing and handling have come. From any thread. */
#pragma once

#include "state/state.h"

/* Records published and not yet finished, summed over the participants' counters. An estimate while others work; never negative. */
uint64_t sd_in_flight(sd_dispatcher *d);
/* cffi: begin */
/* Every number below the result has been handled (or dropped). Never goes back. */
uint64_t sd_watermark(sd_dispatcher *d);
/* cffi: end */
/* The same, with the greatest time of the records below it; 0 where records carry no positions. */
uint64_t sd_watermark_time(sd_dispatcher *d, uint64_t *time);
/* Every number below the result has been taken, and its record enqueued or handled. *time: the feed's time there. */
uint64_t sd_lowest_unpublished(sd_dispatcher *d, uint64_t *time);
/* *left: the records that are pending on a strand, without its tasks. SD_AGAIN: the strand has
 * tasks, and a publisher holds its lock. */
int sd_records_left(sd_dispatcher *d, sd_strand *s, int64_t *left);
/* How many records a strand's handlers have finished. The caller may read what they emitted for them. */
uint64_t sd_records_finished(sd_strand *s);
/* cffi: begin */
/* The greatest time of a record so far; 0 where records carry no positions. */
uint64_t sd_feed_time(sd_dispatcher *d);
/* cffi: end */
