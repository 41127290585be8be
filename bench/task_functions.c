/* Tasks in C for bench/tasks.py. `sd_bench_batches` submits 64 others, one of which does so again, until `sd_bench_left` such batches were
 * submitted. */
#include <stdatomic.h>

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
