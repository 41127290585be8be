/* Calling a native handler: its context, its records, and the timers that come before them. */
#include "worker/call.h"

#include <stdio.h>

#include "base/clock.h"
#include "emit/writer.h"
#include "numbering/failure.h"
#include "worker/alarm.h"
#include "worker/submit.h"

/* How many timers' rows are fetched together, and how many lines of each row. */
enum { AT_A_GO = 8, MAX_LINES = 6 };

void sd_context_of(sd_dispatcher *d, uint32_t participant, const sd_handler *handler, sd_context *ctx) {
  ctx->params = handler->params;
  ctx->row_stride = d->arena->row_stride;
  ctx->n_rows = d->arena->n_symbols;
  ctx->record_size = d->arena->record_size;
  ctx->participant = participant;
  ctx->error_code = 0;
  ctx->message[0] = 0;
  ctx->engine = d;
  ctx->publish = d->publish;
  ctx->positions = NULL;
  ctx->shared = NULL;
  ctx->wake_at = handler->wake ? sd_wake_at : NULL;
  ctx->keys = NULL;
  ctx->n_outputs = handler->n_outputs;
  ctx->writers = ctx->n_outputs ? sd_writers_of(d, participant, handler) : NULL;
  ctx->wake_key = 0;
  ctx->wake_time = 0;
  ctx->wake_number = SD_TIMER;
  ctx->sequence = d->arena->sequence;
  ctx->yield = ctx->stopped = 0;
  ctx->submit = sd_submit_from_handler;
}

void sd_note_seen(sd_dispatcher *d, const unsigned char *records, int64_t n) {
  const size_t size = d->arena->record_size;
  for (int64_t i = 0; i < n; i++, records += size) {
    /* Other cores write the bytes beside this one, so store only once. */
    unsigned char *seen = &d->seen[sd_key_of(d, records)];
    if (SD_UNLIKELY(!*seen)) *seen = 1;
  }
}

/* ---- timers */

/* Fires a symbol's timer. Nonzero: its handler failed. */
static int fire(sd_dispatcher *d, const sd_handler *handler, sd_context *ctx, const sd_alarm_tree *t, uint32_t leaf) {
  const uint32_t key = t->symbol[leaf - t->n];
  const uint64_t time = sd_alarm_at(t, leaf);
  sd_timer_context(ctx, key, time);
  int code = handler->wake(d->rows, key, (int64_t)time, ctx);
  if (ctx->n_outputs) {
    if (code) sd_writers_void(ctx, 0);
    else sd_writers_commit(ctx);
  }
  sd_arm_leaf(d, t, leaf, ctx->alarm);
  if (!code) return 0;
  if (!ctx->error_code) ctx->error_code = code;
  sd_fail_symbol(d, ctx->participant, d->map[key], key, time, 0, ctx->error_code, ctx->message);
  ctx->stopped = 1;
  return 1;
}

int sd_timers_fire(sd_dispatcher *d, const sd_handler *handler, sd_context *ctx, uint32_t strand, uint64_t time) {
  const sd_alarm_tree tree = sd_alarm_tree_of(&d->alarms, strand), *t = &tree;
  const uint64_t stride = d->arena->row_stride;
  uint32_t leaf[AT_A_GO], n;
  for (int any = 0; (n = sd_alarm_due(t, time, leaf, AT_A_GO)) > 0; any = 1) {
    /* A timer may ask for the next one at once, for ever. Some have fired, so the strand makes progress. */
    if (any && sd_now() > ctx->until) {
      ctx->stopped = 1;
      return 1;
    }
    /* The order does not matter, because each timer has its own symbol's row. */
    for (uint32_t i = 0; i < n; i++) {
      const unsigned char *row = d->rows + t->symbol[leaf[i] - t->n] * stride;
      for (uint64_t line = 0; line < stride && line < MAX_LINES * SD_LINE; line += SD_LINE)
        sd_prefetch_write(row + line);
    }
    for (uint32_t i = 0; i < n; i++)
      if (fire(d, handler, ctx, t, leaf[i])) return 1;
  }
  return 0;
}

/* ---- among records */

/* As sd_run_handler, for a handler with timers. ctx->stopped: it ended early at a timer, as sd_timers_fire does. */
static int64_t run_timed(sd_dispatcher *d, const sd_handler *handler, uint32_t strand, const unsigned char *records,
                         const sd_position *positions, int64_t n, sd_context *ctx) {
  const size_t size = d->arena->record_size;
  int64_t at = 0;
  ctx->stopped = 0;
  while (at < n) {
    const unsigned char *from = records + (size_t)at * size;
    /* A record may ask for a timer before the next record: only a handler that then returns may get more than one. */
    const int64_t maximum = sd_timer_cut(d, strand, from, positions + at, handler->yields ? n - at : 1);
    if (SD_UNLIKELY(!maximum)) {
      if (ctx->n_outputs) sd_writers_commit(ctx);
      if (sd_timers_fire(d, handler, ctx, d->map[sd_key_of(d, from)], positions[at].time)) return at;
      continue;
    }
    ctx->positions = positions + at;
    ctx->keys = from + d->arena->key_offset;
    ctx->call_start = positions[at].time;
    ctx->call_end = positions[at + maximum - 1].time;
    ctx->yield = 0;
    int64_t done = handler->fn(d->rows, (const sd_tick *)from, maximum, ctx);
    if (SD_UNLIKELY(ctx->yield) && done > 0 && done <= maximum && !ctx->error_code) {
      /* The last record handled is the one that asked. */
      const uint64_t time = positions[at + done - 1].time;
      const sd_alarm_place place = d->alarms.place[ctx->wake_key];
      const sd_alarm_tree t = sd_alarm_tree_of(&d->alarms, place.strand);
      if (sd_alarm_precedes(sd_alarm_at(&t, place.leaf), time))
        sd_arm(d, ctx->wake_key, sd_alarm_after((int64_t)sd_alarm_at(&t, place.leaf), (int64_t)time));
    } else if (SD_UNLIKELY(done != maximum)) {
      if (done >= 0 && done < maximum) return at + done;
      snprintf(ctx->message, sizeof ctx->message, "the handler returned %lld for %lld records", (long long)done,
               (long long)maximum);
      return at;
    }
    at += done;
  }
  return n;
}

/* ---- the call */

int64_t sd_handler_done(int64_t done, int64_t n, sd_context *ctx) {
  if (done >= 0 && done <= n) return done;
  snprintf(ctx->message, sizeof ctx->message, "the handler returned %lld for %lld records", (long long)done,
           (long long)n);
  return 0;
}

int64_t sd_run_handler(sd_dispatcher *d, const sd_handler *handler, uint32_t strand, const unsigned char *records,
                       const sd_position *positions, int64_t n, sd_context *ctx) {
  int64_t done;
  if (SD_UNLIKELY(handler->finish != NULL)) sd_note_seen(d, records, n);
  if (SD_LIKELY(!handler->wake)) {
    ctx->positions = positions;
    ctx->keys = records + d->arena->key_offset;
    done = handler->fn(d->rows, (const sd_tick *)records, n, ctx);
  } else {
    done = run_timed(d, handler, strand, records, positions, n, ctx);
    if (SD_UNLIKELY(ctx->stopped)) return done;
  }
  if (SD_LIKELY(done == n)) {
    if (ctx->n_outputs) sd_writers_commit(ctx);
    return n;
  }
  done = sd_handler_done(done, n, ctx);
  if (ctx->n_outputs) sd_writers_void(ctx, positions[done].number);
  return done;
}
