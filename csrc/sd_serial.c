#include "sd_serial.h"

#include "sd_error.h"

#include <stdio.h>
#include <string.h>

static int refuse(sd_context *ctx, const void *records, int64_t n, int64_t *accepted) {
  (void)records, (void)n;
  ((sd_serial *)ctx->engine)->tried_to_publish = 1;
  *accepted = 0;
  return SD_E_STOPPED;
}

int64_t sd_serial_run(sd_serial *s, const void *records, int64_t n) {
  sd_context ctx;
  memset(&ctx, 0, sizeof ctx);
  ctx.params = s->params;
  ctx.row_stride = s->row_stride;
  ctx.n_rows = s->n_rows;
  ctx.record_size = s->record_size;
  ctx.engine = s;
  ctx.publish = refuse;
  s->tried_to_publish = 0;
  int64_t done = s->fn(s->rows, records, n, &ctx);
  s->error_code = ctx.error_code;
  memcpy(s->message, ctx.message, sizeof s->message);
  if (done >= 0 && done <= n) return done;
  snprintf(s->message, sizeof s->message, "the handler returned %lld for %lld records", (long long)done, (long long)n);
  return 0;
}
