#include "measures/imbalance.h"

#include <math.h>

sd_wide sd_order_flow(const sd_top *was, const sd_top *is) {
  const int64_t bid_was = was->bid == SD_UNDEF_PRICE ? INT64_MIN : was->bid;
  const int64_t bid_is = is->bid == SD_UNDEF_PRICE ? INT64_MIN : is->bid;
  sd_wide flow = 0;
  if (bid_is >= bid_was) flow += is->bid_size;
  if (bid_is <= bid_was) flow -= was->bid_size;
  /* An undefined ask is the greatest number already. */
  if (is->ask <= was->ask) flow -= is->ask_size;
  if (is->ask >= was->ask) flow += was->ask_size;
  return flow;
}

static int both(const sd_top *top) {
  return top->bid != SD_UNDEF_PRICE && top->ask != SD_UNDEF_PRICE && (top->bid_size | top->ask_size) != 0;
}

/* Accounts the time since the last event to the top that was in force. */
static void pass_time(sd_imbalance_row *row, const sd_measure_params *p, int64_t time) {
  if (time <= row->last_time) return;
  if (row->last_time && row->quotes && both(&row->top)) {
    const int64_t ns = sd_open_time(&row->stretch, &p->calendar, row->last_time, time);
    row->queue_ns += ns;
    row->queue_sum += row->queue * (double)ns;
    if (row->queue_ns) row->queue_mean = row->queue_sum / (double)row->queue_ns;
  }
  row->last_time = time;
}

/* ---- intervals */

static int emit(const void *at, sd_context *ctx, int64_t i, uint64_t flags) {
  const sd_imbalance_row *row = at;
  const sd_imbalance interval = {
      .start = row->interval.start,
      .end = row->interval.end,
      .ofi = row->interval_ofi,
      .queue_mean = row->interval_ns ? row->interval_sum / (double)row->interval_ns : NAN,
      .bid = row->top.bid,
      .ask = row->top.ask,
      .bid_size = row->top.bid_size,
      .ask_size = row->top.ask_size,
      .events = row->interval_events,
      .flags = flags,
  };
  return sd_emit(ctx, 0, i, &interval);
}

static void begin(void *at) {
  sd_imbalance_row *row = at;
  row->interval_ofi = 0;
  row->interval_events = row->interval_ns = 0;
  row->interval_sum = 0;
}

static void pass(void *at, int64_t ns) {
  sd_imbalance_row *row = at;
  if (!row->quotes || !both(&row->top)) return;
  row->interval_ns += ns;
  row->interval_sum += row->queue * (double)ns;
}

static const sd_measure IMBALANCE = {
    .stretch = offsetof(sd_imbalance_row, stretch),
    .interval = offsetof(sd_imbalance_row, interval),
    .now = offsetof(sd_imbalance_row, accounted),
    .events = offsetof(sd_imbalance_row, interval_events),
    .emit = emit,
    .begin = begin,
    .pass = pass,
};

/* ---- events */

/* Nonzero: no memory. */
static int quote(sd_imbalance_row *row, const sd_turn *turn, int64_t time, const sd_event *e) {
  const sd_measure_params *p = turn->p;
  const int first = row->quotes == 0;
  if (first) row->top = SD_NO_TOP;
  if (p->every && sd_meet(turn, time)) return -1;
  pass_time(row, p, time);
  const int inside = sd_stretch_at(&row->stretch, &p->calendar, time);
  const sd_top was = row->top;
  if (!sd_top_take(&row->top, e)) return 0;
  const int new_session = row->stretch.start != row->session;
  row->session = row->stretch.start;
  row->quotes++;
  row->queue = both(&row->top) ? ((double)row->top.bid_size - (double)row->top.ask_size) /
                                     ((double)row->top.bid_size + (double)row->top.ask_size)
                               : 0;
  if (!inside && sd_leave_out(&row->outside, &row->stretch, &p->calendar, turn->ctx)) return -1;
  if (!inside || first || new_session) return 0;
  const sd_wide flow = sd_order_flow(&was, &row->top);
  row->events++;
  row->interval_events++;
  if (__builtin_add_overflow(row->ofi, flow, &row->ofi) ||
      __builtin_add_overflow(row->interval_ofi, flow, &row->interval_ofi))
    return sd_too_large(turn->ctx, "its order flow is");
  return 0;
}

/* The top is gone, and no order was cancelled for it: the next top says where flow starts from. A cleared book was in force until now. A
 * day's last top was in force until its last event, or, for an interval, until the end of the interval. Nonzero: no memory. */
static int clear(sd_imbalance_row *row, const sd_turn *turn, int64_t time, uint64_t what) {
  if (row->quotes == 0 && what == SD_CLEAR_DAY) return 0;
  if (what == SD_CLEAR_BOOK) {
    /* That the top goes is a change. */
    const int changes = row->quotes && sd_top_any(&row->top);
    if (turn->p->every && sd_meet_clear(turn, time, changes)) return -1;
    row->interval_events += changes && row->interval.end;
    pass_time(row, turn->p, time);
  } else {
    row->last_time = time;
    if (sd_begin_day(turn, time)) return -1;
  }
  row->top = SD_NO_TOP;
  row->queue = 0;
  row->session = INT64_MIN;
  return 0;
}

static int take(void *at, sd_context *ctx, int64_t i, const sd_tick *t, const sd_event *e) {
  sd_imbalance_row *row = at;
  const sd_turn turn = sd_turn_of(&IMBALANCE, row, t->instrument_id, ctx, i);
  const int64_t time = e->time > row->last_time ? e->time : row->last_time;
  if (e->clear && clear(row, &turn, time, e->clear)) return -1;
  return (e->bid || e->ask) && quote(row, &turn, time, e);
}

SD_MEASURE_HANDLER(imbalance, IMBALANCE, take)
