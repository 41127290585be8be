/* Counts handled records, and the time that they took, in one place for all ways of handling them. The strand's owner calls it before it
 * lets go of the token or the publish lock.
 *
 * A worker's visit, a publisher that helps and a batch of Python's handle one strand at a time: sd_account_visit. Inline execution gives
 * a handler the records of many strands in one call. So it knows the time of all of them, which sd_account_records takes, and only the
 * count of each strand, which sd_account_strand takes. */
#pragma once

#include "state/state.h"

/* The handler failed on a record of the strand. */
static inline void sd_account_failure(sd_strand *s) {
  sd_store(&s->failed, sd_load(&s->failed, relaxed, C1) + 1, release, M7);
}

/* n records of the strand were handled. `at`: of the strand's level, here and below. */
static inline void sd_account_strand(sd_level_counts *at, sd_strand *s, uint64_t n) {
  sd_bump_finished(&s->handled, n);
  sd_bump(&at->visits, 1);
}

/* n records were handled, and `failed` more failed, in `took` clock counts; the oldest had waited for `waited`. */
static inline void sd_account_records(sd_counters *c, sd_level_counts *at, uint64_t n, uint64_t failed, uint64_t waited,
                                      uint64_t took) {
  const uint64_t records = n + failed;
  sd_bump(&c->handled, n);
  if (SD_UNLIKELY(failed)) {
    sd_bump(&c->failed, failed);
    sd_bump(&at->failed, failed);
  }
  sd_bump(&c->busy, took);
  if (!records) return;
  sd_record(&at->wait, waited, records);
  sd_record(&at->handler, took / records, records);
  sd_record(&at->end_to_end, waited + took, records);
}

/* n records of the strand have ended, handled or shed, and take no room any more. */
static inline void sd_account_ended(sd_dispatcher *d, uint32_t participant, const sd_strand *s, uint64_t n) {
  /* P9: relaxed; the token orders it (P2, W4): it does not change while something is pending. */
  const uint32_t level = sd_load(&d->admissions[s - d->strands].level, relaxed, P9);
  sd_bump(&d->admitted[participant].ended[level], n);
}

/* A participant begins to drain a strand, which it owns. `exact`: in Python. */
static inline void sd_charge_begin(sd_dispatcher *d, uint32_t participant, uint64_t now, int exact) {
  if (SD_UNLIKELY(d->policy->charge != NULL)) sd_meter_begin(&d->participants[participant].meter, now, exact);
}

/* It is done with records of it, or with a timer or task, and still owns it. If it goes on with the same, what follows is charged
 * from here. */
static inline void sd_charge_end(sd_dispatcher *d, uint32_t participant, uint32_t strand, uint64_t now) {
  if (SD_LIKELY(d->policy->charge == NULL)) return;
  d->policy->charge(&d->ready, strand, sd_meter_end(&d->participants[participant].meter, now));
}

/* A turn of a task is over. It may have begun in another thread, whose clock may be a little ahead. */
static inline void sd_account_turn(sd_dispatcher *d, uint32_t participant, uint64_t start, uint64_t end) {
  sd_bump(&d->participants[participant].counters.busy, end > start ? end - start : 0);
}

/* A visit to the strand handled n records, and failed on one more if `failed`. */
static inline void sd_account_visit(sd_dispatcher *d, uint32_t participant, sd_strand *s, uint64_t n, int failed,
                                    uint64_t start, uint64_t end) {
  sd_counters *c = &d->participants[participant].counters;
  sd_level_counts *at = sd_counts_of(d, participant, (uint32_t)(s - d->strands));
  sd_account_strand(at, s, n);
  if (failed) sd_account_failure(s);
  if (SD_UNLIKELY(d->admitted != NULL)) sd_account_ended(d, participant, s, n + (uint64_t)failed);
  if (SD_UNLIKELY(d->strand_time != NULL)) {
    sd_strand_time *time = &d->strand_time[s - d->strands];
    sd_bump(&time->counts, end - start);
    sd_bump(&time->records, n + (uint64_t)failed);
  }
  sd_charge_end(d, participant, (uint32_t)(s - d->strands), end);
  sd_account_records(c, at, n, (uint64_t)failed, start > s->oldest ? start - s->oldest : 0, end - start);
}
