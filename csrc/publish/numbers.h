/* The numbers that records have in the order of publishing.
 *
 * Without positions a call takes its numbers all at once, and they are good for the watermark alone. With positions a chunk, or a
 * slice that is handled in place, takes them while the publish locks of its strands are held. What has to wait for its
 * strand keeps its numbers, unless another publisher has put later ones there: then it is numbered again. */
#ifndef SD_PUBLISH_NUMBERS_H
#define SD_PUBLISH_NUMBERS_H

#include "publish/publisher.h"

/* The next number, and the feed's time before it; the numbers are the caller's until it says how many it took, and what the
 * feed's time is after them. No lock may be waited for in between. */
sd_position sd_numbers_begin(sd_dispatcher *d);
void sd_numbers_end(sd_dispatcher *d, uint32_t n, uint64_t time);
/* Numbers the next n records, in p->positions. In one go, with the publish locks of their strands held: then numbers rise along
 * each strand. */
void sd_number_records(sd_dispatcher *d, sd_publisher *p, const unsigned char *records, uint32_t n);
/* Numbers those of the chunk again that `pick` names. */
void sd_number_again(sd_dispatcher *d, sd_publisher *p, const uint16_t *pick, uint32_t n);

#endif
