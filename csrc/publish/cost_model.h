/* Which way of publishing pays. By the publisher whose participant it is. */
#ifndef SD_PUBLISH_COST_MODEL_H
#define SD_PUBLISH_COST_MODEL_H

#include "publish/publisher.h"

/* How many of the next records to try to handle inline at one go; 0: enqueue a chunk. */
int64_t sd_records_inline(sd_dispatcher *d, sd_publisher *p);
/* A call of n records begins. */
void sd_learn_length(sd_publisher *p, int64_t n);
/* What queueing a chunk took, helping to drain included. */
void sd_learn_enqueueing(sd_publisher *p, uint64_t counts, int64_t n);

/* What a run of n records handled where they lie took. */
void sd_learn_inline(sd_publisher *p, uint64_t counts, int64_t n);

#endif
