/* Counts handled records in one place for all ways of handling them: a worker's visit, a publisher that helps, a batch of Python's, and
 * inline execution. By the strand's owner, before it lets go of the token or the publish lock. */
#ifndef SD_WORKER_ACCOUNTING_H
#define SD_WORKER_ACCOUNTING_H

#include "state/state.h"

/* The handler failed on a record of the strand. */
static inline void sd_account_failure(sd_strand *s) {
  sd_store(&s->failed, sd_load(&s->failed, relaxed, C1) + 1, release, M7);
}

/* A visit to the strand handled n records. */
static inline void sd_account_visit(sd_counters *c, sd_strand *s, uint64_t n) {
  sd_bump_finished(&s->handled, n);
  sd_bump(&c->visits, 1);
}

/* n records were handled, and `failed` more failed, in `took` clock counts; the oldest had waited for `waited`. */
static inline void sd_account_records(sd_counters *c, uint64_t n, uint64_t failed, uint64_t waited, uint64_t took) {
  const uint64_t records = n + failed;
  sd_bump(&c->handled, n);
  if (failed) sd_bump(&c->failed, failed);
  sd_bump(&c->busy, took);
  if (!records) return;
  sd_record(&c->wait, waited, records);
  sd_record(&c->handler, took / records, records);
  sd_record(&c->end_to_end, waited + took, records);
}

#endif
