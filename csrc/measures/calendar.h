/* Sessions: the stretches of time in which a venue is open, as a table in the params of a handler. */
#pragma once

#include <stdint.h>

#include "sd_handler.h"

typedef struct sd_session {
  int64_t start, end; /* ns since the epoch, end not in it */
} sd_session;

/* Why a stretch of time is unknown, zero-terminated: the message of the error that a tick there is. */
typedef char sd_unknown_text[104];

/* The last of the params. The sessions are in order, none is empty, and none overlap; so are the stretches that nobody knows. Their texts
 * stand behind them, an sd_unknown_text each. */
typedef struct sd_calendar {
  uint64_t n;             /* 0: all of time is one session */
  uint64_t unknown;       /* stretches of which nobody knows whether they are sessions */
  int64_t auctions;       /* ns after a session in which crosses count; 0: none count */
  sd_session stretches[]; /* n sessions, then the unknown ones */
} sd_calendar;

enum { SD_OUTSIDE = 0, SD_SESSION = 1, SD_AUCTION = 2, SD_UNKNOWN = 3 };

/* A session, the time after it in which crosses count, the rest until the next one, or an unknown stretch. Zeroed: not set yet. */
typedef struct sd_stretch {
  int64_t start, end; /* end not in it; INT64_MAX: no end */
  uint64_t inside;    /* SD_SESSION, SD_AUCTION, SD_OUTSIDE, SD_UNKNOWN */
} sd_stretch;

void sd_find_stretch(sd_stretch *s, const sd_calendar *c, int64_t time);

/* Sets *s to the stretch that contains a moment. Zero: outside of sessions. */
static inline int sd_stretch_at(sd_stretch *s, const sd_calendar *c, int64_t time) {
  if (__builtin_expect(time < s->start || time >= s->end, 0)) sd_find_stretch(s, c, time);
  return s->inside == SD_SESSION;
}

/* The same for a trade, which is a cross or not. Zero: it does not count. */
static inline int sd_trade_stretch_at(sd_stretch *s, const sd_calendar *c, int64_t time, int cross) {
  return sd_stretch_at(s, c, time) || (s->inside == SD_AUCTION && cross);
}

/* Nonzero: the stretch is unknown, and ctx->message says why. */
int sd_check_known(const sd_stretch *s, const sd_calendar *c, sd_context *ctx);

/* Counts what is outside of sessions, and so left out. Nonzero: its stretch is unknown. */
static inline int sd_leave_out(int64_t *outside, const sd_stretch *s, const sd_calendar *c, sd_context *ctx) {
  ++*outside;
  return sd_check_known(s, c, ctx);
}

/* Nonzero: the stretch is a session of a calendar that has sessions, so it does not lie between two days. */
static inline int sd_in_session(const sd_stretch *s, const sd_calendar *c) { return c->n && s->inside == SD_SESSION; }

/* How much of from .. to is in sessions, ns; sets *s to the stretch of `to`. */
int64_t sd_open_time(sd_stretch *s, const sd_calendar *c, int64_t from, int64_t to);

#define SD_DAY INT64_C(86400000000000)
/* A session of a whole day is longer where clocks are set back: up to two hours more belong to its one step of a day. */
#define SD_SET_BACK INT64_C(7200000000000)

/* Finds the end of the step that starts at a moment. The stretch cuts it. */
static inline int64_t sd_step_end(const sd_stretch *s, int64_t step, int64_t start) {
  const int64_t rest = step == SD_DAY ? SD_SET_BACK : 0;
  return s->end - start - step > rest ? start + step : s->end;
}

/* Finds the step that contains a moment, on a grid from the stretch's start: its start and its end. */
static inline void sd_grid(const sd_stretch *s, int64_t step, int64_t time, int64_t *start, int64_t *end) {
  *start = s->start + (time - s->start) / step * step;
  if (step == SD_DAY && *start > s->start && s->end - *start <= SD_SET_BACK) *start -= step;
  *end = sd_step_end(s, step, *start);
}
