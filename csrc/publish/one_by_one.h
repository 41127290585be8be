/* Records into their strands, strand by strand. */
#ifndef SD_PUBLISH_ONE_BY_ONE_H
#define SD_PUBLISH_ONE_BY_ONE_H

#include "publish/publisher.h"

/* Puts in strand by strand what no open group took, and keeps what finds no room either. */
void sd_enqueue_missing(sd_dispatcher *d, uint32_t participant, sd_publisher *p, const unsigned char *records,
                        uint64_t now);

/* Tries once more to put in what found no room; returns how many records are dealt with. */
uint64_t sd_enqueue_waiting(sd_dispatcher *d, uint32_t participant, sd_publisher *p);

/* Zero: no memory. What was made is for sd_conflation_destroy in any case. */
int sd_conflation_create(sd_conflation *c, const sd_dispatcher *d);
void sd_conflation_destroy(sd_conflation *c);

#endif
