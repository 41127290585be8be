/* Which way of publishing pays. By the publisher whose participant it is. */
#pragma once

#include "publish/publisher.h"

/* How many of the next records to try to handle inline in one run; 0: enqueue a chunk. */
int64_t sd_records_inline(sd_dispatcher *d, sd_publisher *p);
/* Tells the model that a call of n records begins. */
void sd_learn_length(sd_publisher *p, int64_t n);
/* Tells the model what enqueuing a chunk took, including helping to drain. */
void sd_learn_enqueueing(sd_publisher *p, uint64_t counts, int64_t n);

/* Tells the model what an inline run of n records took. */
void sd_learn_inline(sd_publisher *p, uint64_t counts, int64_t n);
