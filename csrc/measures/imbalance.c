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
static void pass_time(sd_imbalance_row *row, const sd_interval_params *p, int64_t time) {
  if (time <= row->last_time) return;
  if (row->last_time && row->quotes && both(&row->top)) {
    const int64_t ns = sd_open_time(&row->stretch, &p->calendar, row->last_time, time);
    row->queue_ns += ns;
    row->queue_sum += row->queue * (double)ns;
    if (row->queue_ns) row->queue_mean = row->queue_sum / (double)row->queue_ns;
  }
  row->last_time = time;
}

/* Accounts the time up to a moment to the interval under way. The interval lies in one session, and the moment is not after its end. */
static void pass_interval(sd_imbalance_row *row, int64_t time) {
  if (time <= row->accounted) return;
  if (row->accounted && row->interval.end && row->quotes && both(&row->top)) {
    const int64_t ns = time - row->accounted;
    row->interval_ns += ns;
    row->interval_sum += row->queue * (double)ns;
  }
  row->accounted = time;
}

static int emit_interval(const sd_imbalance_row *row, sd_context *ctx, int64_t i, uint64_t flags) {
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

/* Ends the interval under way if a moment is at or after its end. Nonzero: no memory. */
static int end_interval(sd_imbalance_row *row, sd_context *ctx, int64_t i, int64_t time) {
  if (!sd_interval_over(&row->interval, time)) return 0;
  if (row->accounted) pass_interval(row, row->interval.end);
  if (row->interval_events && emit_interval(row, ctx, i, 0)) return -1;
  row->interval.end = 0;
  return 0;
}

static void start_interval(sd_imbalance_row *row, const sd_interval_params *p, sd_context *ctx, uint32_t key,
                           int64_t time) {
  sd_interval_begin(&row->interval, &row->stretch, p->every, time, ctx, key);
  /* From the interval's start on, the top that is in force counts for it. */
  if (row->accounted && row->accounted < row->interval.start) row->accounted = row->interval.start;
  row->interval_ofi = 0;
  row->interval_events = row->interval_ns = 0;
  row->interval_sum = 0;
}

/* The moment at which an event counts for intervals. */
static int64_t interval_time(const sd_imbalance_row *row, int64_t time) {
  return time > row->accounted ? time : row->accounted;
}

/* Nonzero: no memory. */
static int quote(sd_imbalance_row *row, const sd_interval_params *p, sd_context *ctx, int64_t i, uint32_t key,
                 const sd_event *e) {
  const int64_t time = e->time > row->last_time ? e->time : row->last_time;
  const int first = row->quotes == 0;
  if (first) row->top = SD_NO_TOP;
  if (p->every) {
    const int64_t at = interval_time(row, time);
    if (end_interval(row, ctx, i, at)) return -1;
    if (!row->interval.end && sd_stretch_at(&row->stretch, &p->calendar, at)) start_interval(row, p, ctx, key, at);
    pass_interval(row, at);
  }
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
  row->outside += !inside;
  if (!inside || first || new_session) return 0;
  const sd_wide flow = sd_order_flow(&was, &row->top);
  row->events++;
  row->interval_events++;
  if (__builtin_add_overflow(row->ofi, flow, &row->ofi) ||
      __builtin_add_overflow(row->interval_ofi, flow, &row->interval_ofi))
    return sd_too_large(ctx, "its order flow is");
  return 0;
}

/* The top is gone, and no order was cancelled for it: the next top says where flow starts from. A cleared book was in force until now. A
 * day's last top was in force until its last event, or, for an interval, until the end of the interval. Nonzero: no memory. */
static int clear(sd_imbalance_row *row, const sd_interval_params *p, sd_context *ctx, int64_t i, uint32_t key,
                 const sd_event *e) {
  const int64_t time = e->time > row->last_time ? e->time : row->last_time;
  if (row->quotes == 0) return 0;
  const int64_t at = interval_time(row, time);
  if (end_interval(row, ctx, i, at)) return -1;
  if (e->clear == SD_CLEAR_BOOK) {
    /* An interval may begin with this clear. The top that goes counts for it, and its going is a change. */
    if (p->every && row->accounted && !row->interval.end && both(&row->top) &&
        sd_stretch_at(&row->stretch, &p->calendar, at))
      start_interval(row, p, ctx, key, at);
    if (row->accounted) pass_interval(row, at);
    row->interval_events += row->interval.end && (row->top.bid != SD_UNDEF_PRICE || row->top.ask != SD_UNDEF_PRICE);
    pass_time(row, p, time);
  } else {
    row->last_time = time;
    if (row->accounted) row->accounted = at;
    sd_interval_cut(&row->interval, at, ctx, key);
    if (end_interval(row, ctx, i, at)) return -1;
  }
  row->top = SD_NO_TOP;
  row->queue = 0;
  row->session = INT64_MIN;
  return 0;
}

int64_t sd_handle_imbalance(void *rows, const sd_tick *ticks, int64_t n, sd_context *ctx) {
  const sd_interval_params *p = ctx->params;
  sd_event e;
  for (int64_t i = 0; i < n; i++) {
    if (sd_read_event(&p->source, ticks, i, n, ctx, &e)) return i;
    if (!e.bid && !e.ask && !e.clear) continue;
    const uint32_t key = ticks[i].instrument_id;
    sd_imbalance_row *row = (sd_imbalance_row *)((unsigned char *)rows + key * ctx->row_stride);
    if (e.clear && clear(row, p, ctx, i, key, &e)) return i;
    if ((e.bid || e.ask) && quote(row, p, ctx, i, key, &e)) return i;
    if (ctx->yield) return i + 1;
  }
  return n;
}

int sd_wake_imbalance(void *rows, uint32_t key, int64_t time, sd_context *ctx) {
  sd_imbalance_row *row = (sd_imbalance_row *)((unsigned char *)rows + key * ctx->row_stride);
  return end_interval(row, ctx, -1, sd_due_at(time, ctx));
}

int sd_finish_imbalance(void *rows, uint32_t key, sd_context *ctx) {
  const sd_interval_params *p = ctx->params;
  const sd_imbalance_row *row = (const sd_imbalance_row *)((unsigned char *)rows + key * ctx->row_stride);
  return p->partial && row->interval.end && row->interval_events ? emit_interval(row, ctx, -1, SD_INTERVAL_PARTIAL) : 0;
}
