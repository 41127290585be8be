/* One loop over ticks as a dispatcher would run a handler: ticks one by one, timers before them, the end of the run; what is
 * emitted lies in one array, in that order. */
#include <stdlib.h>

#include "sd_handler.h"

typedef struct plain_run {
  sd_context ctx;
  sd_output_writer writer;
  uint64_t *alarms; /* by key; 0: none */
  uint64_t now;     /* the feed's time, or the timer's */
} plain_run;

static int no_more(sd_context *ctx, sd_output_writer *writer) {
  (void)ctx, (void)writer;
  return -1;
}

/* An alarm for a time that is past is set to the next ns. */
static void wake_at(sd_context *ctx, uint32_t key, int64_t ns) {
  plain_run *run = ctx->engine;
  run->alarms[key] = ns && ns <= (int64_t)run->now ? run->now + 1 : (uint64_t)ns;
}

static int fire(plain_run *run, sd_wake_fn wake, void *rows, uint64_t now) {
  for (;;) {
    uint64_t first = UINT64_MAX, key = 0;
    for (uint64_t k = 0; k < run->ctx.n_rows; k++)
      if (run->alarms[k] && run->alarms[k] < first) first = run->alarms[k], key = k;
    if (first == UINT64_MAX || first > now) return 0;
    run->alarms[key] = 0;
    run->now = first;
    run->ctx.wake_key = (uint32_t)key;
    run->ctx.wake_time = (int64_t)first;
    run->ctx.wake_number = SD_TIMER;
    if (wake(rows, (uint32_t)key, (int64_t)first, &run->ctx)) return -1;
  }
}

/* Returns how many records were emitted; -1 - i: failed at tick i, with what it said in message (104 bytes). */
int64_t plain_run_ticks(sd_handler_fn fn, sd_wake_fn wake, sd_finish_fn finish, const void *params, void *rows,
                        uint64_t stride, uint64_t n_rows, const sd_tick *ticks, int64_t n, int timers,
                        unsigned char *out, uint64_t record_bytes, uint64_t room, char *message) {
  plain_run run = {0};
  sd_position *positions = calloc((size_t)n + 1, sizeof *positions);
  sd_output_writer *writers[2] = {&run.writer, &run.writer};
  const uint64_t entry = (sizeof(sd_emitted) + record_bytes + 7) / 8 * 8;
  uint64_t now = 0;
  int64_t i, failed = 0;
  run.alarms = calloc(n_rows, sizeof *run.alarms);
  if (!positions || !run.alarms) abort();
  run.writer = (sd_output_writer){out, out + room * entry, (uint32_t)record_bytes, (uint32_t)entry, no_more};
  run.ctx.params = params;
  run.ctx.row_stride = stride;
  run.ctx.n_rows = n_rows;
  run.ctx.record_size = sizeof *ticks;
  run.ctx.engine = &run;
  run.ctx.sequence = sd_sequence_at_of(offsetof(sd_tick, instrument_id), offsetof(sd_tick, sequence_low),
                                       offsetof(sd_tick, sequence_high));
  run.ctx.wake_at = timers ? wake_at : NULL;
  run.ctx.writers = writers;
  run.ctx.n_outputs = record_bytes ? 1 : 0;
  for (i = 0; i < n; i++) {
    if (ticks[i].ts_recv > (int64_t)now) now = (uint64_t)ticks[i].ts_recv;
    positions[i] = (sd_position){(uint64_t)i, (int64_t)now};
  }
  for (i = 0; i < n && !failed; i++) {
    const int64_t some = timers ? 1 : n;
    if (timers && wake && (failed = fire(&run, wake, rows, (uint64_t)positions[i].time))) break;
    run.now = (uint64_t)positions[i].time;
    run.ctx.positions = positions + i;
    run.ctx.keys = (const unsigned char *)(ticks + i) + offsetof(sd_tick, instrument_id);
    const int64_t done = fn(rows, ticks + i, some, &run.ctx);
    failed = done != some;
    i += failed ? done : some - 1;
    if (failed) break;
  }
  for (uint64_t key = 0; finish && !failed && key < n_rows; key++) {
    run.ctx.wake_key = (uint32_t)key;
    run.ctx.wake_time = now;
    run.ctx.wake_number = SD_AT_END;
    failed = finish(rows, (uint32_t)key, &run.ctx) != 0;
  }
  memcpy(message, run.ctx.message, sizeof run.ctx.message);
  free(positions);
  free(run.alarms);
  return failed ? -1 - i : (int64_t)((uint64_t)(run.writer.at - out) / entry);
}
