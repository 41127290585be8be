/* Intervals of feed time whose figures are emitted when they end: by the symbol's timer, or by its first tick after them.
 *
 * A time of 0 means that there is none: it lies decades before all others. A tick without a time belongs to an interval, but no empty
 * intervals follow until a tick has a time. */
#ifndef SD_MEASURES_INTERVAL_H
#define SD_MEASURES_INTERVAL_H

#include "measures/calendar.h"
#include "measures/tape.h"

enum { SD_INTERVAL_PARTIAL = 1 }; /* in the flags of what is emitted: the run ended first */
/* The most empty intervals that are emitted in a row: so a wrong time costs at most a second, and less than output_memory holds. */
enum { SD_MAX_EMPTY = 1 << 22 };

typedef struct sd_interval {
  int64_t start, end; /* ns, end not in it; cut by the session. end 0: none is under way */
} sd_interval;

/* The params of a handler that has no others. */
typedef struct sd_interval_params {
  sd_source source;
  int64_t every;    /* ns; 0: nothing is emitted */
  uint64_t partial; /* the interval under way is emitted at the end */
  sd_calendar calendar;
} sd_interval_params;

/* Nonzero: it ends at or before a moment. */
static inline int sd_interval_over(const sd_interval *v, int64_t time) { return v->end && time >= v->end; }

/* Counts one more empty interval that is emitted. Nonzero: there were too many in a row. *left: how many may still be. */
static inline int sd_count_empty(int64_t *left, sd_context *ctx) {
  if (--*left) return 0;
  snprintf(ctx->message, sizeof ctx->message,
           "%d empty intervals in a row: the next tick's time is wrong, or the intervals are too short", SD_MAX_EMPTY);
  return -1;
}

/* Begins the interval that contains a moment of stretch *s, and sets an alarm for its end. */
static inline void sd_interval_begin(sd_interval *v, const sd_stretch *s, int64_t every, int64_t time, sd_context *ctx,
                                     uint32_t key) {
  sd_grid(s, every, time, &v->start, &v->end);
  if (ctx->wake_at && v->end != INT64_MAX) ctx->wake_at(ctx, key, sd_alarm_for(v->end, ctx));
}

/* A new day at `time`: the interval under way ends there at the latest. Its timer is over. */
static inline void sd_interval_cut(sd_interval *v, int64_t time, sd_context *ctx, uint32_t key) {
  if (v->end > time) v->end = time;
  if (ctx->wake_at) ctx->wake_at(ctx, key, 0);
}

#endif
