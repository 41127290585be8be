/* Batches that Python handles: what a batch holds, and how it ends. worker/worker.c gives batches out; Python reports on them from the
 * thread that is worker `participant`. */
#include "worker/py_batch.h"

#include "base/clock.h"
#include "emit/writer.h"
#include "numbering/failure.h"
#include "sd_error.h"
#include "worker/accounting.h"
#include "worker/alarm.h"
#include "worker/call.h"
#include "worker/py_emit.h"
#include "worker/visit.h"

/* Of `given` records, a Python handler with timers used the n before a timer. The others are copied once more next time, so the next
 * batch is about as large as the handler can use. */
static void learn_batch(sd_dispatcher *d, uint32_t participant, int64_t given, int64_t n) {
  uint32_t *maximum = &d->participants[participant].py_batch_maximum;
  if (n < given) *maximum = n > (int64_t)d->pool.records / 2 ? (uint32_t)(2 * n) : d->pool.records;
  else if (n >= *maximum && *maximum < d->config.budget_records) *maximum = 2 * *maximum;
}

/* Fills a batch for Python, up to a budget: from where the records lie next to each other, or copied together. */
static void fill_batch(sd_dispatcher *d, uint32_t participant, uint32_t index, uint64_t ahead, sd_py_batch *batch) {
  sd_strand *s = &d->strands[index];
  batch->strand = index;
  batch->handler = s->handler;
  batch->task = 0;
  d->py_batches[participant] = batch;
  batch->start = sd_now();
  sd_charge_begin(d, participant, batch->start, 1);
  if (s->lossy) {
    batch->n = batch->pending = sd_copy_out(d, participant, s);
    batch->records = d->scratch[participant];
    batch->positions = d->scratch_positions[participant];
    return;
  }
  batch->pending = batch->n = sd_records_pending(d, s, ahead);
  batch->records = NULL;
  if (SD_UNLIKELY(batch->n == 0)) return;
  if (batch->n > d->config.budget_records) batch->n = d->config.budget_records;
  if (d->handlers[s->handler].wakes && batch->n > d->participants[participant].py_batch_maximum)
    batch->n = d->participants[participant].py_batch_maximum;
  unsigned char *records;
  uint32_t run = sd_strand_front(s, &d->pool, &d->participants[participant].cache, (uint32_t)batch->n, &records);
  batch->positions = sd_segment_position(&d->pool, sd_load(&s->head, relaxed, Q1), sd_load(&s->at, relaxed, Q2));
  if (run < batch->n) {
    sd_strand_gather(s, &d->pool, (uint32_t)batch->n, d->scratch[participant]);
    records = d->scratch[participant];
    sd_strand_gather_positions(s, &d->pool, (uint32_t)batch->n, d->scratch_positions[participant]);
    batch->positions = d->scratch_positions[participant];
  }
  batch->records = records;
  if (!d->handlers[s->handler].wakes) return;
  int64_t n = sd_timer_cut(d, batch->strand, NULL, batch->positions, batch->n);
  if (n && n < batch->n) learn_batch(d, participant, batch->n, n);
  batch->n = n;
}

/* For an owned strand whose batch came out empty: whether a timer precedes its first record. */
static int timer_first(sd_dispatcher *d, uint32_t index, sd_py_batch *batch) {
  const sd_strand *s = &d->strands[index];
  sd_position position;
  if (!d->handlers[s->handler].wakes || !sd_first_position(d, index, &position)) return 0;
  batch->wake_key = sd_timer_due(d, index, position.time, &batch->wake_time);
  return batch->wake_key != SD_NONE;
}

int sd_to_python(sd_dispatcher *d, uint32_t participant, uint32_t index, uint64_t ahead, sd_py_batch *batch) {
  fill_batch(d, participant, index, ahead, batch);
  if (batch->n) return SD_PY_RECORDS;
  if (timer_first(d, index, batch)) return SD_PY_WAKE;
  /* Either the records of a lossy strand were discarded meanwhile, or a task came between two looks. */
  sd_worker_done(d, participant, batch, 0, 0, NULL);
  return 0;
}

int sd_worker_done(sd_dispatcher *d, uint32_t participant, const sd_py_batch *batch, int64_t n, int32_t code,
                   const char *message) {
  if (n < 0 || n > batch->n || (code && n == batch->n)) return SD_E_ARGUMENT;
  sd_strand *s = &d->strands[batch->strand];
  if (d->handlers[s->handler].finishes && n) sd_note_seen(d, batch->records, n);
  if (d->handlers[s->handler].wakes && n) learn_batch(d, participant, batch->n, n);
  int failed = code != 0;
  sd_py_batch_emitted(d, participant, batch, n);
  if (failed) {
    const unsigned char *record = (const unsigned char *)batch->records + (size_t)n * d->arena->record_size;
    sd_fail(d, participant, batch->strand, record, n, code, message);
  }
  sd_visit_over(d, participant, batch, n, failed);
  return SD_OK;
}

int sd_py_wake_at(sd_dispatcher *d, const sd_py_batch *batch, int64_t handled, uint64_t ns) {
  if (!d->handlers[batch->handler].wakes || handled < 1 || handled > batch->n) return SD_E_ARGUMENT;
  const unsigned char *record = (const unsigned char *)batch->records + (size_t)(handled - 1) * d->arena->record_size;
  if (ns && ns <= (uint64_t)batch->positions[handled - 1].time) return SD_E_ARGUMENT;
  sd_arm(d, sd_key_of(d, record), ns);
  return SD_OK;
}

int sd_worker_wake_done(sd_dispatcher *d, uint32_t participant, const sd_py_batch *batch, uint64_t alarm, int32_t code,
                        const char *message) {
  const uint32_t index = batch->strand, key = batch->wake_key;
  const sd_handler *handler = &d->handlers[batch->handler];
  if (!handler->wakes || key >= d->arena->n_symbols) return SD_E_ARGUMENT;
  if (handler->n_outputs) {
    sd_context ctx;
    sd_context_of(d, participant, handler, &ctx);
    if (code) sd_writers_void(&ctx, 0);
    else sd_writers_commit(&ctx);
  }
  sd_arm(d, key, sd_alarm_after((int64_t)alarm, (int64_t)batch->wake_time));
  if (code) sd_fail_symbol(d, participant, index, key, batch->wake_time, 0, code, message);
  sd_charge_end(d, participant, index, sd_now());
  sd_strand_drained_by(d, &d->strands[index], participant);
  if (sd_strand_release(&d->strands[index], 0)) sd_list_again(d, participant, index, SD_VISITED);
  return SD_OK;
}

const void *sd_py_memory(const sd_dispatcher *d, uint32_t participant, int copied, uint64_t *bytes) {
  const sd_arena *a = d->arena;
  *bytes = copied ? (uint64_t)d->config.budget_records * a->record_size : (uint64_t)a->n_segments * a->segment_bytes;
  return copied ? d->scratch[participant] : d->pool.segments;
}
