/* Records handled where they lie. By the publisher whose participant it is. */
#pragma once

#include "publish/publisher.h"

/* Handles up to `maximum` records where they lie, as long as their strands are idle. Returns how many are finished, including one on
 * which a handler failed. */
int64_t sd_publish_inline(sd_dispatcher *d, uint32_t participant, sd_publisher *p, int64_t maximum);
