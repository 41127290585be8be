/* Whether a strand that is ready is handled while others never run out: the real dispatcher under the seeded scheduler, with
 * handlers that publish to their own strands, and free tasks that submit themselves, for as long as one strand, the quiet one, has
 * records left. Somebody has to come for it, or the run has no end.
 *
 * liveness [SEEDS] [FIRST]    or SEED=n liveness, to run one again and print it; POLICY=NAME: under that policy
 */
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "crashes.h"
#include "engine/api.h"
#include "sd_error.h"
#include "seeded/scheduler.h"

enum { MAX_STRANDS = 8, MAX_STEPS = 400000 };

typedef struct record {
  uint32_t key;
  uint32_t unused[15];
} record;

typedef struct run {
  sd_config config;
  sd_space *space;
  sd_dispatcher *d;
  uint32_t n_workers, n_strands, quiet, workers_left;
  uint32_t endless; /* the strand whose visit ends with the run */
  uint64_t left;    /* records of the quiet strand */
} run;

static run R;
static int POLICY;

static int64_t handle(void *rows, const sd_tick *ticks, int64_t n, sd_context *ctx) {
  const record *records = (const record *)(const void *)ticks;
  for (int64_t i = 0; i < n; i++) {
    const uint32_t key = records[i].key;
    sd_schedule_point("handler");
    if (key == R.quiet) R.left--;
    while (key == R.endless && R.left && !sd_dispatcher_stopping(R.d)) sd_pause();
    if (key == R.quiet || key == R.endless || !R.left) continue;
    int64_t in;
    ctx->publish(ctx, &records[i], 1, &in);
  }
  return n;
}

/* A free task that submits itself again for as long as the quiet strand has records. */
static void again(sd_task_context *ctx, void *argument, int why) {
  sd_task_spec spec = {.fn = again, .key = SD_NO_KEY, .priority = SD_USUAL_PRIORITY};
  sd_schedule_point("free task");
  if (why == SD_TASK_RUN && R.left) ctx->submit(ctx, &spec, 1);
}

static void worker(void *participant, unsigned index) {
  sd_py_batch batch;
  if (sd_worker_next(R.d, (uint32_t)(uintptr_t)participant, &batch) != SD_E_STOPPED)
    sd_scheduler_fail("a worker ended otherwise than by a stop");
  R.workers_left--;
}

static uint32_t one_of(uint32_t low, uint32_t high) { return low + sd_scheduler_random(high - low + 1); }

static void watcher(void *unused, unsigned index) {
  while (R.left) {
    /* One worker may be in the visit without end. */
    sd_dispatcher_activate(R.d, one_of(2, R.n_workers));
    for (uint32_t i = sd_scheduler_random(40); i; i--) sd_pause();
  }
  sd_dispatcher_stop(R.d);
  while (R.workers_left) sd_pause();
}

static int publish(uint32_t participant, uint32_t key, int64_t n) {
  static record records[16];
  for (int64_t i = 0; i < n; i++) records[i].key = key;
  return sd_publish(R.d, participant, records, n, 1);
}

/* The quiet strand is on the list of a worker that may be in a visit without end. */
static int publish_all(void) {
  const int64_t publisher = sd_publisher_enter(R.d);
  if (publish((uint32_t)publisher, R.quiet, (int64_t)R.left)) return 0;
  for (uint32_t key = 0; key < R.n_strands; key++)
    if (key != R.quiet && publish((uint32_t)publisher, key, 1 + sd_scheduler_random(3))) return 0;
  return 1;
}

