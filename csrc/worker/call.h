/* Calling a native handler. By the thread that is participant `participant`, which owns the strand. */
#pragma once

#include "state/state.h"

void sd_context_of(sd_dispatcher *d, uint32_t participant, const sd_handler *handler, sd_context *ctx);
/* The one place that calls a native handler. Returns how many of the n records it handled. If these are fewer than n, it failed on the
 * next record, and *ctx says why: call sd_fail. `strand`: the strand of all these records, or SD_NONE if they are of several. */
int64_t sd_run_handler(sd_dispatcher *d, const sd_handler *handler, uint32_t strand, const unsigned char *records,
                       const sd_position *positions, int64_t n, sd_context *ctx);

/* What a handler returned for n records, if that is a count of them; else 0, and *ctx says so. */
int64_t sd_handler_done(int64_t done, int64_t n, sd_context *ctx);

/* As sd_run_handler, for records without positions: their handler has no timers, ends and outputs. Short, for handlers that cost little. */
static inline int64_t sd_run_plain(sd_dispatcher *d, const sd_handler *handler, const unsigned char *records, int64_t n,
                                   sd_context *ctx) {
  ctx->keys = records + d->arena->key_offset;
  const int64_t done = handler->fn(d->rows, (const sd_tick *)records, n, ctx);
  return SD_LIKELY(done == n) ? n : sd_handler_done(done, n, ctx);
}

/* Notes that the symbols of n records have had a record. */
void sd_note_seen(sd_dispatcher *d, const unsigned char *records, int64_t n);
/* Fires the timers of an owned strand up to `time`. Nonzero, with ctx->stopped: it did not fire all, because one failed (and was
 * reported) or because ctx->until has passed. */
int sd_timers_fire(sd_dispatcher *d, const sd_handler *handler, sd_context *ctx, uint32_t strand, uint64_t time);
