/* Puts records into their strands, strand by strand. */
#pragma once

#include "publish/publisher.h"

/* Enqueues, strand by strand, the records that no open group took, and keeps those that find no space either. */
void sd_enqueue_missing(sd_dispatcher *d, uint32_t participant, sd_publisher *p, const unsigned char *records,
                        uint64_t now);

/* Tries once more to enqueue what found no space; returns how many records are finished. */
uint64_t sd_enqueue_waiting(sd_dispatcher *d, uint32_t participant, sd_publisher *p);

/* Zero: no memory. The caller passes it to sd_conflation_destroy in any case. */
int sd_conflation_create(sd_conflation *c, const sd_dispatcher *d);
void sd_conflation_destroy(sd_conflation *c);
