/* Sessions: the stretches of time in which a venue is open, as a table in the params of a handler. */
#ifndef SD_HANDLERS_CALENDAR_H
#define SD_HANDLERS_CALENDAR_H

#include <stdint.h>

typedef struct sd_session {
  int64_t start, end; /* ns since the epoch, end not in it */
} sd_session;

/* The last of the params. The sessions are in order, none is empty, and none overlap. */
typedef struct sd_calendar {
  uint64_t n; /* 0: all of time is one session */
  sd_session sessions[];
} sd_calendar;

/* A session, or the time between two sessions. Zeroed: not set yet. */
typedef struct sd_stretch {
  int64_t start, end; /* end not in it; INT64_MAX: no end */
  uint64_t inside;    /* it is a session */
} sd_stretch;

void sd_find_stretch(sd_stretch *s, const sd_calendar *c, int64_t time);

/* Sets *s to the stretch that contains a moment. Zero: outside of sessions. */
static inline int sd_stretch_at(sd_stretch *s, const sd_calendar *c, int64_t time) {
  if (__builtin_expect(time < s->start || time >= s->end, 0)) sd_find_stretch(s, c, time);
  return s->inside != 0;
}

/* Nonzero: the stretch is a session of a calendar that has sessions, so it does not lie between two days. */
static inline int sd_in_session(const sd_stretch *s, const sd_calendar *c) { return c->n && s->inside; }

/* How much of from .. to is in sessions, ns; sets *s to the stretch of `to`. */
int64_t sd_open_time(sd_stretch *s, const sd_calendar *c, int64_t from, int64_t to);

/* Finds the step that contains a moment, on a grid from the stretch's start: its start and its end. The stretch cuts the end. */
static inline void sd_grid(const sd_stretch *s, int64_t step, int64_t time, int64_t *start, int64_t *end) {
  *start = s->start + (time - s->start) / step * step;
  *end = s->end - *start > step ? *start + step : s->end;
}

#endif
