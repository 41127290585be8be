/* Tasks in C for bench/tasks.py. `sd_bench_batches` submits 64 others, one of which does so again, until `sd_bench_left` such batches were
 * submitted. */
#include <stdatomic.h>
#include <time.h>

#include "sd_task.h"

_Atomic long sd_bench_left;

static void leaf(sd_task_context *ctx, void *argument, int why) {
  (void)ctx;
  (void)argument;
  (void)why;
}

void sd_bench_batches(sd_task_context *ctx, void *argument, int why) {
  (void)argument;
  if (why != SD_TASK_RUN || atomic_fetch_sub(&sd_bench_left, 1) <= 0) return;
  sd_task_spec specs[64];
  for (int i = 0; i < 64; i++)
    specs[i] = (sd_task_spec){.fn = i ? leaf : sd_bench_batches, .key = SD_NO_KEY, .priority = SD_USUAL_PRIORITY};
  ctx->submit(ctx, specs, 64);
}

/* ---- one hungry group beside small tasks: bench/hungry_tasks.py */

enum { TURN_NS = 1000000 };

_Atomic long sd_bench_stop, sd_bench_small_done, sd_bench_hungry_ns, sd_bench_small_ns;
long *sd_bench_latencies;

static int64_t clock_ns(clockid_t clock) {
  struct timespec t;
  clock_gettime(clock, &t);
  return t.tv_sec * 1000000000ll + t.tv_nsec;
}

/* Uses a turn's on-CPU time. */
static void burn(_Atomic long *spent) {
  const int64_t begun = clock_ns(CLOCK_THREAD_CPUTIME_ID);
  int64_t used;
  while ((used = clock_ns(CLOCK_THREAD_CPUTIME_ID) - begun) < TURN_NS) continue;
  atomic_fetch_add(spent, used);
}

/* The argument: how many turns are left. Behind the last one the next task follows, in the same entry. */
void sd_bench_hungry(sd_task_context *ctx, void *argument, int why) {
  int64_t *left = argument;
  while (why == SD_TASK_RUN && !sd_bench_stop) {
    burn(&sd_bench_hungry_ns);
    if (--*left <= 0) {
      *left = 200;
      ctx->again = 1;
      return;
    }
    if (ctx->should_yield(ctx)) {
      ctx->again = 1;
      return;
    }
  }
}

/* The argument: when it was due, ns of the monotonic clock. */
void sd_bench_small(sd_task_context *ctx, void *argument, int why) {
  (void)ctx;
  if (why != SD_TASK_RUN) return;
  burn(&sd_bench_small_ns);
  sd_bench_latencies[atomic_fetch_add(&sd_bench_small_done, 1)] =
      clock_ns(CLOCK_MONOTONIC) - *(const int64_t *)argument;
}
