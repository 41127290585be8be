#include "numbering/failure.h"

#include <stdio.h>
#include <stdlib.h>

#include "sd_error.h"

void sd_dispatcher_stop(sd_dispatcher *d) {
  /* T1: release; pairs with T2. The wake-up that follows (I7) reaches workers that looked before. */
  sd_store(&d->arena->stopping, 1u, release, T1);
  sd_idle_wake_all(&d->arena->idle);
  sd_idle_wake_all(&d->arena->resting);
}

int sd_dispatcher_stopping(sd_dispatcher *d) {
  /* T2: acquire; pairs with T1: what was reported before the stop is seen. */
  return sd_load(&d->arena->stopping, acquire, T2) != 0;
}

int sd_failures_go_on(sd_dispatcher *d) {
  /* Zero pages, which nobody touches until so many handlers fail. */
  if (!d->failures) d->failures = (sd_failure *)calloc(d->arena->n_strands, sizeof *d->failures);
  return d->failures ? SD_OK : SD_E_NO_MEMORY;
}

/* Where failure number n is kept. NULL: nowhere. */
static sd_failure *failure_at(sd_dispatcher *d, uint32_t n) {
  if (n < SD_ERRORS) return &d->arena->failure[n];
  return d->failures && n - SD_ERRORS < d->arena->n_strands ? &d->failures[n - SD_ERRORS] : NULL;
}

static void fail(sd_dispatcher *d, uint32_t participant, uint32_t strand, uint32_t key, const unsigned char *record,
                 int64_t unbooked, uint64_t time, int32_t code, const char *message) {
  sd_arena *a = d->arena;
  sd_lock(&a->failures_lock);
  /* C1 */
  uint32_t n = sd_load(&a->failures, relaxed, C1);
  sd_failure *f = failure_at(d, n);
  if (f) {
    memset(f, 0, sizeof *f);
    f->strand = strand;
    f->handler = d->strands[strand].handler;
    f->participant = participant;
    f->code = code;
    f->key = key;
    f->sequence = SD_NO_SEQUENCE;
    f->place = time;
    if (record) {
      const sd_strand *s = &d->strands[strand];
      f->sequence = sd_sequence_of(&a->sequence, record + a->key_offset);
      /* C1: relaxed; this thread owns the strand. */
      f->place = sd_load(&s->handled, relaxed, C1) + sd_load(&s->failed, relaxed, C1) + (uint64_t)unbooked -
                 d->config.sizes.counters_start;
      if (a->record_size <= sizeof f->record) {
        f->record_bytes = (uint32_t)a->record_size;
        memcpy(f->record, record, a->record_size);
      }
    }
    snprintf(f->message, sizeof f->message, "%s", message ? message : "");
  }
  /* F1: release; pairs with F2: a failure that is counted is filled in. */
  sd_store(&a->failures, n + 1, release, F1);
  sd_unlock(&a->failures_lock);
  sd_strand_hold(&d->strands[strand], SD_QUARANTINED);
  if (d->config.on_error == SD_ON_ERROR_STOP && !d->failures) sd_dispatcher_stop(d);
}

void sd_fail(sd_dispatcher *d, uint32_t participant, uint32_t strand, const unsigned char *record, int64_t unbooked,
             int32_t code, const char *message) {
  uint32_t key = SD_NONE;
  if (record) memcpy(&key, record + d->arena->key_offset, sizeof key);
  fail(d, participant, strand, key, record, unbooked, 0, code, message);
}

void sd_fail_symbol(sd_dispatcher *d, uint32_t participant, uint32_t strand, uint32_t key, uint64_t time, int at_end,
                    int32_t code, const char *message) {
  char text[SD_MESSAGE_BYTES];
  snprintf(text, sizeof text, "its %s at %llu ns%s%s", at_end ? "end" : "timer", (unsigned long long)time,
           message && *message ? ": " : "", message ? message : "");
  fail(d, participant, strand, key, NULL, 0, time, code, text);
}

int sd_failure_get(sd_dispatcher *d, uint32_t index, sd_failure *out) {
  /* F2: acquire; pairs with F1. */
  uint32_t n = sd_load(&d->arena->failures, acquire, F2);
  const sd_failure *f = index < n ? failure_at(d, index) : NULL;
  if (!f) return SD_AGAIN;
  *out = *f;
  return SD_OK;
}

int sd_failure_take(sd_dispatcher *d, sd_failure *out) {
  const int code = sd_failure_get(d, 0, out);
  /* C1: relaxed; the caller's own. */
  sd_store(&d->arena->failures, 0u, relaxed, C1);
  return code;
}
