/* What Python's handlers emit. */
#include "worker/py_emit.h"

#include "emit/writer.h"
#include "sd_error.h"
#include "worker/alarm.h"
#include "worker/call.h"

int sd_py_emit(sd_dispatcher *d, uint32_t participant, const sd_py_batch *batch, uint32_t output, const int64_t *at,
               const void *records, int64_t n, char *message) {
  const sd_handler *handler = &d->handlers[batch->handler];
  if (output >= handler->n_outputs) return SD_E_ARGUMENT;
  sd_context ctx;
  sd_context_of(d, participant, handler, &ctx);
  ctx.positions = batch->positions;
  ctx.keys = (const unsigned char *)batch->records + d->arena->key_offset;
  const uint32_t bytes = ctx.writers[2 * output]->record_bytes;
  const unsigned char *record = records;
  for (int64_t i = 0; i < n; i++, record += bytes) {
    if (at[i] < 0 || at[i] >= batch->n) return SD_E_ARGUMENT;
    unsigned char *to = sd_emit_reserve(&ctx, output, at[i]);
    if (SD_UNLIKELY(!to)) {
      memcpy(message, ctx.message, sizeof ctx.message);
      return SD_E_NO_MEMORY;
    }
    ((sd_emitted *)to - 1)->link = SD_BY_PYTHON;
    memcpy(to, record, bytes);
  }
  return SD_OK;
}

int sd_py_emit_timer(sd_dispatcher *d, uint32_t participant, uint32_t key, uint64_t time, int at_end, uint32_t output,
                     const void *records, int64_t n, char *message) {
  const sd_handler *handler = &d->handlers[d->strands[d->map[key]].handler];
  if (output >= handler->n_outputs) return SD_E_ARGUMENT;
  sd_context ctx;
  sd_context_of(d, participant, handler, &ctx);
  sd_timer_context(&ctx, key, time);
  if (at_end) ctx.wake_number = SD_AT_END;
  const uint32_t bytes = ctx.writers[2 * output]->record_bytes;
  const unsigned char *record = records;
  for (int64_t i = 0; i < n; i++, record += bytes) {
    if (!sd_emit(&ctx, output, -1, record)) continue;
    memcpy(message, ctx.message, sizeof ctx.message);
    return SD_E_NO_MEMORY;
  }
  return SD_OK;
}

void sd_py_batch_emitted(sd_dispatcher *d, uint32_t participant, const sd_py_batch *batch, int64_t handled) {
  const sd_handler *handler = &d->handlers[batch->handler];
  if (!handler->n_outputs) return;
  sd_context ctx;
  sd_context_of(d, participant, handler, &ctx);
  if (handled < batch->n) sd_writers_void(&ctx, batch->positions[handled].number);
  else sd_writers_commit(&ctx);
}
