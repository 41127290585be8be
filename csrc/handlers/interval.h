/* Intervals of feed time whose figures are emitted when they end: by the symbol's timer, or its first tick after them. */
#ifndef SD_HANDLERS_INTERVAL_H
#define SD_HANDLERS_INTERVAL_H

#include "handlers/calendar.h"
#include "sd_handler.h"

enum { SD_INTERVAL_PARTIAL = 1 }; /* in the flags of what is emitted: the run ended first */

typedef struct sd_interval {
  uint64_t start, end; /* ns, end not in it; cut by the session. end 0: none is under way */
} sd_interval;

/* Nonzero: it ends at or before a moment. */
static inline int sd_interval_over(const sd_interval *v, uint64_t time) { return v->end && time >= v->end; }

/* Begins the one that a moment of stretch *s belongs to, and wishes to be woken at its end. */
static inline void sd_interval_begin(sd_interval *v, const sd_stretch *s, uint64_t every, uint64_t time,
                                     sd_context *ctx, uint32_t key) {
  sd_grid(s, every, time, &v->start, &v->end);
  if (ctx->wake_at && v->end != UINT64_MAX) ctx->wake_at(ctx, key, v->end);
}

#endif
