#include "reference/serial.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "handlers/chain.h"
#include "sd_error.h"

enum { FIRST_ENTRIES = 256 };

static int refuse(sd_context *ctx, const void *records, int64_t n, int64_t *accepted) {
  (void)records, (void)n;
  ((sd_serial *)ctx->engine)->tried_to_publish = 1;
  *accepted = 0;
  return SD_E_STOPPED;
}

/* Doubles the memory. It holds everything emitted while one publish, or the end, is handled: what the records emit, and what timers emit.
 * If a time jumps far ahead, the number of timers has no bound. */
static int grow(sd_context *ctx, sd_output_writer *writer) {
  sd_serial_output *o = (sd_serial_output *)writer;
  size_t used = (size_t)(writer->at - o->begin),
         capacity = used ? 2 * used : (size_t)FIRST_ENTRIES * writer->entry_bytes;
  unsigned char *begin = realloc(o->begin, capacity);
  if (!begin) {
    snprintf(ctx->message, sizeof ctx->message, "no memory for %zu bytes of records emitted", capacity);
    ctx->error_code = SD_E_NO_MEMORY;
    return SD_E_NO_MEMORY;
  }
  o->begin = begin;
  writer->at = begin + used;
  writer->end = begin + capacity;
  return SD_OK;
}

sd_serial_output *sd_serial_output_create(uint32_t record_bytes) {
  sd_serial_output *o = calloc(1, sizeof *o);
  if (!o) return NULL;
  o->writer.record_bytes = record_bytes;
  o->writer.entry_bytes = (uint32_t)((sizeof(sd_emitted) + record_bytes + 7) / 8 * 8);
  o->writer.more = grow;
  return o;
}

void sd_serial_output_destroy(sd_serial_output *o) {
  if (o) free(o->begin);
  free(o);
}

/* ---- calls */

static void ask(sd_context *ctx, uint32_t key, int64_t ns) {
  sd_serial *s = ctx->engine;
  if (key >= s->n_rows) return;
  /* A handler with timers gets one record per call. */
  const int64_t now = ctx->positions ? ctx->positions->time : ctx->wake_time;
  s->alarms[key] = sd_alarm_after(ns, now);
}

static void open_context(sd_serial *s, sd_context *ctx) {
  memset(ctx, 0, sizeof *ctx);
  ctx->params = s->params;
  ctx->row_stride = s->row_stride;
  ctx->n_rows = s->n_rows;
  ctx->record_size = s->record_size;
  ctx->engine = s;
  ctx->sequence = s->sequence;
  ctx->publish = refuse;
  ctx->wake_at = s->wake && s->alarms ? ask : NULL;
  ctx->writers = s->writers;
  ctx->n_outputs = s->n_outputs;
  s->tried_to_publish = s->at_timer = 0;
  s->error_code = 0;
  s->message[0] = 0;
}

static int64_t run(sd_serial *s, const unsigned char *records, const sd_position *positions, int64_t n,
                   sd_context *ctx) {
  ctx->positions = positions;
  ctx->keys = records + s->key_offset;
  int64_t done = s->fn(s->rows, (const sd_tick *)records, n, ctx);
  s->error_code = ctx->error_code;
  memcpy(s->message, ctx->message, sizeof s->message);
  if (done >= 0 && done <= n) return done;
  snprintf(s->message, sizeof s->message, "the handler returned %lld for %lld records", (long long)done, (long long)n);
  return 0;
}

/* Runs a timer, or the end. */
static int act(sd_serial *s, uint32_t key, uint64_t time, uint64_t number, sd_context *ctx) {
  ctx->positions = NULL;
  ctx->keys = NULL;
  ctx->wake_key = key;
  ctx->wake_time = (int64_t)time;
  ctx->wake_number = number;
  int code = number == SD_TIMER ? s->wake(s->rows, key, (int64_t)time, ctx) : s->finish(s->rows, key, ctx);
  if (!code) return 0;
  s->error_code = ctx->error_code ? ctx->error_code : code;
  memcpy(s->message, ctx->message, sizeof s->message);
  s->at_timer = 1;
  s->key = key;
  s->time = time;
  return code;
}

static int wake(sd_serial *s, uint32_t key, uint64_t time, sd_context *ctx) {
  if (s->alarms) s->alarms[key] = 0;
  return act(s, key, time, SD_TIMER, ctx);
}

static int64_t run_all(sd_serial *s, const void *records, const sd_position *positions, int64_t n) {
  sd_context ctx;
  open_context(s, &ctx);
  if (!ctx.wake_at) return run(s, records, positions, n, &ctx);
  const unsigned char *record = records;
  for (int64_t i = 0; i < n; i++, record += s->record_size) {
    uint32_t key;
    memcpy(&key, record + s->key_offset, sizeof key);
    for (uint64_t alarm; (alarm = s->alarms[key]) && alarm <= (uint64_t)positions[i].time;)
      if (wake(s, key, alarm, &ctx)) return i;
    if (run(s, record, positions + i, 1, &ctx) != 1) return i;
  }
  return n;
}

int64_t sd_serial_run(sd_serial *s, const void *records, const sd_position *positions, int64_t n) {
  const int64_t done = run_all(s, records, positions, n);
  s->handled += (uint64_t)(s->tried_to_publish && n && done == n ? n - 1 : done);
  return done;
}

int64_t sd_serial_track(sd_serial *s, const void *records, const sd_position *positions, int64_t n, uint64_t width,
                        void *after, int32_t *failed) {
  sd_context ctx;
  open_context(s, &ctx);
  const unsigned char *record = records;
  *failed = 0;
  for (int64_t i = 0; i < n; i++, record += s->record_size) {
    uint32_t key;
    memcpy(&key, record + s->key_offset, sizeof key);
    uint64_t alarm = sd_chain_alarm(s->params, key);
    if (alarm && alarm <= (uint64_t)positions[i].time) return i;
    if (run(s, record, positions + i, 1, &ctx) != 1 || s->tried_to_publish) {
      *failed = 1;
      return i;
    }
    memcpy((unsigned char *)after + (uint64_t)i * width, (unsigned char *)s->rows + key * s->row_stride, width);
  }
  return n;
}

int sd_serial_wake(sd_serial *s, uint32_t key, uint64_t time) {
  sd_context ctx;
  open_context(s, &ctx);
  return wake(s, key, time, &ctx);
}

int sd_serial_finish(sd_serial *s, uint32_t key, uint64_t time) {
  sd_context ctx;
  open_context(s, &ctx);
  return act(s, key, time, SD_AT_END, &ctx);
}
