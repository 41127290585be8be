/* Intervals of feed time, whose figures are emitted when they end: by the symbol's timer, or by its first event after them.
 *
 * One driver for all measures that have intervals. It knows their borders, the sessions that cut them, the clears of books and days, and
 * the timers. A measure says what it accumulates (sd_measure). Intervals do not change a measure's totals. For an interval, receive times
 * that run backwards count as the latest so far.
 *
 * A time of 0 means that there is none: it lies decades before all others. A tick without a time belongs to an interval, but no empty
 * intervals follow until a tick has a time. */
#pragma once

#include <stddef.h>

#include "measures/calendar.h"
#include "measures/tape.h"

enum { SD_INTERVAL_PARTIAL = 1 }; /* in the flags of what is emitted: the run ended first */
/* The most empty intervals that are emitted in a row: so a wrong time costs at most a second, and less than output_memory holds. */
enum { SD_MAX_EMPTY = 1 << 22 };

typedef struct sd_interval {
  int64_t start, end; /* ns, end not in it; cut by the session. end 0: none is under way */
} sd_interval;

/* The params of every measure with intervals. */
typedef struct sd_measure_params {
  sd_source source;
  int64_t every;    /* ns; 0: nothing is emitted, and a row may end before what only intervals need */
  uint32_t fill;    /* intervals are emitted too in which nothing came */
  uint32_t partial; /* the interval under way is emitted at the end */
  uint32_t way;     /* the measure's own: see there */
  uint32_t by_time; /* of volatility: step is ns; else prices */
  int64_t step;
  sd_calendar calendar;
} sd_measure_params;

/* A measure, for the driver: offsets of fields in its row, and functions of a row. */
typedef struct sd_measure {
  size_t stretch;    /* sd_stretch */
  size_t interval;   /* sd_interval */
  size_t now;        /* int64_t: the moment up to which time has been accounted to intervals; 0: none */
  size_t events;     /* int64_t: of the interval under way. It is emitted if it has some */
  size_t stood;      /* int64_t: for how long something was in force in it. With `fill` it is emitted then too */
  size_t empty_left; /* int64_t: how many intervals without an event may follow. 0: they are never emitted */
  int (*emit)(const void *row, sd_context *ctx, int64_t i, uint64_t flags);
  void (*begin)(void *row); /* of an interval: its sums start again */
  /* Adds time to what is in force, in the interval under way. NULL: time adds nothing, and each time counts at once, a timer's too. */
  void (*pass)(void *row, int64_t ns);
  int (*stands)(const void *row); /* something is in force, so that empty intervals follow */
} sd_measure;

/* The row of one symbol at event i of a call, or at its timer or its end (-1). */
typedef struct sd_turn {
  const sd_measure *of;
  void *row;
  sd_stretch *stretch;
  sd_interval *interval;
  int64_t *now, *empty_left; /* of the row; NULL: no empty interval is ever emitted */
  const sd_measure_params *p;
  sd_context *ctx;
  int64_t i;
  uint32_t key;
} sd_turn;

SD_INLINE sd_turn sd_turn_of(const sd_measure *of, void *row, uint32_t key, sd_context *ctx, int64_t i) {
  unsigned char *at = row;
  int64_t *empty_left = of->empty_left ? (int64_t *)(void *)(at + of->empty_left) : NULL;
  return (sd_turn){.of = of,
                   .row = row,
                   .stretch = (sd_stretch *)(void *)(at + of->stretch),
                   .interval = (sd_interval *)(void *)(at + of->interval),
                   .now = (int64_t *)(void *)(at + of->now),
                   .empty_left = empty_left,
                   .p = ctx->params,
                   .ctx = ctx,
                   .i = i,
                   .key = key};
}

/* Counts one more empty interval that is emitted. Nonzero: there were too many in a row. *left: how many may still be. */
static inline int sd_count_empty(int64_t *left, sd_context *ctx) {
  if (--*left) return 0;
  snprintf(ctx->message, sizeof ctx->message,
           "%d empty intervals in a row: the next tick's time is wrong, or the intervals are too short", SD_MAX_EMPTY);
  return -1;
}

/* The moment at which an event counts for intervals. */
SD_INLINE int64_t sd_interval_time(const sd_turn *t, int64_t time) { return time > *t->now ? time : *t->now; }

/* Accounts the time up to a moment to the interval under way. The interval lies in one session, and the moment is not after its end. */
SD_INLINE void sd_pass(const sd_turn *t, int64_t time) {
  if (time <= *t->now) return;
  if (t->of->pass && *t->now && t->interval->end) t->of->pass(t->row, time - *t->now);
  *t->now = time;
}

/* Few events begin or end an interval. What they do is out of the others' way, and takes no turn, which then lies in registers. */
#define SD_SELDOM static SD_NOINLINE __attribute__((unused))

SD_SELDOM void sd_begin_now(const sd_measure *of, void *row, uint32_t key, sd_context *ctx, int64_t time) {
  const sd_turn turn = sd_turn_of(of, row, key, ctx, -1), *t = &turn;
  sd_interval *v = t->interval;
  sd_grid(t->stretch, t->p->every, time, &v->start, &v->end);
  if (t->ctx->wake_at && v->end != INT64_MAX) t->ctx->wake_at(t->ctx, t->key, sd_alarm_for(v->end, t->ctx));
  /* From the interval's start on, what is in force counts for it. */
  if (*t->now && *t->now < v->start) *t->now = v->start;
  t->of->begin(t->row);
}

/* Begins the interval that contains a moment of the row's stretch, and sets an alarm for its end. */
SD_INLINE void sd_begin(const sd_turn *t, int64_t time) { sd_begin_now(t->of, t->row, t->key, t->ctx, time); }

