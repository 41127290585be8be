#include "handlers/chain.h"

#include <string.h>

#include "base/atomic.h"
#include "emit/writer.h"
#include "measures/tape.h"
#include "worker/alarm.h"
#include "worker/call.h"

/* Each part has its own context, with its parameters, outputs and timer. The context comes first, because wake_at finds the part by it. */
typedef struct part_context {
  sd_context ctx;
  uint64_t *alarms; /* NULL, or the part's place among those of symbol 0 */
  uint64_t stride;
  int *asked; /* set when it asks for a timer */
} part_context;

static void ask(sd_context *ctx, uint32_t key, int64_t ns) {
  part_context *own = (part_context *)ctx;
  if (key >= ctx->n_rows) return;
  /* A part gets one record per call. */
  const int64_t now = ctx->positions ? ctx->positions->time : ctx->wake_time;
  own->alarms[key * own->stride] = sd_alarm_after(ns, now);
  *own->asked = 1;
}

static void open_part(const sd_chain *chain, uint64_t p, const sd_context *whole, part_context *own, int *asked) {
  const sd_chain_part *part = &chain->part[p];
  own->ctx = *whole;
  own->ctx.params = part->params;
  own->ctx.n_outputs = part->n_outputs;
  own->ctx.wake_at = part->wake ? ask : NULL;
  if (part->n_outputs) own->ctx.writers = whole->writers + 2 * part->first_output;
  own->alarms = part->wake ? chain->alarms + p : NULL;
  own->stride = chain->alarm_stride;
  own->asked = asked;
}

/* Reports the failure of a part as the chain's. */
static void fail(sd_context *ctx, const part_context *own) {
  ctx->error_code = own->ctx.error_code;
  memcpy(ctx->message, own->ctx.message, sizeof ctx->message);
}

uint64_t sd_chain_alarm(const sd_chain *chain, uint32_t key) {
  uint64_t earliest = 0;
  for (uint64_t p = 0; chain->alarms && p < chain->n; p++) {
    uint64_t alarm = chain->alarms[key * chain->alarm_stride + p];
    if (alarm && (!earliest || alarm < earliest)) earliest = alarm;
  }
  return earliest;
}

/* A timer was asked for, or is over: sets the chain's alarm to the earliest. At the end of a chain that Python runs, Python does that. */
static void tell(const sd_chain *chain, uint32_t key, sd_context *ctx) {
  if (ctx->wake_at) ctx->wake_at(ctx, key, (int64_t)sd_chain_alarm(chain, key));
}

/* ---- records */

/* How many records are prefetched together. */
enum { GROUP = 32 };

static void ask_for(const sd_chain *chain, void *rows, const sd_tick *records, int64_t n, const part_context *own) {
  for (uint64_t p = 0; p < chain->n; p++) {
    const sd_chain_part *part = &chain->part[p];
    if (part->ahead) part->ahead((unsigned char *)rows + part->row_offset, records, n, &own[p].ctx);
  }
}

int64_t sd_handle_chain(void *rows, const sd_tick *ticks, int64_t n, sd_context *ctx) {
  const sd_chain *chain = ctx->params;
  const uint64_t parts = chain->n, size = ctx->record_size;
  part_context own[SD_CHAIN_MAX];
  sd_shared_tape tape;
  int asked = 0;
  for (uint64_t p = 0; p < parts; p++) {
    open_part(chain, p, ctx, &own[p], &asked);
    if (chain->part[p].shares) own[p].ctx.shared = &tape;
  }
  if (chain->source) chain->open(&tape.reader, chain->source, ticks, n, ctx);
  for (int64_t i = 0; i < n; i++) {
    const sd_tick *record = (const sd_tick *)((const unsigned char *)ticks + (uint64_t)i * size);
    if (i % GROUP == 0) ask_for(chain, rows, record, n - i < GROUP ? n - i : GROUP, own);
    int failed = 0;
    tape.i = i;
    tape.is_read = 0;
    for (uint64_t p = 0; p < parts && !failed; p++) {
      const sd_chain_part *part = &chain->part[p];
      if (ctx->positions) {
        own[p].ctx.positions = ctx->positions + i;
        own[p].ctx.keys = ctx->keys + (uint64_t)i * size;
      }
      failed = part->fn((unsigned char *)rows + part->row_offset, record, 1, &own[p].ctx) != 1;
      if (SD_UNLIKELY(failed)) fail(ctx, &own[p]);
    }
    if (SD_UNLIKELY(asked)) {
      uint32_t key;
      memcpy(&key, ctx->keys + (uint64_t)i * size, sizeof key);
      asked = 0;
      tell(chain, key, ctx);
    }
    if (SD_UNLIKELY(failed)) {
      ctx->yield = 0; /* else tick i - 1 would be the one that asked for a timer, and this one would come again */
      return i;
    }
    if (SD_UNLIKELY(ctx->yield)) return i + 1;
  }
  return n;
}

