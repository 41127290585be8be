/* Publishing, from any thread that holds a publisher's participant. */
#ifndef SD_PUBLISH_PUBLISH_H
#define SD_PUBLISH_PUBLISH_H

#include "state/state.h"

/* A free publisher's participant, or SD_AGAIN when all are in use. */
int64_t sd_publisher_enter(sd_dispatcher *d);
/* Gives the participant back; a call that was answered SD_AGAIN is given up, so ask for what was rejected before. */
void sd_publisher_leave(sd_dispatcher *d, uint32_t participant);
/* The two for a caller that an interrupt may keep from reading an answer: *participant is always what it holds, negative for none. */
void sd_publisher_take(sd_dispatcher *d, int64_t *participant);
void sd_publisher_give(sd_dispatcher *d, int64_t *participant);
int sd_publishers_create(sd_dispatcher *d);
void sd_publishers_destroy(sd_dispatcher *d);
/* Publishes n records; the records must stay until it has ended. Returns SD_OK; SD_AGAIN after slice_ns of waiting for room:
 * look for signals and call sd_publish_more; or an error, and then sd_publish_rejected tells which records did not go in. */
int sd_publish(sd_dispatcher *d, uint32_t participant, const void *records, int64_t n, uint64_t slice_ns);
/* The same of records that no other thread can change meanwhile: those that are handled at once are not copied first. */
int sd_publish_own(sd_dispatcher *d, uint32_t participant, const void *records, int64_t n, uint64_t slice_ns);
int sd_publish_more(sd_dispatcher *d, uint32_t participant, uint64_t slice_ns);
/* How many records were not accepted; fills `positions` (may be NULL) with up to `capacity` of them, in order. */
int64_t sd_publish_rejected(sd_dispatcher *d, uint32_t participant, int nested, int64_t *positions, int64_t capacity);
/* From inside a handler that participant `participant` runs, worker's or publisher's: never waits, never runs handlers, and has what it
 * needs set aside for it, so that publishers that wait for room cannot keep a handler from going on. */
int sd_publish_nested(sd_dispatcher *d, uint32_t participant, const void *records, int64_t n);
int sd_publish_from_handler(sd_context *ctx, const void *records, int64_t n, int64_t *accepted);

#endif
