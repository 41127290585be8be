/* Calling a native handler. By the thread that is participant `participant`, with the owned strand. */
#ifndef SD_WORKER_CALL_H
#define SD_WORKER_CALL_H

#include "state/state.h"

void sd_context_of(sd_dispatcher *d, uint32_t participant, const sd_handler *handler, sd_context *ctx);
/* The one place where a native handler is called: returns how many of the n records in a row it handled. Short of n it
 * failed on the next one, and *ctx says why: call sd_fail. `strand`: that of them all, or SD_NONE where they are of several. */
int64_t sd_run_handler(sd_dispatcher *d, const sd_handler *handler, uint32_t strand, const unsigned char *records,
                       const sd_position *positions, int64_t n, sd_context *ctx);

/* Symbols of n records have had some. */
void sd_note_seen(sd_dispatcher *d, const unsigned char *records, int64_t n);
/* Fires the timers of an owned strand up to `time`. Nonzero, and ctx->stopped: not all of them, because one failed, which has
 * been reported, or ctx->until is over. */
int sd_timers_fire(sd_dispatcher *d, const sd_handler *handler, sd_context *ctx, uint32_t strand, uint64_t time);

#endif
