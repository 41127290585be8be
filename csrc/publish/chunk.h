/* Puts records into their strands, a chunk at a time. */
#pragma once

#include "publish/publisher.h"

/* Enqueues a chunk of the call's next records, at most n > 0: up to the first key that is out of range. Records that find no space wait,
 * in n_waiting groups. */
void sd_enqueue_chunk(sd_dispatcher *d, uint32_t participant, sd_publisher *p, int64_t n);
