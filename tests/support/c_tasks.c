/* Tasks in C that tests submit. What they did is counted in the object. */
#include <stdatomic.h>
#include <time.h>

#include "sd_task.h"

enum { MAX_TOLD = 100000 };

_Atomic long told[4];         /* last calls, by why */
_Atomic long n_arguments;     /* of those that ran */
uint32_t arguments[MAX_TOLD]; /* in the order of their calls */
_Atomic int opened, begun;

static void pause_a_little(void) { nanosleep(&(struct timespec){0, 100000}, NULL); }

/* Notes the number in its argument. */
void note(sd_task_context *ctx, void *argument, int why) {
  (void)ctx;
  if (why == SD_TASK_RUN) {
    const long at = atomic_fetch_add(&n_arguments, 1);
    if (at < MAX_TOLD) arguments[at] = argument ? *(uint32_t *)argument : UINT32_MAX;
  }
  atomic_fetch_add(&told[why], 1);
}

/* Runs until `opened`. */
void wait(sd_task_context *ctx, void *argument, int why) {
  (void)ctx;
  (void)argument;
  atomic_fetch_add(&begun, 1);
  while (why == SD_TASK_RUN && !atomic_load(&opened)) pause_a_little();
  atomic_fetch_add(&told[why], 1);
}

/* Asks for turn after turn until `opened`. */
void turns(sd_task_context *ctx, void *argument, int why) {
  (void)argument;
  atomic_fetch_add(&begun, 1);
  ctx->again = why == SD_TASK_RUN && !atomic_load(&opened);
  if (ctx->again) pause_a_little();
  else atomic_fetch_add(&told[why], 1);
}

/* Submits two more like it, so many levels deep, with the number in its argument. */
void grows(sd_task_context *ctx, void *argument, int why) {
  uint32_t left = *(uint32_t *)argument;
  atomic_fetch_add(&told[why], 1);
  if (why != SD_TASK_RUN || !left--) return;
  sd_task_spec specs[2];
  for (int i = 0; i < 2; i++)
    specs[i] = (sd_task_spec){
        .fn = grows, .argument = &left, .argument_bytes = sizeof left, .key = SD_NO_KEY, .priority = SD_USUAL_PRIORITY};
  ctx->submit(ctx, specs, 2);
}

/* Notes how many ticks the row of symbol 1 has counted. */
void look(sd_task_context *ctx, void *argument, int why) {
  (void)argument;
  uint32_t ticks = (uint32_t)*(uint64_t *)((unsigned char *)ctx->rows + ctx->row_stride);
  note(ctx, &ticks, why);
}
