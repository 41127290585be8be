/* Publishing in blocks: all threads group and handle the records of a long call. */
#pragma once

#include "blocks/blocks.h"
#include "publish/publisher.h"

/* Handles the call's next records in blocks, if that is possible and pays, and moves p->at on. Zero: it did nothing. */
int sd_publish_in_blocks(sd_dispatcher *d, uint32_t participant, sd_publisher *p);

/* As sd_blocks_run, after it has waited a little for strands to become idle. By a publisher whose call is announced. */
int sd_run_in_blocks(sd_dispatcher *d, uint32_t participant, const sd_block_source *source, void *self,
                     uint64_t slice_ns, sd_blocks_done *done);
