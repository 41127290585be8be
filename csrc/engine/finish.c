/* The end of a run: handlers finish their symbols. */
#include "engine/finish.h"

#include "emit/writer.h"
#include "numbering/failure.h"
#include "sd_error.h"
#include "worker/alarm.h"
#include "worker/call.h"

/* Commits what was emitted at a symbol's end, or voids it and records the failure. SD_E_HANDLER: no further symbol is to be finished. */
static int finished(sd_dispatcher *d, uint32_t key, int code, const char *message, sd_context *ctx) {
  if (ctx->n_outputs) {
    if (code) sd_writers_void(ctx, 0);
    else sd_writers_commit(ctx);
  }
  if (!code) return SD_OK;
  sd_fail_symbol(d, 0, d->map[key], key, ctx->wake_time, 1, ctx->error_code ? ctx->error_code : code, message);
  return d->config.on_error == SD_ON_ERROR_STOP ? SD_E_HANDLER : SD_OK;
}

static void end_context(sd_dispatcher *d, uint32_t key, sd_context *ctx) {
  sd_context_of(d, 0, &d->handlers[d->strands[d->map[key]].handler], ctx);
  sd_timer_context(ctx, key, sd_load(&d->arena->feed_time, relaxed, N1));
  ctx->wake_number = SD_AT_END;
}

int sd_dispatcher_finish(sd_dispatcher *d) {
  for (uint32_t key = 0; d->seen && key < d->arena->n_symbols; key++) {
    const sd_handler *handler = &d->handlers[d->strands[d->map[key]].handler];
    if (!handler->finish || !sd_dispatcher_finish_begin(d, key)) continue;
    d->seen[key] = 0;
    sd_context ctx;
    end_context(d, key, &ctx);
    int code = handler->finish(d->rows, key, &ctx);
    sd_dispatcher_finish_end(d, key);
    if (finished(d, key, code, ctx.message, &ctx)) return SD_E_HANDLER;
  }
  return SD_OK;
}

int sd_dispatcher_finished(sd_dispatcher *d, uint32_t key, int32_t code, const char *message) {
  d->seen[key] = 0;
  sd_context ctx;
  end_context(d, key, &ctx);
  return finished(d, key, code, message, &ctx);
}

int sd_dispatcher_finish_begin(sd_dispatcher *d, uint32_t key) {
  sd_strand *s = &d->strands[d->map[key]];
  /* P4: a handler that failed may have left an invalid row, so the symbols of its strand are not finished. */
  if (!d->seen || !d->seen[key] || (sd_load(&s->control, relaxed, P4) & SD_QUARANTINED)) return 0;
  sd_strand_begin(s, 0);
  return 1;
}

void sd_dispatcher_finish_end(sd_dispatcher *d, uint32_t key) { sd_strand_end(&d->strands[d->map[key]]); }
