/* Strands in Python's hands: what a claim holds, and what becomes of it. worker/worker.c gives them; Python answers for
 * them from the thread that is worker `slot`.
 */
#include "worker/py_batch.h"

#include "base/clock.h"
#include "emit/writer.h"
#include "numbering/failure.h"
#include "sd_error.h"
#include "worker/alarm.h"
#include "worker/call.h"
#include "worker/py_emit.h"
#include "worker/visit.h"

/* Of `given` records a Python handler with timers had n before one. The others are copied together once more next time,
 * so it is given about as many as it can use. */
static void learn_claim(sd_dispatcher *d, uint32_t slot, int64_t given, int64_t n) {
  uint32_t *most = &d->slots[slot].most_a_claim;
  if (n < given) *most = n > (int64_t)d->pool.records / 2 ? (uint32_t)(2 * n) : d->pool.records;
  else if (n >= *most && *most < d->config.quantum_records) *most = 2 * *most;
}

/* Python gets a quantum in a row: where it lies, or copied together. */
static void fill_claim(sd_dispatcher *d, uint32_t slot, uint32_t index, uint64_t ahead, sd_claim *claim) {
  sd_strand *s = &d->strands[index];
  claim->strand = index;
  claim->handler = s->handler;
  d->claimed[slot] = claim;
  claim->start = sd_now();
  if (s->lossy) {
    claim->n = claim->pending = sd_copy_out(d, slot, s);
    claim->records = d->scratch[slot];
    claim->marks = d->scratch_marks[slot];
    return;
  }
  claim->pending = claim->n = sd_records_pending(d, s, ahead);
  claim->records = NULL;
  if (SD_UNLIKELY(claim->n == 0)) return;
  if (claim->n > d->config.quantum_records) claim->n = d->config.quantum_records;
  if (d->handlers[s->handler].wakes && claim->n > d->slots[slot].most_a_claim) claim->n = d->slots[slot].most_a_claim;
  unsigned char *records;
  uint32_t run = sd_strand_front(s, &d->pool, &d->slots[slot].cache, (uint32_t)claim->n, &records);
  claim->marks = sd_block_mark(&d->pool, sd_load(&s->head, relaxed, Q1), sd_load(&s->at, relaxed, Q2));
  if (run < claim->n) {
    sd_strand_gather(s, &d->pool, (uint32_t)claim->n, d->scratch[slot]);
    records = d->scratch[slot];
    sd_strand_gather_marks(s, &d->pool, (uint32_t)claim->n, d->scratch_marks[slot]);
    claim->marks = d->scratch_marks[slot];
  }
  claim->records = records;
  if (!d->handlers[s->handler].wakes) return;
  int64_t n = sd_timer_cut(d, claim->strand, claim->marks, claim->n);
  if (n && n < claim->n) learn_claim(d, slot, claim->n, n);
  claim->n = n;
}

/* Whether a strand in hand whose claim came out empty has a timer before its first record. */
static int timer_first(sd_dispatcher *d, uint32_t index, sd_claim *claim) {
  const sd_strand *s = &d->strands[index];
  sd_mark mark;
  if (!d->handlers[s->handler].wakes || !sd_first_mark(d, index, &mark)) return 0;
  claim->wake_key = sd_timer_due(d, index, mark.time, &claim->wake_time);
  return claim->wake_key != SD_NONE;
}

int sd_to_python(sd_dispatcher *d, uint32_t slot, uint32_t index, uint64_t ahead, sd_claim *claim) {
  fill_claim(d, slot, index, ahead, claim);
  if (claim->n) return SD_CLAIM_RECORDS;
  if (timer_first(d, index, claim)) return SD_CLAIM_WAKE;
  /* A lossy strand whose records were discarded meanwhile; a task that came between two looks. */
  sd_worker_done(d, slot, claim, 0, 0, NULL);
  return 0;
}

int sd_worker_done(sd_dispatcher *d, uint32_t slot, const sd_claim *claim, int64_t n, int32_t code,
                   const char *message) {
  if (n < 0 || n > claim->n || (code && n == claim->n)) return SD_E_ARGUMENT;
  sd_strand *s = &d->strands[claim->strand];
  if (d->handlers[s->handler].finishes && n) sd_note_seen(d, claim->records, n);
  if (d->handlers[s->handler].wakes && n) learn_claim(d, slot, claim->n, n);
  int failed = code != 0;
  sd_claim_emitted(d, slot, claim, n);
  if (failed) {
    const unsigned char *record = (const unsigned char *)claim->records + (size_t)n * d->arena->record_size;
    sd_fail(d, slot, claim->strand, record, code, message);
  }
  sd_visit_over(d, slot, claim, n, failed);
  return SD_OK;
}

int sd_claim_wake_at(sd_dispatcher *d, const sd_claim *claim, int64_t handled, uint64_t ns) {
  if (!d->handlers[claim->handler].wakes || handled < 1 || handled > claim->n) return SD_E_ARGUMENT;
  const unsigned char *record = (const unsigned char *)claim->records + (size_t)(handled - 1) * d->arena->record_size;
  if (ns && ns <= (uint64_t)claim->marks[handled - 1].time) return SD_E_ARGUMENT;
  sd_arm(d, sd_key_of(d, record), ns);
  return SD_OK;
}

int sd_worker_wake_done(sd_dispatcher *d, uint32_t slot, const sd_claim *claim, uint64_t wish, int32_t code,
                        const char *message) {
  const uint32_t index = claim->strand, key = claim->wake_key;
  const sd_handler *handler = &d->handlers[claim->handler];
  if (!handler->wakes || key >= d->arena->n_symbols) return SD_E_ARGUMENT;
  if (handler->n_outputs) {
    sd_context ctx;
    sd_context_of(d, slot, handler, &ctx);
    if (code) sd_sinks_void(&ctx, 0);
    else sd_sinks_commit(&ctx);
  }
  sd_arm(d, key, wish && wish <= claim->wake_time ? claim->wake_time + 1 : wish);
  if (code) sd_fail_symbol(d, slot, index, key, claim->wake_time, 0, code, message);
  d->strands[index].last = slot;
  if (sd_strand_release(&d->strands[index], 0)) sd_list_again(d, slot, index);
  return SD_OK;
}

const void *sd_claims_memory(const sd_dispatcher *d, uint32_t slot, int copied, uint64_t *bytes) {
  *bytes = copied ? (uint64_t)d->config.quantum_records * d->arena->record_size : d->arena->bytes;
  return copied ? (const void *)d->scratch[slot] : d->arena;
}
