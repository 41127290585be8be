/* Publishing, from any thread that holds a publisher's participant. */
#pragma once

#include "blocks/blocks.h"
#include "state/state.h"

/* cffi: begin */
/* A free publisher's participant, or SD_AGAIN when all are in use. */
int64_t sd_publisher_enter(sd_dispatcher *d);
/* Gives the participant back. This gives up a call that was answered SD_AGAIN, so ask first which records were rejected. */
void sd_publisher_leave(sd_dispatcher *d, uint32_t participant);
/* The two calls above, for a caller whose answer an interrupt may lose: *participant always says what it holds, negative for none. */
void sd_publisher_take(sd_dispatcher *d, int64_t *participant);
void sd_publisher_give(sd_dispatcher *d, int64_t *participant);
/* cffi: end */
int sd_publishers_create(sd_dispatcher *d);
void sd_publishers_destroy(sd_dispatcher *d);
/* Moves the participant's bound forward: `low`, a lower bound of the numbers that it will still take, and the feed's time there. */
void sd_publisher_bound(sd_dispatcher *d, uint32_t participant, uint64_t low, uint64_t time);
/* cffi: begin */
/* Publishes n records, which must stay in place until it has ended. Returns SD_OK; SD_AGAIN after slice_ns of waiting for space: look for
 * signals and call sd_publish_more; or an error: then sd_publish_rejected tells which records did not go in. */
int sd_publish(sd_dispatcher *d, uint32_t participant, const void *records, int64_t n, uint64_t slice_ns);
/* The same for records that nobody can change meanwhile: those that are handled at once are not copied first. */
int sd_publish_constant(sd_dispatcher *d, uint32_t participant, const void *records, int64_t n, uint64_t slice_ns);
/* cffi: end */
/* Publishes a source's records in blocks, as sd_blocks_run does, and then what blocks kept back: if done->n_held is not 0, the code is of
 * that, as sd_publish has it. It first waits a little for strands to become idle, and for the merger. */
int sd_publish_blocks(sd_dispatcher *d, uint32_t participant, const sd_block_source *source, void *self,
                      uint64_t slice_ns, sd_blocks_done *done);
/* The same for a feeder's batch, or what blocks kept back for it. */
int sd_publish_own(sd_dispatcher *d, uint32_t participant, const void *records, int64_t n, uint64_t slice_ns);
/* cffi: begin */
int sd_publish_more(sd_dispatcher *d, uint32_t participant, uint64_t slice_ns);
/* How many records were not accepted; fills `positions` (may be NULL) with up to `capacity` of them, in order. */
int64_t sd_publish_rejected(sd_dispatcher *d, uint32_t participant, int nested, int64_t *positions, int64_t capacity);
/* From inside a handler that participant `participant`, a worker's or a publisher's, runs. Never waits and never runs handlers. It has
 * its own scratch memory, so publishers that wait for space cannot keep a handler from going on. */
int sd_publish_nested(sd_dispatcher *d, uint32_t participant, const void *records, int64_t n);
/* Moves the feed's time forward to `time` without a record, unless it is later already. Timers that are due by then fire, once what was
 * published before has been handled. From any thread. */
void sd_publish_time(sd_dispatcher *d, uint64_t time);
/* cffi: end */
int sd_publish_from_handler(sd_context *ctx, const void *records, int64_t n, int64_t *accepted);
