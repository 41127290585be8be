#include "sd_serial.h"

#include "sd_error.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { FIRST_ENTRIES = 256 };

static int refuse(sd_context *ctx, const void *records, int64_t n, int64_t *accepted) {
  (void)records, (void)n;
  ((sd_serial *)ctx->engine)->tried_to_publish = 1;
  *accepted = 0;
  return SD_E_STOPPED;
}

/* Twice as much memory: what is emitted is bounded by what is published at one go. */
static int grow(sd_context *ctx, sd_sink *sink) {
  sd_serial_output *o = (sd_serial_output *)sink;
  size_t used = (size_t)(sink->at - o->begin), room = used ? 2 * used : (size_t)FIRST_ENTRIES * sink->entry_bytes;
  unsigned char *begin = realloc(o->begin, room);
  if (!begin) {
    snprintf(ctx->message, sizeof ctx->message, "no memory for %zu bytes of records emitted", room);
    ctx->error_code = SD_E_NO_MEMORY;
    return SD_E_NO_MEMORY;
  }
  o->begin = begin;
  sink->at = begin + used;
  sink->end = begin + room;
  return SD_OK;
}

sd_serial_output *sd_serial_output_create(uint32_t record_bytes) {
  sd_serial_output *o = calloc(1, sizeof *o);
  if (!o) return NULL;
  o->sink.record_bytes = record_bytes;
  o->sink.entry_bytes = (uint32_t)((sizeof(sd_emitted) + record_bytes + 7) / 8 * 8);
  o->sink.more = grow;
  return o;
}

void sd_serial_output_destroy(sd_serial_output *o) {
  if (o) free(o->begin);
  free(o);
}

int64_t sd_serial_run(sd_serial *s, const void *records, const sd_mark *marks, int64_t n) {
  sd_context ctx;
  memset(&ctx, 0, sizeof ctx);
  ctx.params = s->params;
  ctx.row_stride = s->row_stride;
  ctx.n_rows = s->n_rows;
  ctx.record_size = s->record_size;
  ctx.engine = s;
  ctx.publish = refuse;
  ctx.marks = marks;
  ctx.keys = (const unsigned char *)records + s->key_offset;
  ctx.sinks = s->sinks;
  ctx.n_outputs = s->n_outputs;
  s->tried_to_publish = 0;
  int64_t done = s->fn(s->rows, records, n, &ctx);
  s->error_code = ctx.error_code;
  memcpy(s->message, ctx.message, sizeof s->message);
  if (done >= 0 && done <= n) return done;
  snprintf(s->message, sizeof s->message, "the handler returned %lld for %lld records", (long long)done, (long long)n);
  return 0;
}