/* ---- timers, and the end */

int sd_wake_chain(void *rows, uint32_t key, int64_t time, sd_context *ctx) {
  const sd_chain *chain = ctx->params;
  uint64_t *alarms = chain->alarms + key * chain->alarm_stride;
  part_context own;
  int code = 0, asked;
  for (uint64_t p = 0; p < chain->n && !code; p++) {
    const sd_chain_part *part = &chain->part[p];
    if (!alarms[p] || alarms[p] > (uint64_t)time) continue;
    alarms[p] = 0;
    open_part(chain, p, ctx, &own, &asked);
    code = part->wake((unsigned char *)rows + part->row_offset, key, time, &own.ctx);
    if (code) fail(ctx, &own);
  }
  /* The timers behind one that failed fire next: at the time that the engine takes for the chain's. */
  for (uint64_t p = 0; p < chain->n && code; p++)
    if (alarms[p] && alarms[p] <= (uint64_t)time) alarms[p] = (uint64_t)time + 1;
  tell(chain, key, ctx);
  return code;
}

int sd_finish_chain(void *rows, uint32_t key, sd_context *ctx) {
  const sd_chain *chain = ctx->params;
  part_context own;
  int asked;
  for (uint64_t p = 0; p < chain->n; p++) {
    const sd_chain_part *part = &chain->part[p];
    if (!part->finish) continue;
    open_part(chain, p, ctx, &own, &asked);
    int code = part->finish((unsigned char *)rows + part->row_offset, key, &own.ctx);
    if (!code) continue;
    fail(ctx, &own);
    return code;
  }
  return 0;
}

/* ---- at whose end Python's handler is */

/* What the chain's parts emit goes to the outputs of the whole chain. */
static void open_tracked(sd_dispatcher *d, uint32_t participant, const sd_handler *handler, const sd_handler *whole,
                         sd_context *ctx) {
  sd_context_of(d, participant, handler, ctx);
  ctx->n_outputs = whole->n_outputs;
  ctx->writers = ctx->n_outputs ? sd_writers_of(d, participant, whole) : NULL;
}

static void say(const sd_context *ctx, int code, sd_failure *failure) {
  failure->code = ctx->error_code ? ctx->error_code : code;
  memcpy(failure->message, ctx->message, sizeof ctx->message);
}

int64_t sd_chain_track(sd_dispatcher *d, uint32_t participant, const sd_handler *handler, const void *records,
                       int64_t n, uint64_t width, void *after, int32_t *failed, sd_failure *failure) {
  const uint64_t size = d->arena->record_size, stride = d->arena->row_stride;
  const sd_chain *chain = handler->params;
  /* What they emitted stays if Python fails on a tick, because they will not see that tick again. */
  const sd_py_batch *batch = d->py_batches[participant];
  sd_context ctx;
  open_tracked(d, participant, handler, &d->handlers[batch->handler], &ctx);
  const sd_position *positions = batch->positions;
  if (positions) positions += (size_t)((const unsigned char *)records - (const unsigned char *)batch->records) / size;
  *failed = 0;
  for (int64_t i = 0; i < n; i++) {
    const unsigned char *record = (const unsigned char *)records + (uint64_t)i * size;
    uint32_t key;
    memcpy(&key, record + d->arena->key_offset, sizeof key);
    if (chain->alarms) {
      uint64_t alarm = sd_chain_alarm(chain, key);
      if (alarm && sd_alarm_precedes(alarm, (uint64_t)positions[i].time)) return i;
    }
    const sd_position *position = positions ? positions + i : NULL;
    if (sd_run_handler(d, handler, batch->strand, record, position, 1, &ctx) != 1 || SD_UNLIKELY(d->refused)) {
      say(&ctx, 0, failure);
      *failed = 1;
      return i;
    }
    memcpy((unsigned char *)after + (uint64_t)i * width, d->rows + key * stride, width);
  }
  return n;
}

int sd_chain_act(sd_dispatcher *d, uint32_t participant, const sd_handler *handler, uint32_t key, uint64_t time,
                 int at_end, sd_failure *failure) {
  sd_context ctx;
  open_tracked(d, participant, handler, &d->handlers[d->strands[d->map[key]].handler], &ctx);
  sd_timer_context(&ctx, key, time);
  if (at_end) ctx.wake_number = SD_AT_END;
  int code = at_end ? sd_finish_chain(d->rows, key, &ctx) : sd_wake_chain(d->rows, key, (int64_t)time, &ctx);
  if (ctx.n_outputs) {
    if (code) sd_writers_void(&ctx, 0);
    else sd_writers_commit(&ctx);
  }
  if (code) say(&ctx, code, failure);
  return code;
}