SD_INLINE int64_t sd_count_at(const sd_turn *t, size_t offset) {
  return *(const int64_t *)(const void *)((const unsigned char *)t->row + offset);
}

/* An interval without an event is emitted. */
SD_INLINE int sd_stood(const sd_turn *t) { return t->of->stood && t->p->fill && sd_count_at(t, t->of->stood); }

/* Ends the interval under way. Nonzero: no memory. */
SD_INLINE int sd_end(const sd_turn *t) {
  if (*t->now) sd_pass(t, t->interval->end);
  const int is_empty = !sd_count_at(t, t->of->events);
  if (!is_empty || sd_stood(t)) {
    if (is_empty && sd_count_empty(t->empty_left, t->ctx)) return -1;
    if (t->of->emit(t->row, t->ctx, t->i, 0)) return -1;
  }
  t->interval->end = 0;
  return 0;
}

SD_SELDOM int sd_advance_now(const sd_measure *of, void *row, uint32_t key, sd_context *ctx, int64_t i, int64_t time) {
  const sd_turn turn = sd_turn_of(of, row, key, ctx, i), *t = &turn;
  for (;;) {
    int64_t at = *t->now;
    if (t->interval->end) {
      if (time < t->interval->end) return 0;
      at = t->interval->end;
      if (sd_end(t)) return -1;
    }
    if (!t->empty_left || !*t->empty_left || !t->of->stands(t->row)) return 0;
    const int inside = sd_stretch_at(t->stretch, &t->p->calendar, at);
    /* The day may be over, between sessions or without any: a timer leaves what follows to the next event. */
    if (t->i < 0 && !sd_in_session(t->stretch, &t->p->calendar)) return 0;
    if (!inside) at = t->stretch->end;
    if (at > time) return 0;
    sd_stretch_at(t->stretch, &t->p->calendar, at);
    sd_begin(t, at);
  }
}

/* Ends what ends at or before a moment, and begins intervals that are emitted even if nothing comes. Nonzero: no memory. */
SD_INLINE int sd_advance(const sd_turn *t, int64_t time) {
  if (t->interval->end ? time < t->interval->end : !t->empty_left || !*t->empty_left) return 0;
  return sd_advance_now(t->of, t->row, t->key, t->ctx, t->i, time);
}

/* Begins an interval at a moment in a session, if none is under way, and accounts the time up to there. */
SD_INLINE void sd_go_on(const sd_turn *t, int64_t at, int begins) {
  if (begins && !t->interval->end && sd_stretch_at(t->stretch, &t->p->calendar, at)) sd_begin(t, at);
  sd_pass(t, at);
}

/* Brings the intervals to the moment of an event that changes what is in force. Nonzero: no memory. */
SD_INLINE int sd_meet(const sd_turn *t, int64_t time) {
  const int64_t at = sd_interval_time(t, time);
  if (sd_advance(t, at)) return -1;
  sd_go_on(t, at, 1);
  return 0;
}

/* What is in force goes, as a book is cleared. If that `changes` something, an interval may begin with it. The clear of a book that had no
 * top yet is the latest time, too. Nonzero: no memory. */
SD_INLINE int sd_meet_clear(const sd_turn *t, int64_t time, int changes) {
  const int64_t at = sd_interval_time(t, time);
  if (sd_advance(t, at)) return -1;
  sd_go_on(t, at, changes && *t->now);
  return 0;
}

/* A new day: the interval under way ends there at the latest, and its timer is over. Nonzero: no memory. */
SD_INLINE int sd_begin_day(const sd_turn *t, int64_t time) {
  const int64_t at = sd_interval_time(t, time);
  if (t->empty_left) *t->empty_left = 0;
  if (sd_advance(t, at)) return -1;
  if (t->interval->end > at) t->interval->end = at;
  if (t->ctx->wake_at) t->ctx->wake_at(t->ctx, t->key, 0);
  if (*t->now || !t->of->pass) *t->now = at;
  return t->interval->end ? sd_end(t) : 0;
}

/* The timer of a row. */
SD_INLINE int sd_wake_measure(const sd_measure *of, void *rows, uint32_t key, int64_t time, sd_context *ctx) {
  const sd_turn t = sd_turn_of(of, sd_row_of(rows, key, ctx), key, ctx, -1);
  const int64_t due = sd_due_at(time, ctx);
  if (sd_advance(&t, due)) return -1;
  if (!of->pass) sd_pass(&t, due);
  return 0;
}

/* The end of a row. */
SD_INLINE int sd_finish_measure(const sd_measure *of, void *rows, uint32_t key, sd_context *ctx) {
  const sd_turn t = sd_turn_of(of, sd_row_of(rows, key, ctx), key, ctx, -1);
  if (!t.p->partial || !t.interval->end || (!sd_count_at(&t, of->events) && !sd_stood(&t))) return 0;
  return of->emit(t.row, ctx, -1, SD_INTERVAL_PARTIAL);
}

/* The handler of a measure `of`: an sd_take_fn takes its events. */
#define SD_MEASURE_HANDLER(name, of, take) \
  int64_t sd_handle_##name(void *rows, const sd_tick *ticks, int64_t n, sd_context *ctx) { \
    return sd_take_events(rows, ticks, n, ctx, take); \
  } \
  int sd_wake_##name(void *rows, uint32_t key, int64_t time, sd_context *ctx) { \
    return sd_wake_measure(&of, rows, key, time, ctx); \
  } \
  int sd_finish_##name(void *rows, uint32_t key, sd_context *ctx) { return sd_finish_measure(&of, rows, key, ctx); }
