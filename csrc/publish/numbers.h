/* The numbers of records in the order of publishing.
 *
 * Without positions a call takes its numbers all at once, and only the watermark uses them. With positions, a chunk or a slice that is
 * handled inline takes them while it holds the publish locks of its strands. A record that has to wait for its strand keeps its number,
 * unless another publisher has put a later one there: then it gets a new number. */
#pragma once

#include "publish/publisher.h"

/* Numbers the next n records at once, in p->positions. The caller holds the publish locks of their strands, so numbers rise along each
 * strand. */
void sd_number_records(sd_dispatcher *d, sd_publisher *p, const unsigned char *records, uint32_t n);
/* Gives new numbers to the records of the chunk that `pick` names. */
void sd_number_again(sd_dispatcher *d, sd_publisher *p, const uint16_t *pick, uint32_t n);