static int prepare(void) {
  memset(&R, 0, sizeof R);
  R.n_workers = R.workers_left = one_of(2, 3);
  R.n_strands = one_of(2 * R.n_workers + 2, MAX_STRANDS);
  R.quiet = sd_scheduler_random(R.n_strands);
  R.endless = (R.quiet + R.n_workers) % R.n_strands;
  R.left = one_of(6, 12);
  R.config = (sd_config){
      .sizes = {.n_symbols = R.n_strands,
                .n_strands = R.n_strands,
                .n_workers = R.n_workers,
                .n_publishers = 1,
                .record_size = sizeof(record),
                .key_offset = offsetof(record, key),
                .sequence_offset = SD_NONE,
                .row_bytes = 8,
                .n_tasks = 8,
                .n_segments = (R.n_workers + 1) * 2 * SD_FREE_RUN + 4 * R.n_strands},
      .policy = {.number = POLICY,
                 .levels = {.timeout_ns = {0, UINT64_MAX, UINT64_MAX, UINT64_MAX, UINT64_MAX}},
                 .aging = {.coefficient = {1e6}, .n_classes = 1},
                 .fair = {one_of(1, 400), one_of(1, 400), sd_scheduler_random(2) ? one_of(2, 10) / 10.0 : 0}},
      .time_offset = SD_NONE,
      .idle = (int32_t)sd_scheduler_random(3),
      .on_full = SD_BLOCK,
      .capacity = 64,
      .budget_records = one_of(1, 5),
      .budget_ns = 100000,
      .batch_records = 16,
      .ahead_records = 1000,
      .publisher_drains = 1,
  };
  if (sd_space_create(0, 0, &R.space) || sd_dispatcher_create(R.space, &R.config, &R.d)) return 0;
  uint32_t map[MAX_STRANDS];
  uint16_t handler_of[MAX_STRANDS] = {0};
  for (uint32_t i = 0; i < R.n_strands; i++) map[i] = i;
  const sd_handler handler = {.fn = handle};
  if (sd_dispatcher_route(R.d, map, handler_of) || sd_dispatcher_handlers(R.d, &handler, 1)) return 0;
  for (uint32_t i = 0; i < R.n_strands && POLICY == SD_FAIR; i++)
    if (sd_dispatcher_prioritise(R.d, i, sd_scheduler_random(3), 0)) return 0;
  if (!publish_all()) return 0;
  sd_task_spec specs[2] = {{.fn = again, .key = SD_NO_KEY, .priority = SD_USUAL_PRIORITY}};
  specs[1] = specs[0];
  if (sd_tasks_submit(R.d, specs, sd_scheduler_random(3)) < 0) return 0;
  for (uint32_t i = 0; i < R.n_workers; i++) sd_scheduler_add(worker, (void *)(uintptr_t)i);
  sd_scheduler_add(watcher, NULL);
  return 1;
}

static int one(uint64_t seed, int loud) {
  begin_seed(seed);
  sd_scheduler_start(seed);
  if (!prepare()) {
    printf("seed %llu: not as it was to be prepared\n", (unsigned long long)seed);
    return 1;
  }
  const int how = sd_scheduler_run(MAX_STEPS);
  const char *wrong = how == SD_DEADLOCK ? "deadlock: all that are left sleep"
                      : how == SD_NO_END ? "no end: a strand is ready, and nobody comes for it"
                      : how == SD_FAILED ? sd_scheduler_failure()
                                         : NULL;
  if (wrong || loud) {
    printf("seed %llu: %s\n", (unsigned long long)seed, wrong ? wrong : "ok");
    printf("  %u workers, %u strands, the quiet one %u with %llu left, the endless one %d, idle %d, budget %u, steps "
           "%llu\n",
           R.n_workers, R.n_strands, R.quiet, (unsigned long long)R.left, (int)R.endless, R.config.idle,
           R.config.budget_records, (unsigned long long)sd_scheduler_steps());
    sd_scheduler_print();
  }
  sd_dispatcher_destroy(R.d);
  sd_space_destroy(R.space);
  return wrong != NULL;
}

int main(int argc, char **argv) {
  tell_crashes();
  const char *only = getenv("SEED"), *policy = getenv("POLICY");
  if (policy && *policy) POLICY = sd_policy_number(policy);
  if (POLICY == SD_POLICY_COUNT)
    return fprintf(stderr, "POLICY=%s: csrc/schedule/policy.h has no such one\n", policy), 2;
  if (only) return one(strtoull(only, NULL, 10), 1);
  const uint64_t seeds = argc > 1 ? strtoull(argv[1], NULL, 10) : 2000,
                 first = argc > 2 ? strtoull(argv[2], NULL, 10) : 1;
  uint64_t steps = 0, most = 0;
  for (uint64_t i = 0; i < seeds; i++) {
    if (one(first + i, 0)) return 1;
    steps += sd_scheduler_steps();
    if (sd_scheduler_steps() > most) most = sd_scheduler_steps();
  }
  printf("ok liveness %llu seeds from %llu, %llu steps, at most %llu\n", (unsigned long long)seeds,
         (unsigned long long)first, (unsigned long long)steps, (unsigned long long)most);
  return 0;
}
