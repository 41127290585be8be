/* Whether a participant that runs a task should let others go. */
#include "worker/yield.h"

#include "base/clock.h"
#include "worker/accounting.h"
#include "worker/permit.h"

#if defined(SD_MODEL_SCHEDULER)
enum { CHARGED_EVERY_NS = 20 };
#else
/* On-CPU time is charged no more often while a task runs. Reading a thread's clock costs up to 0.6 us. */
enum { CHARGED_EVERY_NS = 100000 };
#endif

int sd_should_yield(sd_dispatcher *d, uint32_t participant, uint32_t entry) {
  if (!d->policy->gives_way) return 0;
  const uint64_t now = sd_now();
  if (d->policy->charge) {
    sd_cpu_meter *meter = &d->participants[participant].meter;
    if (now - meter->began < sd_clock_counts(CHARGED_EVERY_NS)) return 0;
    sd_charge_end(d, participant, entry, now);
  }
  /* Its permit would be free for what is deferred. */
  const int deferred = sd_has_permit(d, participant) && sd_any_deferred(d) ? SD_TAKE_DEFERRED : SD_NONE_DEFERRED;
  return d->policy->gives_way(&d->ready, participant % d->n_workers, entry, deferred, now);
}

int sd_should_yield_in_task(sd_task_context *ctx) { return sd_should_yield(ctx->engine, ctx->participant, ctx->entry); }
