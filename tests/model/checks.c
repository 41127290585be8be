/* Checks of one promise each, for faults of the real dispatcher that the scenarios of schedule.c meet seldom or do not see.
 * tests/model/mutants names for each known fault the check that has to catch it.
 *
 * checks [NAME]    all of them, or one; SEED=n checks NAME runs it with that seed alone
 *
 * A check is a function that makes a dispatcher and fibers, and runs them; it gets a seed. Where the order of events is
 * all that matters, one fiber acts as several threads in turn.
 */
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/clock.h"
#include "blocks/array.h"
#include "blocks/choice.h"
#include "crashes.h"
#include "engine/api.h"
#include "sd_error.h"
#include "seeded/scheduler.h"

enum { SYMBOLS = 8, PARTICIPANTS = 6, MAX_RECORDS = 64, LONG_RECORD = 1984, MAX_STEPS = 100000, SLICE_NS = 60 };
enum { MAX_LOOKS = 2000, MAX_NUMBERS = 100, BLOCKS_OF_B = 5, MAX_NOTES = 64 };
enum { NATIVE, PURE, PYTHON };
enum { MAX_MET = 4 * MAX_RECORDS, MET = 1, FAILED_ON = 2 };

typedef struct record {
  uint32_t key, unused;
  uint64_t time, nth; /* nth: of all that this dispatcher is given */
  unsigned char more[40];
} record;

/* A task in C: when it was told how it ended, from 1 on, and how. */
typedef struct note {
  uint64_t handle;
  uint32_t told;
  int why, refused;
} note;

typedef struct world {
  sd_config config;
  sd_space *space;
  sd_dispatcher *d;
  int (*each)(const record *t, int64_t i, sd_context *ctx); /* what the handler does with a record; nonzero: it fails */
  uint64_t time, given;
  uint64_t woken[SYMBOLS]; /* the time of each symbol's last timer */
  uint64_t handled, handled_of[SYMBOLS];
  uint64_t tasks, wakes, merged, handle;
  uint32_t participant; /* that handled the last record */
  uint32_t publishing, n_publishers, working, meeting, swept;
  int failing, nesting, finishes, endless;
  uint64_t position, last_number[SYMBOLS];
  uint64_t looks[MAX_LOOKS][2], n_looks; /* a lowest unpublished number, or the watermark, and the time there */
  uint64_t time_of[MAX_NUMBERS];         /* of the record with that number */
  note notes[MAX_NOTES];
  uint32_t n_notes, n_told;
  uint64_t next_of[SYMBOLS]; /* per strand: one more than the number of its record that was handled last */
  int at_work[SYMBOLS];      /* per strand */
  uint8_t met[MAX_MET];      /* per record: handled, or failed on */
  uint64_t failed, met_at_stop;
  int failing_seldom, stops, timed;
  uint32_t has_positions, emitted_bytes;
  uint64_t last_merged, output_room;
} world;

static world W;
static unsigned char batches[PARTICIPANTS][MAX_RECORDS * LONG_RECORD] SD_ALIGNED(64);

static void expect(int yes, const char *what) {
  if (!yes) sd_scheduler_fail(what);
}

static uint32_t one_of(uint32_t low, uint32_t high) { return low + sd_scheduler_random(high - low + 1); }

static int draw_idle(void) {
  const uint32_t drawn = sd_scheduler_random(4);
  return drawn == 0 ? SD_IDLE_BACKOFF : drawn == 1 ? SD_IDLE_SLEEP : SD_IDLE_PARK;
}

/* ---- a dispatcher */

/* A symbol a strand, nothing drains but workers, and there is room for everything. */
static sd_config usual(uint32_t strands, uint32_t workers, uint32_t publishers) {
  return (sd_config){.sizes = {.n_symbols = strands,
                               .n_strands = strands,
                               .n_workers = workers,
                               .n_publishers = publishers,
                               .record_size = sizeof(record),
                               .key_offset = 0,
                               .sequence_offset = offsetof(record, nth),
                               .row_bytes = 8,
                               .n_segments = (workers + publishers) * 2 * SD_FREE_RUN + 4 * strands + 4,
                               .counters_start = UINT64_MAX - 3},
                     .time_offset = offsetof(record, time),
                     .idle = SD_IDLE_PARK,
                     .on_error = SD_ON_ERROR_QUARANTINE,
                     .on_full = SD_BLOCK,
                     .capacity = 100,
                     .budget_records = 100,
                     .budget_ns = 1000000,
                     .batch_records = MAX_RECORDS,
                     .ahead_records = 1000};
}

static int64_t handler(void *rows, const sd_tick *ticks, int64_t n, sd_context *ctx) {
  for (int64_t i = 0; i < n; i++) {
    const record *t = (const record *)((const char *)ticks + (size_t)i * W.config.sizes.record_size);
    sd_schedule_point("handler");
    if (W.each && W.each(t, i, ctx)) return i;
    W.participant = ctx->participant;
    W.handled++;
    W.handled_of[t->key]++;
    if (ctx->yield) return i + 1;
  }
  return n;
}

static int wake(void *rows, uint32_t key, int64_t time, sd_context *ctx) {
  sd_schedule_point("timer");
  W.wakes++;
  W.woken[key] = (uint64_t)time;
  ctx->wake_at(ctx, key, W.endless ? time + 1 : sd_scheduler_random(2) ? time + one_of(1, 4) : 0);
  return 0;
}

typedef struct emission {
  uint64_t nth;
  unsigned char more[56]; /* two a chunk */
} emission;

static int finish(void *rows, uint32_t key, sd_context *ctx) {
  emission e = {key, {0}};
  return sd_emit(ctx, 0, -1, &e);
}

/* `record_bytes`: of what is emitted, 0 for no outputs. */
static void make(const sd_config *config, int kind, int timed, uint32_t record_bytes) {
  static const uint32_t first[1] = {0};
  const uint32_t n = config->sizes.n_symbols;
  uint32_t map[SYMBOLS];
  uint16_t handlers[SYMBOLS] = {0};
  sd_handler one = {.fn = kind == PYTHON ? NULL : handler,
                    .never_publishes = kind == PURE,
                    .n_outputs = record_bytes != 0,
                    .outputs = first,
                    .wake = timed && kind != PYTHON ? wake : NULL,
                    .wakes = timed && kind == PYTHON,
                    .finish = W.finishes ? finish : NULL,
                    .yields = timed};
  W.config = *config;
  for (uint32_t i = 0; i < n; i++) map[i] = i % config->sizes.n_strands;
  if (sd_space_create(0, 0, &W.space) || sd_dispatcher_create(W.space, config, &W.d)) abort();
  const uint64_t least = sd_outputs_minimum(W.d, 1), room = W.output_room > least ? W.output_room : least;
  if (record_bytes && sd_dispatcher_outputs(W.d, &record_bytes, 1, room)) abort();
  if (sd_dispatcher_route(W.d, map, handlers) || sd_dispatcher_handlers(W.d, &one, 1)) abort();
}

static const char *run(void) {
  int how = sd_scheduler_run(MAX_STEPS);
  return how == SD_RAN        ? NULL
         : how == SD_DEADLOCK ? "all that are left sleep"
         : how == SD_NO_END   ? "no end: somebody waits for ever"
                              : sd_scheduler_failure();
}

/* Runs the fibers, and last this one. */
static const char *run_script(sd_fiber_fn script) {
  sd_scheduler_add(script, NULL);
  return run();
}

/* ---- what fibers do */

static uint32_t enter(void) {
  int64_t participant = sd_publisher_enter(W.d);
  if (participant < 0) abort();
  return (uint32_t)participant;
}

/* The records of a call: their symbols as letters from 'a' on. */
static const void *records_of(uint32_t participant, const char *symbols) {
  for (int i = 0; symbols[i]; i++) {
    record *r = (record *)(batches[participant] + (size_t)i * W.config.sizes.record_size);
    *r = (record){.key = (uint32_t)(symbols[i] - 'a'), .time = W.time, .nth = W.given++};
  }
  return batches[participant];
}

static int publish(uint32_t participant, const char *symbols) {
  return sd_publish(W.d, participant, records_of(participant, symbols), (int64_t)strlen(symbols), SLICE_NS);
}

/* The same to the end. */
static int publish_all(uint32_t participant, const char *symbols) {
  int code = publish(participant, symbols);
  while (code == SD_AGAIN) {
    sd_pause();
    code = sd_publish_more(W.d, participant, SLICE_NS);
  }
  return code;
}

/* A worker of native handlers, that runs tasks. */
static void worker(void *participant, unsigned fiber) {
  sd_py_batch batch;
  int code;
  while ((code = sd_worker_next(W.d, (uint32_t)(uintptr_t)participant, &batch)) == SD_PY_TASK) {
    W.tasks++;
    sd_worker_task_done(W.d, (uint32_t)(uintptr_t)participant, &batch);
  }
  expect(code == SD_E_STOPPED, "a worker ended otherwise than by a stop");
  W.working--;
}

static void add_workers(uint32_t n) {
  for (uint32_t i = 0; i < n; i++) sd_scheduler_add(worker, (void *)(uintptr_t)i);
  W.working = n;
}

static void stop(void) {
  sd_dispatcher_stop(W.d);
  while (W.working) sd_pause();
}

static void until_asleep(unsigned n) {
  while (sd_scheduler_asleep() < n) sd_pause();
}

static void until_handled(uint64_t n) {
  while (W.handled < n) sd_pause();
}

static int at_rest(void) {
  for (uint32_t i = 0; i < W.d->arena->n_strands; i++)
    if (sd_load(&W.d->strands[i].pending, acquire, X1)) return 0;
  return 1;
}

static uint64_t next_number(void) { return sd_load(&W.d->arena->next_sequence, relaxed, X1); }

/* ---- workers */

static void budget_script(void *unused, unsigned fiber) {
  uint32_t participant = enter();
  publish(participant, "aaaaa");
  for (uint64_t handled = 2; handled <= 6; handled += 2) {
    expect(sd_help(W.d, participant), "there is nothing to handle");
    expect(W.handled == (handled < 5 ? handled : 5), "a visit is not a budget");
  }
}

static const char *visits_take_a_budget(void) {
  sd_config c = usual(1, 1, 1);
  c.budget_records = 2;
  make(&c, NATIVE, 0, 0);
  return run_script(budget_script);
}

static int is_dear(const record *t, int64_t i, sd_context *ctx) {
  for (int j = 0; t->key == 0 && j < 50; j++) sd_pause();
  return 0;
}

/* A record of a takes longer than a visit may, and those of b take no time. */
static void dear_script(void *unused, unsigned fiber) {
  uint32_t participant = enter();
  publish(participant, "aaaaaa");
  while (W.handled_of[0] < 6) {
    const uint64_t before = W.handled_of[0];
    publish(participant, "bbbbbbbbbbbb");
    expect(sd_help(W.d, participant), "there is nothing to handle");
    expect(W.handled_of[0] <= before + 1, "a visit to a dear strand goes on after a record that took its time");
  }
}

static const char *dear_strands_keep_to_their_time(void) {
  sd_config c = usual(2, 1, 1);
  c.budget_ns = 40;
  make(&c, NATIVE, 0, 0);
  W.each = is_dear;
  return run_script(dear_script);
}

/* The visit to b ends when d has been handled. A visit to a or c takes a budget, and leaves another record there. */
static int takes_a_budget(const record *t, int64_t i, sd_context *ctx) {
  int64_t in;
  while (t->key == 1 && !W.handled_of[3] && !sd_dispatcher_stopping(W.d)) sd_pause();
  if (t->key & 1 || W.handled_of[3]) return 0;
  /* The first of them may have begun before there was a look at the other lists. */
  expect(++W.meeting <= 2, "a strand on a list that nobody takes from waits for many long visits");
  const uint64_t start = sd_now();
  while (sd_now() - start < W.d->budget_counts) sd_pause();
  ctx->publish(ctx, t, 1, &in);
  return 0;
}

static void stops_after_d(void *unused, unsigned fiber) {
  while (!W.handled_of[3]) sd_pause();
  stop();
}

static const char *long_visits_leave_others_their_turn(void) {
  sd_config c = usual(4, 2, 1);
  c.budget_ns = 2000;
  make(&c, NATIVE, 0, 0);
  W.each = takes_a_budget;
  /* b and d are listed with one worker, a and c with the other. */
  publish(enter(), "bdac");
  add_workers(2);
  return run_script(stops_after_d);
}

/* Each handler goes on when all of them are at work: so there has to be a worker for each. */
static int meets(const record *t, int64_t i, sd_context *ctx) {
  W.meeting++;
  while (W.meeting < W.config.sizes.n_strands) sd_pause();
  return 0;
}

static void publish_abc(void *unused, unsigned fiber) {
  uint32_t participant = enter();
  if (sd_scheduler_random(2)) until_asleep(sd_scheduler_random(4));
  if (sd_scheduler_random(2)) {
    publish(participant, "abc");
  } else {
    publish(participant, "b");
    publish(participant, "ac");
  }
  until_handled(3);
  stop();
}

static const char *spreads(void) {
  sd_config c = usual(3, 3, 1);
  c.idle = draw_idle();
  make(&c, NATIVE, 0, 0);
  W.each = meets;
  uint32_t worker = one_of(0, 2);
  for (uint32_t i = 0; i < 3; i++) W.d->strands[i].last = sd_scheduler_random(2) ? worker : one_of(0, 2);
  add_workers(3);
  return run_script(publish_abc);
}

/* The sleeper has registered before, and has looked at the lists before there was anything. */
static void leave_script(void *unused, unsigned fiber) {
  sd_idle *idle = &W.d->arena->idle;
  sd_py_batch batch;
  publish(enter(), "ab");
  uint32_t epoch = sd_idle_enter(idle);
  expect(sd_worker_next(W.d, 0, &batch) == SD_PY_RECORDS, "there is nothing to handle");
  expect(sd_load(&idle->epoch, relaxed, X1) != epoch, "nobody is woken for a strand that is left on the list");
}

static const char *wakes_for_what_it_leaves(void) {
  sd_config c = usual(2, 1, 1);
  make(&c, PYTHON, 0, 0);
  return run_script(leave_script);
}

static void hold_script(void *unused, unsigned fiber) {
  until_asleep(1);
  sd_dispatcher_hold(W.d, 0, SD_PAUSED);
  publish(enter(), "a");
  while (!W.handled && !(sd_load(&W.d->strands[0].control, relaxed, X1) & SD_SET_ASIDE)) sd_pause();
  until_asleep(1);
  expect(!W.handled, "a paused strand is handled");
  sd_dispatcher_resume(W.d, 0, SD_PAUSED);
  until_handled(1);
  stop();
}

static const char *held_waits(void) {
  sd_config c = usual(1, 1, 1);
  make(&c, NATIVE, 0, 0);
  add_workers(1);
  return run_script(hold_script);
}

static void hold_back(uint32_t resources) {
  uint32_t waiting;
  expect(sd_dispatcher_hold_back(W.d, resources, &waiting) == SD_OK, "a hold was refused");
}

/* Strand a has level low and is held back; b is not. While a is held back, workers sleep although a is listed, nobody takes a, and drain does
 * not end. Then a is let go, gets a higher level, or rises. In each case a worker has to wake and handle it. */
static void held_back_script(void *unused, unsigned fiber) {
  const uint32_t participant = enter(), how = sd_scheduler_random(3);
  until_asleep(2);
  hold_back(1u << SD_CPU);
  publish(participant, how & 1 ? "ab" : "ba");
  until_handled(1);
  until_asleep(2);
  expect(!sd_help(W.d, participant) && !W.handled_of[0], "a strand that is held back is handled");
  expect(sd_dispatcher_drain(W.d, participant, SLICE_NS) == SD_AGAIN, "drained, but a strand is held back");
  if (how == 0) hold_back(0);
  else if (how == 1) sd_dispatcher_prioritise(W.d, 0, SD_HIGH, 0);
  while (W.handled < 2) {
    if (how == 2) hold_back(1u << SD_CPU);
    sd_pause();
  }
  stop();
}

static const char *held_back_waits(void) {
  sd_config c = usual(2, 2, 1);
  c.publisher_drains = 1;
  c.policy = (sd_policy_config){.number = SD_LEVELS, .levels = {.timeout_ns = {0, 100000, 100000, 100000, 100000}}};
  make(&c, NATIVE, 0, 0);
  sd_dispatcher_prioritise(W.d, 0, SD_LOW, 0);
  add_workers(2);
  return run_script(held_back_script);
}

static void task_script(void *unused, unsigned fiber) {
  until_asleep(1);
  expect(sd_task_enqueue(W.d, 0, 1, &W.handle) == SD_OK, "no place for a task");
  while (!W.tasks) sd_pause();
  stop();
}

static const char *task_is_run(void) {
  sd_config c = usual(1, 1, 1);
  make(&c, NATIVE, 0, 0);
  add_workers(1);
  return run_script(task_script);
}

/* What b's handler publishes goes to a strand that whoever drains looks at first. */
static int publishes_to_a(const record *t, int64_t i, sd_context *ctx) {
  record more = {.key = 0};
  int64_t in;
  if (t->key == 0) return 0;
  return ctx->publish(ctx, &more, 1, &in);
}

static void drain_script(void *unused, unsigned fiber) {
  for (int i = 0; i < 6; i++) {
    publish(enter(), "b");
    sd_publisher_leave(W.d, W.config.sizes.n_workers);
    while (sd_dispatcher_drain(W.d, SD_NONE, SLICE_NS)) sd_pause();
    expect(W.handled == 2 * (uint64_t)(i + 1), "drained, but not all was handled");
  }
  stop();
}

static const char *drains_what_handlers_publish(void) {
  sd_config c = usual(2, 1, 1);
  make(&c, NATIVE, 0, 0);
  W.each = publishes_to_a;
  add_workers(1);
  return run_script(drain_script);
}

static int was_drained_last_where_it_stands(const record *t, int64_t i, sd_context *ctx) {
  expect(W.d->strands[0].last == W.participant, "a strand is not listed with the worker that drained it last");
  return 0;
}

static void now_and_then(void *unused, unsigned fiber) {
  uint32_t participant = enter();
  for (int i = 0; i < 6; i++) {
    publish(participant, "a");
    for (uint32_t j = sd_scheduler_random(12); j; j--) sd_pause();
  }
  until_handled(6);
  stop();
}

static const char *stands_where_it_was_drained(void) {
  sd_config c = usual(1, 2, 1);
  c.idle = SD_IDLE_SPIN;
  c.budget_records = 1;
  make(&c, NATIVE, 0, 0);
  W.each = was_drained_last_where_it_stands;
  add_workers(2);
  return run_script(now_and_then);
}

/* ---- publishing */

static void rejected_script(void *unused, unsigned fiber) {
  static const int64_t right[3] = {2, 4, 5};
  uint32_t participant = enter();
  int64_t positions[3];
  expect(publish(participant, "aaabaa") == SD_E_FULL, "a full strand is not said to be full");
  expect(sd_publish_rejected(W.d, participant, 0, positions, 3) == 3, "it is not told how many records did not go in");
  expect(memcmp(positions, right, sizeof right) == 0, "other records are named than those that did not go in");
}

static const char *names_what_did_not_go_in(void) {
  sd_config c = usual(2, 1, 1);
  c.on_full = SD_RAISE;
  c.capacity = 2;
  c.batch_records = 2;
  make(&c, NATIVE, 0, 0);
  return run_script(rejected_script);
}

/* In the middle of a call that waits for room. */
static void leaving_script(void *unused, unsigned fiber) {
  sd_totals t;
  uint32_t participant = enter();
  expect(publish(participant, "aa") == SD_AGAIN, "there is room for two records in one place");
  sd_publisher_leave(W.d, participant);
  sd_help(W.d, enter());
  for (int i = 0; i < 3; i++) W.position = sd_watermark(W.d);
  expect(W.position == next_number(), "a publisher that has left holds up the watermark");
  sd_dispatcher_totals(W.d, &t);
  expect(t.accepted == 1 && t.pending == 0, "a record that did not go in is counted as accepted");
}

static const char *leaves_nothing_behind(void) {
  sd_config c = usual(1, 1, 1);
  c.capacity = 1;
  make(&c, NATIVE, 0, 0);
  return run_script(leaving_script);
}

static void inline_script(void *unused, unsigned fiber) {
  uint32_t participant = enter();
  publish(participant, "aaaa");
  expect(W.handled == 4, "nothing is handled in place");
  sd_dispatcher_hold(W.d, 0, SD_PAUSED);
  publish(participant, "aaaa");
  expect(W.handled == 4, "a paused strand is handled");
}

static const char *paused_is_not_handled_inline(void) {
  sd_config c = usual(1, 1, 1);
  c.publisher_drains = c.one_core = 1;
  make(&c, PURE, 0, 0);
  return run_script(inline_script);
}

/* ---- keys that another thread changes while their records are published */

enum { KEYED = 12 };

/* Each record has a symbol, and its strand is in this participant's hands; or in those of the publisher, whose blocks it takes part in. */
static int is_of_a_strand_in_hand(const record *t, int64_t i, sd_context *ctx) {
  expect(t->key < W.config.sizes.n_symbols, "a record of no symbol reaches a handler");
  const uint32_t owner = sd_owner_in(sd_load(&W.d->strands[W.d->map[t->key]].owner, relaxed, X1));
  expect(owner == ctx->participant + 1 || (W.d->blocks && owner == W.config.sizes.n_workers + 1),
         "a record reaches a handler by a strand that is not its symbol's");
  return 0;
}

static void changes_keys(void *participant, unsigned fiber) {
  while (W.publishing) {
    record *r = (record *)batches[(uintptr_t)participant] + sd_scheduler_random(KEYED);
    r->key = sd_scheduler_random(8) ? sd_scheduler_random(W.config.sizes.n_symbols) : UINT32_MAX;
    sd_pause();
  }
}

static void changed_keys_script(void *participant, unsigned fiber) {
  uint64_t accepted = 0, dropped = 0;
  sd_totals now;
  for (int i = 0; i < 4; i++) {
    uint32_t mine = enter();
    expect(mine == (uint32_t)(uintptr_t)participant, "another publisher is at work");
    int code = publish_all(mine, "abcdabcddcba");
    expect(code == SD_OK || code == SD_E_KEY || code == SD_E_FULL, "publishing ends otherwise than it may");
    accepted += KEYED - (uint64_t)(code ? sd_publish_rejected(W.d, mine, 0, NULL, 0) : 0);
    sd_publisher_leave(W.d, mine);
  }
  W.publishing = 0;
  while (!at_rest()) sd_pause();
  sd_dispatcher_totals(W.d, &now);
  for (int why = 0; why < SD_DROP_REASONS; why++) dropped += now.dropped[why];
  expect(now.accepted == accepted && now.accepted == now.handled + dropped, "a record is not counted");
  stop();
}

static const char *keys_are_read_once(void) {
  static const int32_t bounds[] = {SD_BLOCK, SD_RAISE, SD_DROP_NEWEST, SD_DROP_OLDEST, SD_CONFLATE};
  sd_config c = usual(4, 1, 1);
  c.sizes.n_strands = one_of(2, 4);
  c.sizes.has_positions = sd_scheduler_random(2);
  c.batch_records = one_of(3, KEYED);
  c.on_full = bounds[sd_scheduler_random(5)];
  c.capacity = one_of(4, 6);
  c.publisher_drains = (int32_t)sd_scheduler_random(2);
  c.one_core = (int32_t)sd_scheduler_random(2);
  make(&c, sd_scheduler_random(2) ? PURE : NATIVE, 0, 0);
  W.each = is_of_a_strand_in_hand;
  W.publishing = 1;
  add_workers(1);
  sd_scheduler_add(changed_keys_script, (void *)(uintptr_t)1);
  sd_scheduler_add(changes_keys, (void *)(uintptr_t)1);
  return run();
}

/* ---- blocks */

/* Along a strand each record once, in the order of publishing, and one at a time. */
static int is_next_of_its_strand(const record *t, int64_t i, sd_context *ctx) {
  const uint32_t strand = W.d->map[t->key];
  expect(!W.at_work[strand], "two handlers of a strand at a time");
  W.at_work[strand] = 1;
  for (uint32_t turns = sd_scheduler_random(3); turns; turns--) sd_pause();
  expect(t->nth >= W.next_of[strand], "a strand's records are out of order, or one is handled twice");
  W.next_of[strand] = t->nth + 1;
  W.at_work[strand] = 0;
  expect(!(sd_load(&W.d->strands[strand].control, relaxed, X1) & SD_QUARANTINED), "a strand in quarantine is handled");
  const int fails = W.failing_seldom && sd_scheduler_random(24) == 0;
  W.met[t->nth] = fails ? FAILED_ON : MET;
  W.failed += (uint64_t)fails;
  return fails;
}

static void make_blocks(uint32_t workers) {
  sd_config c = usual(4, workers, 1);
  c.sizes.n_strands = one_of(1, 4);
  c.publisher_drains = 1;
  c.ingest = SD_INGEST_BLOCKS;
  /* A quarantined strand has room for all. */
  c.capacity = MAX_MET;
  c.sizes.n_segments += MAX_MET / 8;
  c.budget_records = one_of(1, 5);
  c.sizes.has_positions = W.has_positions;
  make(&c, PURE, W.timed, W.emitted_bytes);
  W.each = is_next_of_its_strand;
  add_workers(workers);
}

static int go_on(uint32_t participant, int code) {
  while (code == SD_AGAIN) {
    sd_pause();
    code = sd_publish_more(W.d, participant, SLICE_NS);
  }
  return code;
}

/* Publishes records as a feeder does: blocks of a source, and a few in turn where there are none. */
static int publish_as_source(uint32_t participant, const record *r, int64_t n) {
  for (int64_t at = 0; at < n;) {
    sd_block_array array = {.records = (const unsigned char *)(r + at),
                            .n = (uint64_t)(n - at),
                            .size = W.config.sizes.record_size,
                            .key_offset = W.d->arena->key_offset};
    const sd_block_source source = sd_block_array_source(W.d, &array);
    sd_blocks_done done;
    int code = sd_publish_blocks(W.d, participant, &source, &array, SLICE_NS * SD_ARRAY_BLOCK, &done);
    if (done.n_held && (code = go_on(participant, code))) return code;
    at += (int64_t)array.adopted;
    if (array.adopted) continue;
    const int64_t some = n - at < SD_ARRAY_BLOCK ? n - at : SD_ARRAY_BLOCK;
    code = go_on(participant, sd_publish_own(W.d, participant, r + at, some, SLICE_NS));
    if (code) return code;
    at += some;
  }
  return SD_OK;
}

/* Records of two blocks to sixteen. */
static uint32_t some_blocks(void) {
  const uint32_t most = 16 * SD_ARRAY_BLOCK;
  return one_of(2 * SD_ARRAY_BLOCK, most < MAX_RECORDS ? most : MAX_RECORDS);
}

/* A call of at least two blocks, or a source of as many. */
static int publish_long(uint32_t participant, int as_source) {
  char symbols[MAX_RECORDS + 1] = {0};
  for (uint32_t i = some_blocks(); i; i--) symbols[i - 1] = (char)('a' + sd_scheduler_random(4));
  if (!as_source) return publish_all(participant, symbols);
  return publish_as_source(participant, records_of(participant, symbols), (int64_t)strlen(symbols));
}

static void quarantine_ends(void) {
  for (uint32_t i = 0; i < W.d->arena->n_strands; i++) sd_dispatcher_resume(W.d, i, SD_QUARANTINED);
}

/* Ends quarantines at any time: also while blocks are under way. */
static void frees(void *unused, unsigned fiber) {
  while (W.publishing) {
    for (uint32_t i = sd_scheduler_random(60); i && W.publishing; i--) sd_pause();
    quarantine_ends();
  }
}

static void blocks_script(void *unused, unsigned fiber) {
  const uint32_t participant = enter();
  sd_totals now;
  for (int i = 0; i < 3; i++) {
    expect(publish_long(participant, 0) == SD_OK, "publishing ends otherwise than it may");
    if (sd_scheduler_random(2)) quarantine_ends();
  }
  while (W.handled + W.failed < W.given) {
    quarantine_ends();
    sd_pause();
  }
  W.publishing = 0;
  while (!at_rest()) sd_pause();
  sd_dispatcher_totals(W.d, &now);
  expect(now.accepted == W.given && now.handled == W.handled && now.failed == W.failed, "a record is not counted");
  expect(W.failed || now.handled_in_blocks > 0, "nothing goes in blocks though all is idle");
  stop();
}

static void sources_script(void *unused, unsigned fiber) {
  const uint32_t participant = enter();
  for (int i = 0; i < 3; i++) expect(publish_long(participant, 1) == SD_OK, "publishing ends otherwise than it may");
  while (W.handled + W.failed < W.given || !at_rest()) {
    quarantine_ends();
    sd_pause();
  }
  expect(sd_watermark(W.d) - W.config.sizes.counters_start == W.given, "the watermark stays behind");
  stop();
}

static const char *sources_are_numbered(void) {
  W.failing_seldom = (int)sd_scheduler_random(2);
  make_blocks(one_of(1, 3));
  return run_script(sources_script);
}

static const char *blocks_keep_the_order(void) {
  make_blocks(one_of(1, 3));
  return run_script(blocks_script);
}

/* Between a worker's look at the window and its step into it, the publisher may have shut it: a seed meets that too seldom. */
static void shut_window_script(void *unused, unsigned fiber) {
  sd_window w = {0};
  sd_window_open(&w);
  expect(sd_window_enter(&w), "an open window lets nobody in");
  sd_window_shut(&w);
  expect(!sd_window_empty(&w), "somebody who is inside is not waited for");
  expect(!sd_window_enter(&w), "a window that is shut lets somebody in");
  sd_window_leave(&w);
  expect(sd_window_empty(&w), "somebody who did not come in is waited for");
}

static const char *shut_windows_let_nobody_in(void) { return run_script(shut_window_script); }

static const char *blocks_hold_back_in_order(void) {
  make_blocks(one_of(1, 3));
  W.failing_seldom = W.publishing = 1;
  sd_scheduler_add(blocks_script, NULL);
  if (sd_scheduler_random(2)) sd_scheduler_add(frees, NULL);
  return run();
}

static void stops_some_time(void *unused, unsigned fiber) {
  for (uint32_t i = sd_scheduler_random(400); i; i--) sd_pause();
  W.met_at_stop = W.handled + W.failed;
  W.stops = 1;
  sd_dispatcher_stop(W.d);
}

/* A stop ends a call with what was adopted handled, and the rest named. */
static void stopped_blocks_script(void *unused, unsigned fiber) {
  const uint32_t participant = enter();
  int64_t positions[MAX_RECORDS], rejected = 0;
  const int code = publish_long(participant, 0);
  expect(code == SD_OK || code == SD_E_STOPPED, "publishing ends otherwise than it may");
  if (code) rejected = sd_publish_rejected(W.d, participant, 0, positions, MAX_RECORDS);
  for (int64_t i = 0; i < rejected; i++) {
    expect(positions[i] < (int64_t)W.given && (!i || positions[i] > positions[i - 1]), "rejected twice, or nothing");
    expect(!W.met[positions[i]], "a record is handled and called rejected");
  }
  /* What fills the window, and a block that each thread was about to take; or four that are handled in place. */
  const uint64_t most = (SD_BLOCK_SLOTS + W.d->n_participants) * SD_ARRAY_BLOCK + 4;
  expect(!W.stops || W.handled + W.failed <= W.met_at_stop + most, "blocks go on after a stop");
  stop();
  sd_totals now;
  sd_dispatcher_totals(W.d, &now);
  expect(now.accepted + (uint64_t)rejected == W.given && now.handled == W.handled && now.failed == W.failed &&
             now.accepted == now.handled + now.failed + now.pending,
         "a record is not counted");
}

static const char *blocks_stop_in_the_middle(void) {
  make_blocks(one_of(1, 2));
  W.failing_seldom = (int)sd_scheduler_random(2);
  sd_scheduler_add(stopped_blocks_script, NULL);
  return run_script(stops_some_time);
}

/* A strand that is paused keeps its records, and the others' go the other way. */
static void beside_paused_script(void *unused, unsigned fiber) {
  const uint32_t participant = enter();
  sd_totals now;
  sd_dispatcher_hold(W.d, 0, SD_PAUSED);
  publish_all(participant, "abcdabcdabcdabcd");
  sd_dispatcher_totals(W.d, &now);
  expect(now.handled_in_blocks == 0, "a paused strand's records go in blocks");
  expect(W.handled_of[0] == 0, "a paused strand is handled");
  sd_dispatcher_resume(W.d, 0, SD_PAUSED);
  until_handled(16);
  stop();
}

static const char *blocks_wait_for_paused(void) {
  make_blocks(1);
  return run_script(beside_paused_script);
}

/* A record has its number and its time, after all timers up to that time, in a block, kept back, or enqueued. It emits three. */
static int is_where_it_was_published(const record *t, int64_t i, sd_context *ctx) {
  const sd_position its = ctx->positions[i];
  expect(its.number == t->nth, "a record has not the number that it was published with");
  expect((uint64_t)its.time == t->time, "a record has not its own time");
  expect(t->time >= W.woken[t->key], "a record is handled behind a timer that it comes before");
  for (uint64_t j = 0; ctx->n_outputs && j < 3; j++) {
    emission e = {3 * t->nth + j, {0}};
    if (sd_emit(ctx, 0, i, &e)) abort();
  }
  if (is_next_of_its_strand(t, i, ctx)) return 1;
  if (ctx->wake_at && !sd_scheduler_random(3)) ctx->wake_at(ctx, t->key, its.time + one_of(1, 3));
  return 0;
}

/* Hands out what there is: in the order of the records, three of each. */
static void take_threes(int how) {
  enum { BYTES = SD_MERGED_HEAD + sizeof(emission) };
  unsigned char room[4 * BYTES + 8];
  int64_t n;
  sd_outputs_round(W.d, how);
  do {
    n = sd_outputs_take(W.d, 0, room, 4);
    for (int64_t i = 0; i < n; i++) {
      emission e;
      memcpy(&e, room + i * BYTES + SD_MERGED_HEAD, sizeof e);
      expect(e.nth % 3 == W.merged % 3 && (!W.merged || e.nth > W.last_merged), "merged out of order");
      expect(W.met[e.nth / 3] == MET, "what a record emitted is merged though its handler failed");
      W.last_merged = e.nth;
      W.merged++;
    }
  } while (n == 4);
}

static void merges(void *unused, unsigned fiber) {
  while (W.publishing) {
    for (uint32_t i = sd_scheduler_random(40); i && W.publishing; i--) sd_pause();
    take_threes(SD_FINAL_LIVE);
  }
  take_threes(SD_FINAL_ALL);
  /* The merger may have passed over a strand in quarantine. */
  const uint64_t late = W.d->outputs->passed ? sd_outputs_late(W.d) : 0;
  expect(W.merged + late == 3 * W.handled, "not all that was emitted is merged");
}

static int publish_long_in_time(uint32_t participant) {
  char symbols[MAX_RECORDS + 1] = {0};
  for (uint32_t i = some_blocks(); i; i--) symbols[i - 1] = (char)('a' + sd_scheduler_random(4));
  record *r = (record *)records_of(participant, symbols);
  const int64_t n = (int64_t)strlen(symbols);
  for (int64_t i = 0; i < n; i++) r[i].time = W.time += sd_scheduler_random(40) ? !sd_scheduler_random(3) : 30;
  if (sd_scheduler_random(2)) return publish_as_source(participant, r, n);
  return go_on(participant, sd_publish(W.d, participant, r, n, SLICE_NS));
}

static void numbered_blocks_script(void *unused, unsigned fiber) {
  const uint32_t participant = enter();
  sd_totals now;
  for (int i = 0; i < 3; i++) {
    expect(publish_long_in_time(participant) == SD_OK, "publishing ends otherwise than it may");
    if (sd_scheduler_random(2)) quarantine_ends();
  }
  while (W.handled + W.failed < W.given || !at_rest()) {
    quarantine_ends();
    sd_pause();
  }
  sd_dispatcher_totals(W.d, &now);
  expect(now.handled_in_blocks > 0 || W.failed || W.wakes, "nothing goes in blocks though all is idle");
  sd_publisher_leave(W.d, participant);
  while (sd_dispatcher_drain(W.d, SD_NONE, SLICE_NS) == SD_AGAIN) sd_pause();
  expect(sd_watermark(W.d) - W.config.sizes.counters_start == W.given, "the watermark stays behind");
  W.publishing = 0;
  stop();
}

static const char *blocks_give_numbers(void) {
  W.failing_seldom = (int)sd_scheduler_random(2);
  W.publishing = 1;
  W.has_positions = 1;
  W.timed = !sd_scheduler_random(3);
  W.endless = (int)sd_scheduler_random(2);
  W.emitted_bytes = sd_scheduler_random(2) ? sizeof(emission) : 0;
  /* Publishers wait at times, and SD_OUTPUT_SLACK times as much is enough for all. */
  W.output_room = 1 << 14;
  make_blocks(one_of(1, 3));
  W.each = is_where_it_was_published;
  sd_scheduler_add(numbered_blocks_script, NULL);
  if (W.emitted_bytes) sd_scheduler_add(merges, NULL);
  if (sd_scheduler_random(2)) sd_scheduler_add(frees, NULL);
  return run();
}

/* ---- segments */

/* The pool runs dry on b, while somebody has a's only record in hand; a's publish lock is in use when that one is done. */
static void segment_script(void *unused, unsigned fiber) {
  uint32_t participant = enter();
  sd_py_batch batch;
  publish(participant, "a");
  expect(sd_worker_next(W.d, 0, &batch) == SD_PY_RECORDS && batch.strand == 0, "a is not to be had");
  expect(publish(participant, "bbbbbbbbbbbbbbbbbbbbbbbbbbbbbb") == SD_AGAIN, "the pool has segments without end");
  sd_publisher_leave(W.d, participant);
  participant = enter();
  sd_a32 *lock = &W.d->strands[0].publish_lock;
  sd_lock(lock);
  sd_worker_done(W.d, 0, &batch, 1, 0, NULL);
  sd_unlock(lock);
  publish(participant, "aa");
  expect(sd_publish_rejected(W.d, participant, 0, NULL, 0) == 1,
         "no record found a segment, where the strand has one to spare");
}

static const char *takes_an_idle_strands_segment(void) {
  sd_config c = usual(2, 1, 1);
  c.sizes.record_size = LONG_RECORD;
  c.sizes.n_segments = 2 * 2 * SD_FREE_RUN + 1;
  make(&c, PYTHON, 0, 0);
  /* Two records do not fit, so they are put in strand by strand. */
  W.d->strands[0].capacity = 1;
  return run_script(segment_script);
}

static int comes_next(const record *t, int64_t i, sd_context *ctx) {
  expect(t->nth == W.handled + BLOCKS_OF_B, "a record is missing, or twice");
  return 0;
}

/* b, which is held, has so many segments that there are few for a: it often goes on in its own used one. */
static void dry_script(void *unused, unsigned fiber) {
  uint32_t participant = enter();
  sd_dispatcher_hold(W.d, 1, SD_PAUSED);
  publish(participant, "bbbbb");
  for (int i = 0; i < 20; i++) publish_all(participant, sd_scheduler_random(2) ? "a" : "aa");
  until_handled(W.given - BLOCKS_OF_B);
  stop();
}

static const char *goes_on_when_the_pool_is_dry(void) {
  sd_config c = usual(2, 1, 1);
  c.idle = SD_IDLE_SPIN;
  c.sizes.record_size = LONG_RECORD;
  c.sizes.n_segments = 2 * 2 * SD_FREE_RUN + 1;
  c.capacity = BLOCKS_OF_B;
  make(&c, NATIVE, 0, 0);
  W.each = comes_next;
  add_workers(1);
  return run_script(dry_script);
}

static const char *segments_are_handed_out_once(void) {
  enum { ROUNDS = 400 };
  sd_config c = usual(2, 1, 1);
  uint32_t held[64], n = 0, in_use = 0;
  uint8_t out[64] = {0};
  make(&c, NATIVE, 0, 0);
  const uint32_t segments = c.sizes.n_segments;
  for (int i = 0; i < ROUNDS; i++) {
    sd_segment_cache *cache = &W.d->participants[sd_scheduler_random(2)].cache;
    for (uint32_t j = sd_scheduler_random(6); j; j--) {
      uint32_t segment = sd_segment_get(&W.d->pool, cache);
      if (segment == SD_NONE) break;
      if (segment >= segments || out[segment]++) return "a segment is handed out twice";
      held[n++] = segment;
    }
    for (uint32_t j = sd_scheduler_random(6); j && n; j--) {
      uint32_t pick = sd_scheduler_random(n), segment = held[pick];
      held[pick] = held[--n];
      out[segment] = 0;
      sd_segment_put(&W.d->pool, cache, segment);
    }
  }
  /* What one cache gets, the other may keep as much as it holds of. */
  while (sd_segment_get(&W.d->pool, &W.d->participants[0].cache) != SD_NONE) in_use++;
  return in_use + n + W.d->participants[1].cache.count == segments ? NULL : "a segment is lost";
}

/* ---- the watermark */

static int beyond_the_watermark(const record *t, int64_t i, sd_context *ctx) {
  uint64_t number = ctx->positions ? ctx->positions[i].number : t->nth;
  expect(number >= W.position, "a record is handled that the watermark has passed");
  if (ctx->positions) {
    W.time_of[number] = ctx->positions[i].time;
    expect(number >= W.last_number[t->key], "numbers do not rise along a strand");
    W.last_number[t->key] = number + 1;
  }
  if (W.nesting && sd_scheduler_random(6) == 0) {
    record more = {.key = sd_scheduler_random(3)};
    int64_t in;
    ctx->publish(ctx, &more, 1, &in);
  }
  return W.failing && sd_scheduler_random(6) == 0;
}

static void numbering_publisher(void *unused, unsigned fiber) {
  for (int i = 0; i < 4; i++) {
    static const char *const calls[] = {"a", "ab", "bba", "cab", "aaaa", "cbacb", "abcabc", "ccccccbb"};
    const char *call = calls[sd_scheduler_random(8)];
    uint32_t participant = enter();
    W.time += one_of(0, 3);
    publish_all(participant, call);
    sd_publisher_leave(W.d, participant);
    if (sd_dispatcher_stopping(W.d)) break;
  }
  W.publishing--;
}

/* `number`: all below it are published, or handled; `time`: said to be the feed's time there. */
static void note_look(uint64_t number, uint64_t time) {
  if (W.n_looks == MAX_LOOKS) return;
  W.looks[W.n_looks][0] = number - W.config.sizes.counters_start;
  W.looks[W.n_looks++][1] = time;
}

static void look_at_bounds(void) {
  uint64_t time, number = sd_lowest_unpublished(W.d, &time);
  note_look(number, time);
}

static void bounds_looker(void *unused, unsigned fiber) {
  for (; W.publishing; sd_pause()) look_at_bounds();
}

/* Whether a look said a time that a record from its number on does not reach. */
static const char *looks_are_right(void) {
  for (uint64_t i = 0; i < W.n_looks; i++)
    for (uint64_t number = W.looks[i][0]; number < MAX_NUMBERS; number++)
      if (W.time_of[number] && W.time_of[number] < W.looks[i][1]) return "a bound has a time beyond its number's";
  return NULL;
}

static void watermark_script(void *unused, unsigned fiber) {
  int drained = 0;
  while (!drained) {
    look_at_bounds();
    uint64_t time, watermark = sd_watermark_time(W.d, &time), position = watermark - W.config.sizes.counters_start;
    expect(position >= W.position, "the watermark goes back");
    W.position = position;
    note_look(watermark, time);
    drained = W.publishing == 0 && sd_dispatcher_drain(W.d, SD_NONE, SLICE_NS) == SD_OK;
  }
  for (int i = 0; i < 3; i++) W.position = sd_watermark(W.d);
  expect(!at_rest() || W.position == next_number(), "all is handled and the watermark is not at the end");
  stop();
}

static const char *watermark_holds(void) {
  uint32_t publishers = one_of(1, 2), workers = one_of(1, 2);
  sd_config c = usual(3, workers, publishers);
  /* Without positions no handler sees the numbers. Those of a single publisher are known. */
  c.sizes.has_positions = publishers > 1 || sd_scheduler_random(2);
  c.on_full = (int32_t)(uint32_t[]){SD_BLOCK, SD_BLOCK, SD_DROP_NEWEST, SD_DROP_OLDEST}[sd_scheduler_random(4)];
  c.capacity = one_of(1, 7);
  c.budget_records = one_of(1, 4);
  c.batch_records = one_of(1, 8);
  c.publisher_drains = (int32_t)sd_scheduler_random(2);
  c.one_core = (int32_t)sd_scheduler_random(2);
  int kind = sd_scheduler_random(2) ? PURE : NATIVE;
  make(&c, kind, 0, 0);
  W.each = beyond_the_watermark;
  W.failing = sd_scheduler_random(2) == 0;
  W.nesting = c.sizes.has_positions && kind == NATIVE && sd_scheduler_random(2);
  W.time = 100;
  add_workers(workers);
  for (uint32_t i = 0; i < publishers; i++) sd_scheduler_add(numbering_publisher, NULL);
  W.publishing = publishers;
  sd_scheduler_add(watermark_script, NULL);
  const char *wrong = run();
  sd_totals t;
  sd_dispatcher_totals(W.d, &t);
  /* Numbers may be left out: those that were not given back because others were publishing. */
  if (!wrong && c.sizes.has_positions && t.accepted > next_number() - c.sizes.counters_start)
    wrong = "two records have one number";
  return wrong ? wrong : looks_are_right();
}

static void watermark_reader(void *unused, unsigned fiber) {
  while (W.publishing) {
    const uint64_t position = sd_watermark(W.d) - W.config.sizes.counters_start;
    expect(position >= W.position, "the watermark goes back");
    W.position = position;
  }
  while (!at_rest()) sd_pause();
  stop();
}

/* Without positions a publisher reads the next number, and tells it as its bound a moment later, when others may have handled records
 * beyond it. */
static const char *watermark_never_falls(void) {
  sd_config c = usual(3, 1, 2);
  c.publisher_drains = 1;
  make(&c, NATIVE, 0, 0);
  add_workers(1);
  for (int i = 0; i < 2; i++) sd_scheduler_add(numbering_publisher, NULL);
  W.publishing = 2;
  return run_script(watermark_reader);
}

static void waiting_task_script(void *unused, unsigned fiber) {
  uint32_t participant = enter();
  sd_dispatcher_hold(W.d, 0, SD_PAUSED);
  sd_task_enqueue(W.d, 0, 1, &W.handle);
  publish(participant, "b");
  while (sd_help(W.d, participant)) {
  }
  for (int i = 0; i < 3; i++) W.position = sd_watermark(W.d);
  expect(W.position == next_number(), "a task that waits is taken for a record");
}

static const char *tasks_hold_up_no_watermark(void) {
  sd_config c = usual(2, 1, 1);
  make(&c, NATIVE, 0, 0);
  return run_script(waiting_task_script);
}

/* A publisher that holds a's lock while a handler runs, as the threads of these see it that ask for the watermark. */
static void locked_script(void *unused, unsigned fiber) {
  sd_a32 *lock = &W.d->strands[0].publish_lock;
  uint32_t participant = enter();
  sd_dispatcher_hold(W.d, 0, SD_PAUSED);
  sd_task_enqueue(W.d, 0, 1, &W.handle);
  publish(participant, "ab");
  while (sd_help(W.d, participant)) {
  }
  sd_lock(lock);
  for (int i = 0; i < 3; i++) W.position = sd_watermark(W.d);
  sd_unlock(lock);
  expect(W.position == W.config.sizes.counters_start, "a strand whose publisher is at work is taken for empty");
  /* The round that begins here ends under the lock. */
  sd_watermark(W.d);
  sd_dispatcher_resume(W.d, 0, SD_PAUSED);
  until_handled(2);
  while (!at_rest()) sd_pause();
  sd_dispatcher_hold(W.d, 0, SD_PAUSED);
  sd_task_enqueue(W.d, 0, 1, &W.handle);
  sd_lock(lock);
  W.position = sd_watermark(W.d);
  sd_unlock(lock);
  expect(W.position == next_number(), "a count that is reached is not seen under a publisher's lock");
  sd_dispatcher_resume(W.d, 0, SD_PAUSED);
  stop();
}

static const char *watermark_waits_for_no_publisher(void) {
  sd_config c = usual(2, 1, 1);
  make(&c, NATIVE, 0, 0);
  add_workers(1);
  return run_script(locked_script);
}

/* ---- outputs */

static int emits(const record *t, int64_t i, sd_context *ctx) {
  emission e = {t->nth, {0}};
  return sd_emit(ctx, 0, i, &e);
}

/* Handles records of b until publishers have to wait for the merger. */
static void fill_outputs(uint32_t participant) {
  while (!sd_outputs_full(W.d)) {
    publish(participant, "b");
    while (sd_help(W.d, participant)) {
    }
  }
}

static void merger_script(void *unused, unsigned fiber) {
  uint32_t first = enter(), second = enter();
  record more = {.key = 0};
  fill_outputs(first);
  expect(publish(second, "a") == SD_AGAIN, "a publisher does not wait for the merger");
  /* A handler's call waits for nobody. */
  expect(sd_publish_nested(W.d, 0, &more, 1) == SD_OK, "a handler cannot publish");
  sd_help(W.d, first);
  sd_publish_more(W.d, second, SLICE_NS);
  for (int i = 0; i < 3; i++) W.position = sd_watermark(W.d);
  expect(W.position == next_number(), "a publisher that waits for the merger holds up what was numbered since");
}

static const char *waits_for_the_merger(void) {
  sd_config c = usual(2, 1, 2);
  c.sizes.has_positions = 1;
  make(&c, NATIVE, 0, sizeof(emission));
  W.each = emits;
  return run_script(merger_script);
}

/* A slice of a and b has its numbers when the second publisher takes its lower bound, beyond them, and waits. Then a fails. */
static int fails_beside_another(const record *t, int64_t i, sd_context *ctx) {
  emission e = {0, {0}};
  while (!sd_outputs_full(W.d))
    if (sd_emit(ctx, 0, i, &e)) return 1;
  expect(publish(W.config.sizes.n_workers + 1, "b") == SD_AGAIN, "a publisher does not wait for the merger");
  return 1;
}

static void bounds_script(void *unused, unsigned fiber) {
  uint32_t first = enter();
  enter();
  publish(first, "ab");
  expect(W.d->arena->failures == 1, "nothing is handled in place");
  expect(next_number() == W.config.sizes.counters_start + 2, "numbers below another publisher's bound are given back");
}

static const char *numbers_below_a_bound_stay(void) {
  sd_config c = usual(2, 1, 2);
  c.sizes.has_positions = c.publisher_drains = c.one_core = 1;
  make(&c, PURE, 0, sizeof(emission));
  W.each = fails_beside_another;
  return run_script(bounds_script);
}

static void activating_script(void *unused, unsigned fiber) {
  uint32_t participant = enter();
  /* The first worker is in a visit that ends when all else is handled. */
  sd_dispatcher_activate(W.d, 1);
  publish(participant, "a");
  until_asleep(1);
  while (!W.meeting) sd_pause();
  publish(participant, "bc");
  for (int i = 0; i < 20; i++) sd_pause();
  expect(W.handled == 0, "a worker that is not active takes a strand");
  sd_dispatcher_activate(W.d, 2);
  until_handled(3);
  sd_dispatcher_activate(W.d, 1);
  publish(participant, "c");
  until_handled(4);
  expect(sd_dispatcher_activate(W.d, 0) == SD_E_ARGUMENT, "no worker is active");
  expect(sd_dispatcher_activate(W.d, 3) == SD_E_ARGUMENT, "more workers than there are");
  stop();
}

static int waits_for_the_others(const record *t, int64_t i, sd_context *ctx) {
  W.meeting = 1;
  while (t->key == 0 && W.handled < 2) sd_pause();
  return 0;
}

static const char *activated_workers_come(void) {
  sd_config c = usual(3, 2, 1);
  c.idle = (int32_t)sd_scheduler_random(3);
  make(&c, NATIVE, 0, 0);
  W.each = waits_for_the_others;
  add_workers(2);
  return run_script(activating_script);
}

static int always_fails(const record *t, int64_t i, sd_context *ctx) { return 1; }

static void failing_publisher(void *unused, unsigned fiber) {
  uint32_t participant = enter();
  publish(participant, "ab");
  W.publishing = 0;
}

/* A handler fails in place, which stops the dispatcher, and the numbers behind the record are given back. Whoever looked meanwhile may
 * not say that these are published. */
static const char *numbers_given_back_are_seen(void) {
  sd_config c = usual(2, 1, 2);
  c.sizes.has_positions = c.publisher_drains = c.one_core = 1;
  c.on_error = SD_ON_ERROR_STOP;
  make(&c, PURE, 0, 0);
  W.each = always_fails;
  W.publishing = 1;
  sd_scheduler_add(failing_publisher, NULL);
  sd_scheduler_add(bounds_looker, NULL);
  const char *wrong = run();
  for (uint64_t i = 0; i < W.n_looks && !wrong; i++)
    if (W.looks[i][0] > next_number() - W.config.sizes.counters_start)
      wrong = "a number is published before it is taken";
  return wrong;
}

static void paused_script(void *unused, unsigned fiber) {
  uint32_t participant = enter();
  publish(participant, "b");
  sd_help(W.d, participant);
  sd_dispatcher_hold(W.d, 0, SD_PAUSED);
  publish(participant, "a");
  sd_help(W.d, participant);
  fill_outputs(participant);
  for (int i = 0; i < 3; i++) sd_outputs_round(W.d, SD_FINAL_LIVE);
  expect(W.d->outputs->frontier <= 1, "the merger does not stop before a paused strand's first record");
  sd_dispatcher_hold(W.d, 0, SD_QUARANTINED);
  sd_outputs_round(W.d, SD_FINAL_LIVE);
  expect(W.d->outputs->frontier > 1, "publishers wait for a quarantined strand");
}

static const char *merger_waits_for_paused(void) {
  sd_config c = usual(2, 1, 1);
  c.sizes.has_positions = 1;
  make(&c, NATIVE, 0, sizeof(emission));
  W.each = emits;
  return run_script(paused_script);
}

/* Hands out what there is, and expects emissions to be numbered 0, 1, 2 ... */
static void take(int how, int64_t most) {
  enum { BYTES = SD_MERGED_HEAD + sizeof(emission) };
  unsigned char room[4 * BYTES + 8];
  int64_t n;
  sd_outputs_round(W.d, how);
  do {
    n = sd_outputs_take(W.d, 0, room, most);
    for (int64_t i = 0; i < n; i++) {
      emission e;
      memcpy(&e, room + i * BYTES + SD_MERGED_HEAD, sizeof e);
      expect(e.nth == W.merged++, "not merged in the order in which it was emitted");
    }
  } while (n == most);
}

static int emits_three(const record *t, int64_t i, sd_context *ctx) {
  for (uint64_t j = 0; j < 3; j++) {
    emission e = {3 * t->nth + j, {0}};
    if (sd_emit(ctx, 0, i, &e)) return 1;
  }
  return 0;
}

/* Both participants handle records, and the merger's target has room for at least one record. */
static void three_script(void *unused, unsigned fiber) {
  static const char *const calls[] = {"a", "b", "ab", "ba", "aab"};
  uint32_t participant = enter();
  for (int i = 0; i < 12; i++) {
    publish_all(participant, calls[sd_scheduler_random(5)]);
    while (sd_help(W.d, sd_scheduler_random(2))) {
    }
    if (sd_scheduler_random(2) || sd_outputs_full(W.d)) take(SD_FINAL_LIVE, one_of(1, 4));
  }
  take(SD_FINAL_ALL, one_of(1, 4));
  expect(W.merged == 3 * W.given, "not all that was emitted is merged");
}

static const char *merges_all_of_a_tick(void) {
  sd_config c = usual(2, 1, 1);
  c.sizes.has_positions = 1;
  c.budget_records = one_of(1, 3);
  make(&c, NATIVE, 0, sizeof(emission));
  W.each = emits_three;
  return run_script(three_script);
}

static void end_script(void *unused, unsigned fiber) {
  uint32_t participant = enter();
  publish(participant, "cab");
  while (sd_help(W.d, participant)) {
  }
  take(SD_FINAL_LIVE, 4);
  expect(sd_dispatcher_finish(W.d) == SD_OK, "the end failed");
  take(SD_FINAL_ALL, 2);
  expect(W.merged == 3, "what the end emits is not merged");
}

static const char *merges_what_the_end_emits(void) {
  sd_config c = usual(3, 1, 1);
  c.sizes.has_positions = 1;
  W.finishes = 1;
  make(&c, NATIVE, 0, sizeof(emission));
  return run_script(end_script);
}

/* ---- timers */

/* a's timer is due while a has a record that comes before it: the sweep leaves it to the merger. */
static void left_script(void *unused, unsigned fiber) {
  uint32_t participant = enter();
  W.time = 10;
  publish(participant, "a");
  sd_help(W.d, participant);
  W.time = 12;
  publish(participant, "a");
  W.time = 20;
  publish(participant, "b");
  while (sd_help(W.d, participant)) {
  }
  expect(W.wakes == 0, "a timer was not left to the merger: nothing is tried");
  for (int i = 0; i < 3; i++) sd_outputs_round(W.d, SD_FINAL_LIVE);
  while (sd_help(W.d, participant)) {
  }
  expect(W.wakes, "a timer that was left to the merger never fires");
}

static int asks_for_15(const record *t, int64_t i, sd_context *ctx) {
  if (t->time == 10) ctx->wake_at(ctx, t->key, 15);
  return 0;
}

static const char *merger_looks_for_timers(void) {
  sd_config c = usual(2, 1, 1);
  c.sizes.has_positions = 1;
  make(&c, NATIVE, 1, sizeof(emission));
  W.each = asks_for_15;
  return run_script(left_script);
}

static int asks_and_emits(const record *t, int64_t i, sd_context *ctx) {
  const emission e = {t->nth, {0}};
  if (t->key == 0) ctx->wake_at(ctx, 0, 15);
  return sd_emit(ctx, 0, i, &e);
}

/* a is paused with a timer that is due. All records are final, and those of b are not out: they wait for the timer. */
static void beside_script(void *unused, unsigned fiber) {
  uint32_t participant = enter();
  sd_outputs_tick_bytes(W.d, 4);
  W.time = 10;
  publish(participant, "a");
  sd_help(W.d, participant);
  sd_dispatcher_hold(W.d, 0, SD_PAUSED);
  W.time = 20;
  publish(participant, "bbb");
  while (sd_help(W.d, participant)) {
  }
  for (int i = 0; i < 3; i++) take(SD_FINAL_LIVE, 4);
  expect(W.d->outputs->frontier == 4 && sd_outputs_below(W.d) == 1, "no record waits for a timer: nothing is tried");
  expect(W.d->outputs->beside == 3 * 4, "what the caller keeps for records that wait for a timer does not count");
}

static const char *counts_what_waits_for_timers(void) {
  sd_config c = usual(2, 1, 1);
  c.sizes.has_positions = 1;
  make(&c, NATIVE, 1, sizeof(emission));
  W.each = asks_and_emits;
  return run_script(beside_script);
}

static int asks_if_a(const record *t, int64_t i, sd_context *ctx) {
  if (t->key == 0) ctx->wake_at(ctx, 0, 1);
  return 0;
}

/* a's timer asks for the next ns whenever it fires, and the feed's time is far ahead. */
static void endless_script(void *unused, unsigned fiber) {
  static const char *const records[] = {"b", "ab", "ba", "aab", "aabbab"};
  uint32_t participant = enter();
  sd_totals now;
  W.time = 1;
  publish_all(participant, "a");
  while (!W.handled) {
    sd_dispatcher_drain(W.d, participant, SLICE_NS);
    sd_pause();
  }
  W.time = 1000000000;
  publish(participant, records[sd_scheduler_random(5)]);
  while (W.working && !W.handled_of[1]) {
    expect(sd_dispatcher_drain(W.d, participant, SLICE_NS) == SD_AGAIN, "drained while timers are due");
    sd_pause();
  }
  /* Other threads look for timers again and again. */
  for (int i = 0; i < 8; i++) {
    sd_overdue_scan(W.d);
    sd_dispatcher_drain(W.d, participant, SLICE_NS);
  }
  sd_task_totals tasks;
  sd_tasks_total(W.d, 1, &tasks);
  expect(tasks.submitted - tasks.ended <= 2, "overdue alarms heap up on a strand");
  sd_publisher_leave(W.d, participant);
  participant = enter();
  W.time++;
  publish(participant, "aaaaaaab");
  sd_publisher_leave(W.d, participant);
  expect(W.handled_of[0] == 1, "a record is handled before a timer that comes before it");
  sd_dispatcher_totals(W.d, &now);
  expect(now.lost == 0, "a record is lost");
  stop();
}

static const char *endless_timers_leave_others_their_turn(void) {
  static const int32_t bounds[] = {SD_BLOCK, SD_DROP_NEWEST, SD_DROP_OLDEST, SD_CONFLATE};
  sd_config c = usual(2, 1, 1);
  c.sizes.has_positions = 1;
  c.budget_ns = one_of(30, 300);
  c.batch_records = one_of(1, 8);
  c.ahead_records = one_of(0, 2);
  c.capacity = one_of(4, 5);
  c.on_full = bounds[sd_scheduler_random(4)];
  c.publisher_drains = (int32_t)sd_scheduler_random(2);
  make(&c, sd_scheduler_random(2) ? PURE : NATIVE, 1, 0);
  W.each = asks_if_a;
  W.endless = 1;
  /* Else the publisher drains alone, and its calls have an end nevertheless. */
  if (!c.publisher_drains || sd_scheduler_random(2)) add_workers(1);
  return run_script(endless_script);
}

/* A record has its own time, which no timer of its symbol has passed. */
static int asks_again(const record *t, int64_t i, sd_context *ctx) {
  const uint64_t time = ctx->positions[i].time;
  expect(time >= W.woken[t->key], "a record is handled behind a timer that it comes before");
  expect(W.n_publishers > 1 || time == t->time, "a record has a later time than its own");
  W.time_of[ctx->positions[i].number] = time;
  ctx->wake_at(ctx, t->key, (int64_t)time + one_of(1, 3));
  return 0;
}

/* Calls of one to six records. Now and then time takes a leap, in which a timer fires so often that a publisher that handles
 * records inline stops before the record. */
static void leaping_publisher(void *unused, unsigned fiber) {
  uint32_t participant = enter();
  for (int i = 0; i < 3; i++) {
    char symbols[7] = {0};
    for (uint32_t j = 0, n = one_of(1, 6); j < n; j++) symbols[j] = (char)('a' + sd_scheduler_random(2));
    const void *records = records_of(participant, symbols);
    for (size_t j = 0; symbols[j]; j++)
      ((record *)records)[j].time = W.time += sd_scheduler_random(4) ? one_of(0, 3) : 50;
    /* Another publisher, of later records, may be first: until it stops among its timers. */
    const uint64_t wakes = W.wakes;
    for (uint32_t pauses = sd_scheduler_random(2) * 60; pauses && W.wakes == wakes; pauses--) sd_pause();
    for (uint64_t seen = wakes; W.wakes != seen; sd_pause()) seen = W.wakes;
    int code = sd_publish(W.d, participant, records, (int64_t)strlen(symbols), SLICE_NS);
    while (code == SD_AGAIN) {
      sd_pause();
      code = sd_publish_more(W.d, participant, SLICE_NS);
    }
  }
  sd_publisher_leave(W.d, participant);
  if (--W.publishing) return;
  while (sd_dispatcher_drain(W.d, SD_NONE, SLICE_NS) == SD_AGAIN) sd_pause();
  stop();
}

static void moves_time(void *unused, unsigned fiber) {
  for (uint64_t now = 0; W.publishing; sd_pause()) {
    const uint64_t to = W.time + sd_scheduler_random(8);
    sd_publish_time(W.d, to);
    expect(sd_feed_time(W.d) >= to && sd_feed_time(W.d) >= now, "the feed's time goes back");
    now = sd_feed_time(W.d);
    for (uint32_t pauses = sd_scheduler_random(100); pauses && W.publishing; pauses--) sd_pause();
  }
}

static const char *records_among_timers(int moves) {
  sd_config c = usual(2, 1, one_of(1, 3));
  c.sizes.n_strands = one_of(1, 2);
  c.sizes.has_positions = 1;
  c.publisher_drains = c.one_core = 1;
  c.batch_records = one_of(1, 4);
  make(&c, PURE, 1, 0);
  W.each = asks_again;
  W.endless = 1;
  add_workers(1);
  W.publishing = c.sizes.n_publishers;
  W.n_publishers = W.publishing + (uint32_t)moves;
  for (uint32_t i = 0; i < W.publishing; i++) sd_scheduler_add(leaping_publisher, NULL);
  if (moves) sd_scheduler_add(moves_time, NULL);
  sd_scheduler_add(bounds_looker, NULL);
  const char *wrong = run();
  return wrong ? wrong : looks_are_right();
}

static const char *records_keep_their_place_among_timers(void) { return records_among_timers(0); }

static const char *time_moves_beside_publishers(void) { return records_among_timers(1); }

/* Without a merger, and when all is at rest: nobody asks for anything any more. */
static void rests_with_timers(void *unused, unsigned fiber) {
  while (W.publishing || !at_rest()) sd_pause();
  until_asleep(W.working);
  for (uint32_t strand = 0; strand < W.config.sizes.n_strands; strand++) {
    const sd_alarm_tree t = sd_alarm_tree_of(&W.d->alarms, strand);
    expect(at_rest() && sd_alarm_next(&t) > sd_feed_time(W.d), "a timer is due, and nobody comes for it");
  }
  stop();
}

static void short_publisher(void *unused, unsigned fiber) {
  const uint32_t participant = enter();
  for (int i = 0; i < 3; i++) {
    for (uint32_t pauses = sd_scheduler_random(60); pauses; pauses--) sd_pause();
    W.time += one_of(0, 3);
    publish_all(participant, sd_scheduler_random(2) ? "ab" : "a");
  }
  sd_publisher_leave(W.d, participant);
  W.publishing--;
}

static void short_mover(void *unused, unsigned fiber) {
  for (int i = 0; i < 4; i++) {
    for (uint32_t pauses = sd_scheduler_random(60); pauses; pauses--) sd_pause();
    sd_publish_time(W.d, W.time + sd_scheduler_random(8));
  }
  W.publishing--;
}

static const char *due_timers_wait_for_nobody(void) {
  sd_config c = usual(2, one_of(1, 2), one_of(1, 2));
  c.sizes.n_strands = one_of(1, 2);
  c.sizes.has_positions = 1;
  c.publisher_drains = (int32_t)sd_scheduler_random(2);
  make(&c, sd_scheduler_random(2) ? PURE : NATIVE, 1, 0);
  W.each = asks_again;
  W.endless = (int)sd_scheduler_random(2);
  W.n_publishers = 2;
  W.publishing = c.sizes.n_publishers + 1;
  add_workers(c.sizes.n_workers);
  for (uint32_t i = 0; i < c.sizes.n_publishers; i++) sd_scheduler_add(short_publisher, NULL);
  sd_scheduler_add(short_mover, NULL);
  return run_script(rests_with_timers);
}

static void time_script(void *unused, unsigned fiber) {
  const uint32_t participant = enter();
  W.time = 10;
  publish_all(participant, "a");
  sd_publisher_leave(W.d, participant);
  while (!at_rest()) sd_pause();
  expect(W.wakes == 0, "a timer fires before its time");
  sd_publish_time(W.d, 20);
  while (W.wakes == 0) sd_pause();
  sd_publish_time(W.d, 15);
  expect(sd_feed_time(W.d) == 20, "the feed's time goes back");
  stop();
}

static const char *time_fires_timers(void) {
  sd_config c = usual(1, 1, 1);
  c.sizes.has_positions = 1;
  make(&c, NATIVE, 1, 0);
  W.each = asks_again;
  add_workers(1);
  return run_script(time_script);
}

/* The tree of a strand against a plain list. */
static const char *alarm_trees_are_right(void) {
  static const uint32_t strand_of[SYMBOLS] = {0, 1, 0, 0, 1, 0, 0, 0};
  static _Alignas(SD_LINE) sd_a64 nodes[2 * SYMBOLS + 2 * SD_LINE / 8];
  sd_alarm_span span[2] = {0};
  sd_alarm_place place[SYMBOLS];
  uint32_t symbols[SYMBOLS];
  const sd_alarms alarms = {span, place, symbols, nodes};
  uint64_t plain[SYMBOLS];
  const char *wrong = NULL;
  if (sd_alarm_nodes(SYMBOLS, 2) > sizeof nodes / sizeof *nodes) abort();
  sd_alarms_start(&alarms, strand_of, SYMBOLS, 2);
  for (int i = 0; i < SYMBOLS; i++) plain[i] = SD_NEVER;
  for (int i = 0; i < 400 && !wrong; i++) {
    const uint32_t key = sd_scheduler_random(SYMBOLS), strand = strand_of[key];
    const uint64_t time = sd_scheduler_random(30);
    const sd_alarm_tree tree = sd_alarm_tree_of(&alarms, strand), *t = &tree;
    uint64_t least = SD_NEVER;
    uint32_t leaf[SYMBOLS], due = 0;
    plain[key] = sd_scheduler_random(3) ? one_of(1, 40) : SD_NEVER;
    sd_alarm_set(t, alarms.place[key].leaf, plain[key]);
    for (uint32_t j = 0; j < SYMBOLS; j++) {
      if (strand_of[j] != strand) continue;
      if (plain[j] < least) least = plain[j];
      due += plain[j] <= time;
    }
    if (sd_alarm_next(t) != least) wrong = "the root is not the earliest alarm";
    else if (sd_alarm_at(t, sd_alarm_first(t)) != least) wrong = "the first leaf is not the earliest alarm";
    else if (sd_alarm_due(t, time, leaf, SYMBOLS) != due) wrong = "not all alarms that are due are found";
  }
  return wrong;
}

static int asks_to_be_woken(const record *t, int64_t i, sd_context *ctx) {
  if (sd_scheduler_random(3)) ctx->wake_at(ctx, t->key, ctx->positions[i].time + one_of(1, 4));
  return 0;
}

static void looks(void *unused, unsigned fiber) {
  while (W.publishing) sd_overdue_scan(W.d);
  while (!at_rest()) sd_pause();
  stop();
}

static void ticking_publisher(void *unused, unsigned fiber) {
  uint32_t participant = enter();
  for (int i = 0; i < 12; i++) {
    W.time += one_of(1, 4);
    publish(participant, sd_scheduler_random(4) ? "a" : "b");
  }
  W.publishing--;
}

/* Looks for timers that are due, as a drain does, or as the merger and publishers do. */
static void sweeper(void *unused, unsigned fiber) {
  while (!W.meeting) sd_pause();
  if (sd_scheduler_random(2)) sd_overdue_sweep(W.d);
  else sd_overdue_scan(W.d);
  W.swept++;
}

/* Of two looks one waits for the publisher of a strand; the other one does not wait for that. */
static void held_publisher_script(void *unused, unsigned fiber) {
  uint32_t participant = enter();
  publish(participant, "ab");
  while (sd_help(W.d, participant)) {
  }
  sd_a32 *lock = &W.d->strands[sd_scheduler_random(2)].publish_lock;
  sd_lock(lock);
  sd_store(&W.d->arena->feed_time, 20, relaxed, X1);
  W.meeting = 1;
  while (!W.swept) sd_pause();
  sd_unlock(lock);
}

static const char *looks_wait_for_no_other(void) {
  sd_config c = usual(2, 1, 1);
  c.sizes.has_positions = 1;
  make(&c, NATIVE, 1, 0);
  W.each = asks_for_15;
  W.time = 10;
  sd_scheduler_add(held_publisher_script, NULL);
  for (int i = 0; i < 2; i++) sd_scheduler_add(sweeper, NULL);
  return run();
}

static const char *looks_for_alarms(void) {
  sd_config c = usual(2, 2, 1);
  c.sizes.has_positions = 1;
  make(&c, NATIVE, 1, 0);
  W.each = asks_to_be_woken;
  add_workers(2);
  W.publishing = 1;
  sd_scheduler_add(ticking_publisher, NULL);
  sd_scheduler_add(looks, NULL);
  const char *wrong = run();
  if (wrong) return wrong;
  for (uint32_t i = 0; i < 2; i++) /* An overdue alarm may be under way when all stops. */
    if (!sd_load(&W.d->overdue_until[i], relaxed, X1) && sd_load(&sd_alarm_tree_of(&W.d->alarms, i).node[1], relaxed,
                                                                 X1) < sd_load(&W.d->arena->next_alarm, relaxed, X1))
      return "an alarm that nobody would look for";
  return NULL;
}

/* ---- bounds over strands */

/* What waits on each symbol's strand. */
static int waiting(const char *of) {
  for (uint32_t i = 0; of[i]; i++) {
    sd_inspection k;
    sd_strand_inspect(W.d, i, &k);
    if (k.pending != of[i] - '0') return 0;
  }
  return 1;
}

/* Nobody rises, and nobody but whoever helps drains. */
static sd_config sheds(uint32_t strands, uint64_t total_capacity) {
  sd_config c = usual(strands, 1, 2);
  c.policy.number = SD_LEVELS;
  for (uint32_t i = SD_HIGH; i < SD_LEVEL_COUNT; i++) c.policy.levels.timeout_ns[i] = UINT64_MAX;
  c.total_capacity = total_capacity;
  c.on_full = SD_SHED;
  return c;
}

/* a and d are low, b is normal, c is high. */
static void shed_script(void *unused, unsigned fiber) {
  static const uint32_t level[] = {SD_LOW, SD_NORMAL, SD_HIGH, SD_LOW};
  const uint32_t participant = enter();
  for (uint32_t i = 0; i < 4; i++) sd_dispatcher_prioritise(W.d, i, level[i], 0);
  publish(participant, "aabbd");
  expect(waiting("2201"), "what there is room for does not go in");
  publish(participant, "bc");
  expect(waiting("1310"), "what came last of the lowest level is not shed first");
  publish(participant, "ab");
  expect(waiting("0410"), "normal does not shed low, or low goes in although nothing lower is pending");
  publish(participant, "bcccccc");
  expect(waiting("0050"), "the highest level does not go in first, or does not shed all lower ones");
  publish(participant, "bc");
  expect(waiting("0050"), "a level sheds itself, or a higher one");
  while (sd_help(W.d, participant)) sd_pause();
  publish(participant, "dd");
  sd_task_enqueue(W.d, 0, 1, &W.handle);
  publish(participant, "aaa");
  publish(participant, "c");
  expect(waiting("3011"), "what waits behind a task is shed, or no other strand of the level is");
  publish(participant, "cc");
  expect(waiting("3020"), "what waits behind a task is shed after all others");
  sd_totals t;
  sd_dispatcher_totals(W.d, &t);
  expect(t.accepted == 26 && t.pending == 5, "a record is not counted");
  expect(t.dropped[SD_DROPPED_SHED] == 9 && t.dropped[SD_DROPPED_NEWEST] == 7, "drops are counted for another reason");
  expect(t.dropped_at[SD_LOW] == 6 && t.dropped_at[SD_NORMAL] == 6 && t.dropped_at[SD_HIGH] == 4,
         "drops are counted for another level");
  uint32_t strand;
  char what[128];
  expect(!sd_dispatcher_verify(W.d, &strand, what), "a strand that could not be shed is lost");
}

static const char *sheds_the_lowest_first(void) {
  const sd_config c = sheds(4, 5);
  make(&c, NATIVE, 0, 0);
  return run_script(shed_script);
}

/* a and b are low, and became ready together; c is high. */
static void sheds_the_same_script(void *unused, unsigned fiber) {
  const uint32_t participant = enter();
  sd_dispatcher_prioritise(W.d, 0, SD_LOW, 0);
  sd_dispatcher_prioritise(W.d, 1, SD_LOW, 0);
  sd_dispatcher_prioritise(W.d, 2, SD_HIGH, 0);
  publish(participant, "aabb");
  publish(participant, "c");
  expect(waiting("211"), "what came last is not shed");
  publish(participant, "c");
  expect(waiting("202"), "a strand of which something was shed has moved on its list");
}

static const char *sheds_the_same_again(void) {
  const sd_config c = sheds(3, 4);
  make(&c, NATIVE, 0, 0);
  return run_script(sheds_the_same_script);
}

/* a is low. b is high, and full by itself. */
static void full_script(void *unused, unsigned fiber) {
  const uint32_t participant = enter();
  sd_dispatcher_prioritise(W.d, 0, SD_LOW, 0);
  sd_dispatcher_prioritise(W.d, 1, SD_HIGH, 0);
  publish(participant, "bbaa");
  publish(participant, "bb");
  expect(waiting("13"),
         "a strand does not get what it has a place for, or low makes room for what a full strand drops");
}

static const char *sheds_for_no_full_strand(void) {
  sd_config c = sheds(2, 4);
  c.capacity = 3;
  make(&c, NATIVE, 0, 0);
  return run_script(full_script);
}

/* Both are low. b was raised for a backlog that is gone; a has had a call, and no record so far. */
static void level_script(void *unused, unsigned fiber) {
  const uint32_t participant = enter();
  for (uint32_t i = 0; i < 2; i++) sd_dispatcher_prioritise(W.d, i, SD_LOW, 0);
  publish(participant, "b");
  sd_dispatcher_prioritise(W.d, 1, SD_HIGH, 1);
  while (sd_help(W.d, participant)) sd_pause();
  publish(participant, "bb");
  expect(waiting("01"), "a strand counts to the level that it was raised to for its last backlog");
  while (sd_help(W.d, participant)) sd_pause();
  sd_task_enqueue(W.d, 0, 1, &W.handle);
  publish(participant, "aa");
  expect(waiting("10"), "a strand whose call came before its first record counts to no level of its own");
}

static const char *counts_to_its_level(void) {
  sd_config c = sheds(2, 0);
  c.on_full = SD_DROP_NEWEST;
  c.level_capacity[SD_LOW] = 1;
  make(&c, NATIVE, 0, 0);
  return run_script(level_script);
}

static void looks_at_a(void *unused, unsigned fiber) {
  while (W.publishing) {
    sd_inspection k;
    sd_strand_inspect(W.d, 0, &k);
    expect((int64_t)k.handled >= 0, "fewer records than none are handled");
    sd_pause();
  }
}

static void sheds_a(void *unused, unsigned fiber) {
  const uint32_t participant = enter();
  sd_dispatcher_prioritise(W.d, 0, SD_LOW, 0);
  publish(participant, "aaaa");
  for (int i = 0; i < 4; i++) publish(participant, "b");
  W.publishing = 0;
}

static const char *shed_is_counted_in_order(void) {
  const sd_config c = sheds(2, 4);
  make(&c, NATIVE, 0, 0);
  W.publishing = 1;
  sd_scheduler_add(sheds_a, NULL);
  return run_script(looks_at_a);
}

/* Of a, the two oldest are shed: 0 and 1. b is handled first. */
static int keeps_order(const record *t, int64_t i, sd_context *ctx) {
  expect(t->key == 1 ? W.handled < 2 : t->nth == W.handled, "what is shed is not the oldest");
  return 0;
}

static void sheds_oldest(void *unused, unsigned fiber) {
  const uint32_t participant = enter();
  sd_dispatcher_prioritise(W.d, 0, SD_LOW, 0);
  publish(participant, "aaaa");
  publish(participant, "bb");
  while (sd_help(W.d, participant)) sd_pause();
  expect(W.handled_of[0] == 2 && W.handled_of[1] == 2, "not all that is left is handled");
  expect(sd_watermark(W.d) == next_number(), "the watermark stops at what was shed");
}

static const char *sheds_the_oldest(void) {
  const sd_config c = sheds(2, 4);
  make(&c, NATIVE, 0, 0);
  W.each = keeps_order;
  return run_script(sheds_oldest);
}

/* The sleeper has registered, and looked at the lists while a, which is low, was not listed. b is listed already. */
static void shed_wakes_script(void *unused, unsigned fiber) {
  const uint32_t participant = enter();
  sd_dispatcher_prioritise(W.d, 0, SD_LOW, 0);
  sd_dispatcher_prioritise(W.d, 1, SD_HIGH, 0);
  publish(participant, "aab");
  const uint32_t epoch = sd_idle_enter(&W.d->arena->idle);
  publish(participant, "b");
  expect(waiting("12"), "the lowest level does not make room: nothing is tried");
  expect(sd_load(&W.d->arena->idle.epoch, relaxed, X1) != epoch, "nobody is woken for what is left of what was shed");
}

static const char *wakes_for_what_is_not_shed(void) {
  const sd_config c = sheds(2, 3);
  make(&c, NATIVE, 0, 0);
  return run_script(shed_wakes_script);
}

/* ---- tasks */

/* A task whose function is told, once, how it ended. */
static void is_told(sd_task_context *ctx, void *argument, int why) {
  note *n = argument;
  expect(!n->refused && !n->told, "a task is told twice how it ended, or although it was refused");
  n->told = ++W.n_told;
  n->why = why;
  sd_schedule_point("task");
}

/* Submits it as a guest, or through the context of a task or worker. NULL: it was refused. */
static note *submit_note(sd_task_context *from, sd_task_spec spec) {
  note *n = &W.notes[W.n_notes++];
  expect(W.n_notes <= MAX_NOTES, "too many notes");
  spec.fn = is_told;
  spec.argument = n;
  const int64_t done = from ? from->submit(from, &spec, 1) : sd_tasks_submit(W.d, &spec, 1);
  expect(done == 0 || done == 1 || done == SD_E_STOPPED, "a task is refused for no reason");
  n->handle = spec.handle;
  n->refused = done != 1;
  expect(!n->refused || !n->told, "a task was refused, and told nevertheless");
  return n->refused ? NULL : n;
}

static uint32_t taken_from_a_list(void) {
  uint32_t entry = SD_NONE;
  const sd_policy *policy = W.d->policy;
  if (policy->next) return policy->next(&W.d->ready, 0, SD_NONE_DEFERRED, sd_now(), NULL, NULL);
  for (uint32_t i = 0; i < W.d->n_workers && entry == SD_NONE; i++) policy->pick(&W.d->ready, i, &entry, 1, 4);
  return entry;
}

static void expect_verified(void) {
  static char what[128];
  uint32_t strand;
  if (sd_dispatcher_verify(W.d, &strand, what)) sd_scheduler_fail(what);
}

static sd_config usual_of(int32_t policy, uint32_t strands, uint32_t workers) {
  sd_config c = usual(strands, workers, 1);
  c.policy = (sd_policy_config){.number = policy,
                                .levels = {.timeout_ns = {0, UINT64_MAX, UINT64_MAX, UINT64_MAX, UINT64_MAX}},
                                .aging = {.coefficient = {1}, .n_classes = 1},
                                .fair = {1000000, 1000000, 0}};
  c.sizes.n_tasks = 8;
  return c;
}

static void elsewhere_script(void *unused, unsigned fiber) {
  const uint32_t participant = enter();
  sd_task_spec free_task = {.tag = 7, .key = SD_NO_KEY, .priority = SD_USUAL_PRIORITY};
  expect(sd_task_enqueue(W.d, 1, 1, &W.handle) == SD_OK && sd_tasks_submit(W.d, &free_task, 1) == 1, "no place");
  for (uint64_t n = 4; n <= 20; n += 4) {
    publish(participant, "aaaa");
    expect(W.handled == n, "a task on another strand, or a free one, keeps a strand from being run in place");
  }
  expect(sd_peek(&W.d->participants[participant].counters.waited) == 0, "a publisher waits for a task elsewhere");
}

static const char *inline_beside_tasks_elsewhere(void) {
  sd_config c = usual(2, 1, 1);
  c.publisher_drains = c.one_core = 1;
  make(&c, PURE, 0, 0);
  return run_script(elsewhere_script);
}

/* One that takes the first of equal tasks first. */
static int32_t some_policy(void) { return (int32_t)sd_scheduler_random(SD_FAIR + 1); }

/* Each task takes longer. */
enum { SHORT_SLICE_NS = 1 };

/* An entry is used with a priority, group and marks of its own, and then again with the usual ones. It has to come before or behind another
 * one as a task that is usual does, is not held back, and is charged to its own group. */
static void recycled_script(void *unused, unsigned fiber) {
  static const uint32_t best[] = {0, SD_IMMEDIATE, SD_AGING_USUAL + 1000, 1},
                        good[] = {0, SD_HIGH, SD_AGING_USUAL + 500, 0}, worst[] = {0, SD_LOW, SD_AGING_USUAL - 1000, 1};
  const int32_t policy = W.config.policy.number;
  sd_task_context self = {.engine = W.d, .participant = 0, .submit = sd_submit_from_task};
  sd_group_counts before[2], after[2];
  sd_fair_counts all;
  for (int how = 0; how < 6; how++) {
    const int is_best = how & 1;
    sd_task_spec spec = {.key = SD_NO_KEY, .marks = SD_MARK_IO, .within_ns = how / 2 == 2};
    spec.priority = policy == SD_FIFO ? SD_USUAL_PRIORITY : is_best ? best[policy] : worst[policy];
    const note *first = submit_note(&self, spec);
    if (how / 2 == 1) expect(sd_task_give_up(W.d, first->handle) == SD_OK, "a task that waits cannot be given up");
    for (int i = 0; i < 3; i++) sd_pause();
    while (sd_help(W.d, 0)) sd_pause();
    expect(first->why == how / 2, "a task ended otherwise than it should");
    const note *second = submit_note(&self, (sd_task_spec){.key = SD_NO_KEY, .priority = SD_USUAL_PRIORITY});
    expect((uint32_t)second->handle == (uint32_t)first->handle, "another entry is used: nothing is tried");
    const uint32_t other = policy == SD_FIFO || !is_best ? SD_USUAL_PRIORITY : good[policy];
    const note *third = submit_note(&self, (sd_task_spec){.key = SD_NO_KEY, .priority = other});
    if (policy == SD_LEVELS) hold_back(1u << SD_IO);
    if (policy == SD_FAIR) sd_dispatcher_group_counts(W.d, 2, before, &all);
    while (sd_help(W.d, 0)) sd_pause();
    expect(second->told && third->told, "a task is held back by marks that its entry had before");
    expect(second->why == SD_TASK_RUN, "a task ends as its entry's last one did");
    const int other_first = is_best && (policy == SD_LEVELS || policy == SD_AGING);
    expect((third->told < second->told) == other_first, "a task has the priority that its entry had before");
    if (policy == SD_LEVELS) hold_back(0);
    if (policy != SD_FAIR) continue;
    sd_dispatcher_group_counts(W.d, 2, after, &all);
    expect(after[0].on_cpu_ns > before[0].on_cpu_ns && after[1].on_cpu_ns == before[1].on_cpu_ns,
           "a task is charged to its entry's last group");
    expect(after[0].long_stretches == before[0].long_stretches + 2 && after[0].longest_ns > SHORT_SLICE_NS &&
               after[1].long_stretches == before[1].long_stretches &&
               after[0].long_stretches + after[1].long_stretches == all.long_stretches,
           "a task that took longer than a slice is not counted with its group");
  }
}

static const char *recycled_entries_keep_nothing(void) {
  sd_config c = usual_of(some_policy(), 2, 1);
  c.policy.fair.slice_ns = SHORT_SLICE_NS;
  make(&c, NATIVE, 0, 0);
  return run_script(recycled_script);
}

/* A worker has taken a task and has not begun it. Then the task is given up, or gets another priority. */
static void taken_script(void *unused, unsigned fiber) {
  const sd_task_spec free_task = {.key = SD_NO_KEY, .priority = SD_USUAL_PRIORITY};
  const uint32_t priority = W.config.policy.number == SD_AGING ? SD_AGING_USUAL + 5 : 1;
  sd_py_batch batch;
  sd_task_totals t;
  uint64_t ahead;
  for (int how = 0; how < 3; how++) {
    const note *n = submit_note(NULL, free_task);
    const uint32_t entry = taken_from_a_list();
    expect(entry != SD_NONE && sd_is_task(W.d, entry), "a task is not listed");
    if (how == 2 && W.d->policy->prioritise)
      expect(sd_task_prioritise(W.d, n->handle, priority) == SD_OK, "a task that was taken cannot be changed");
    if (how) expect(sd_task_give_up(W.d, n->handle) == SD_OK, "a task that was taken cannot be given up");
    sd_run_free_task(W.d, 0, entry, &batch);
    expect(n->told && n->why == (how ? SD_TASK_CANCELLED : SD_TASK_RUN), "it is not told how it ended");
    expect(sd_task_give_up(W.d, n->handle) == SD_AGAIN, "a task that is over is given up");
  }
  sd_task_spec pythons = {.tag = 7, .key = SD_NO_KEY, .priority = SD_USUAL_PRIORITY};
  expect(sd_tasks_submit(W.d, &pythons, 1) == 1, "no place for a task");
  const uint32_t entry = taken_from_a_list();
  expect(sd_task_give_up(W.d, pythons.handle) == SD_OK, "a task of Python's that was taken cannot be given up");
  expect(!sd_run_free_task(W.d, 0, entry, &batch), "a task of Python's that was given up runs");
  const note *n = submit_note(NULL, (sd_task_spec){.key = 0});
  const uint32_t strand = taken_from_a_list();
  expect(sd_own(W.d, 0, strand) && sd_task_give_up(W.d, n->handle) == SD_OK, "a strand's task cannot be given up");
  expect(sd_take_task(W.d, 0, strand, &batch, &ahead) == TASK_GONE && n->why == SD_TASK_CANCELLED, "it is not told");
  sd_tasks_total(W.d, 0, &t);
  expect(t.submitted == 4 && t.ended == 4 && t.cancelled == 4, "a task that was given up is not counted");
  uint64_t again;
  expect(sd_task_enqueue(W.d, 1, 8, &W.handle) == SD_OK && sd_task_give_up(W.d, W.handle) == SD_OK, "no place");
  expect(sd_task_enqueue(W.d, 1, 9, &again) == SD_OK && (uint32_t)again == (uint32_t)W.handle, "it is not used again");
  sd_tasks_total(W.d, 1, &t);
  expect(t.submitted == 3 && t.ended == 2 && t.cancelled == 5,
         "a task in whose place another one comes is not counted");
  expect_verified();
}

static const char *given_up_when_taken(void) {
  const sd_config c = usual_of(some_policy(), 2, 1);
  make(&c, NATIVE, 0, 0);
  return run_script(taken_script);
}

static void submits_until_stopped(void *unused, unsigned fiber) {
  for (int i = 0; i < 12; i++) {
    sd_task_spec spec = {.key = sd_scheduler_random(2) ? SD_NO_KEY : sd_scheduler_random(2)};
    spec.priority = SD_USUAL_PRIORITY;
    const note *n = submit_note(NULL, spec);
    if (n && sd_scheduler_random(4) == 0) sd_task_give_up(W.d, n->handle);
  }
  W.publishing--;
}

/* It stops the tasks while others submit. */
static void stopper(void *unused, unsigned fiber) {
  for (uint32_t i = sd_scheduler_random(40); i; i--) sd_pause();
  stop();
  sd_tasks_stop(W.d);
  sd_tasks_stop(W.d);
  const uint64_t told = W.n_told;
  while (W.publishing) sd_pause();
  expect(W.n_told == told, "a function is told after the end");
  for (uint32_t i = 0; i < W.n_notes; i++)
    expect(W.notes[i].refused || W.notes[i].told, "a function is not told how its task ended");
  expect(submit_note(NULL, (sd_task_spec){.key = SD_NO_KEY, .priority = SD_USUAL_PRIORITY}) == NULL,
         "a task is submitted after the end");
  expect_verified();
}

static const char *stops_while_others_submit(void) {
  const sd_config c = usual_of(some_policy(), 2, one_of(1, 2));
  make(&c, NATIVE, 0, 0);
  add_workers(c.sizes.n_workers);
  W.publishing = one_of(1, 3);
  for (uint32_t i = 0; i < W.publishing; i++) sd_scheduler_add(submits_until_stopped, NULL);
  return run_script(stopper);
}

/* The table is full, free again, and full again, with entries that threads of all kinds took. */
static void full_table_script(void *unused, unsigned fiber) {
  sd_task_context self = {.engine = W.d, .participant = 0, .submit = sd_submit_from_task};
  const uint32_t participant = enter();
  for (int round = 0; round < 4; round++) {
    uint32_t n = 0;
    W.n_notes = W.n_told = 0;
    memset(W.notes, 0, sizeof W.notes);
    for (int full = 0; !full;) {
      sd_task_spec spec = {.key = sd_scheduler_random(3) ? SD_NO_KEY : sd_scheduler_random(2)};
      spec.priority = SD_USUAL_PRIORITY;
      full = !submit_note(round % 2 ? &self : NULL, spec);
      n += !full;
    }
    expect(n >= W.config.sizes.n_tasks, "the table has fewer places than there should be, or loses some");
    expect(n <= W.d->tasks.list->n, "the table has more places than entries");
    expect(sd_task_enqueue(W.d, 0, 1, &W.handle) == SD_AGAIN || round % 2, "a full table takes a task");
    while (sd_help(W.d, sd_scheduler_random(2) ? participant : 0)) sd_pause();
    for (uint32_t i = 0; i < W.n_notes; i++) expect(W.notes[i].refused || W.notes[i].told, "a task has not run");
    expect_verified();
  }
}

static const char *full_tables_become_free(void) {
  const sd_config c = usual_of(some_policy(), 2, 1);
  make(&c, NATIVE, 0, 0);
  return run_script(full_table_script);
}

/* A task that submits others, so many levels deep, free or on a strand. */
static void goes_on(sd_task_context *ctx, void *argument, int why) {
  uint32_t depth;
  memcpy(&depth, argument, sizeof depth);
  sd_schedule_point("task");
  W.tasks++;
  for (uint32_t i = depth ? one_of(1, 2) : 0; i; i--) {
    const uint32_t left = depth - 1;
    sd_task_spec spec = {.fn = goes_on, .argument = &left, .argument_bytes = sizeof left};
    spec.key = sd_scheduler_random(3) ? SD_NO_KEY : sd_scheduler_random(2);
    spec.priority = SD_USUAL_PRIORITY;
    const int64_t done = ctx->submit(ctx, &spec, 1);
    expect(done == 1 || done == 0, "a task cannot submit another one");
    W.given += (uint64_t)done;
  }
}

static void drains_tasks_script(void *unused, unsigned fiber) {
  for (int i = 0; i < 4; i++) {
    const uint32_t depth = one_of(1, 3);
    sd_task_spec spec = {.fn = goes_on, .argument = &depth, .argument_bytes = sizeof depth, .key = SD_NO_KEY};
    spec.priority = SD_USUAL_PRIORITY;
    W.given++;
    expect(sd_tasks_submit(W.d, &spec, 1) == 1, "no place for a task");
    while (sd_dispatcher_drain(W.d, SD_NONE, SLICE_NS)) sd_pause();
    expect(W.tasks == W.given, "drained, but a task that a task submitted has not run");
  }
  stop();
  expect_verified();
}

static const char *drains_what_tasks_submit(void) {
  sd_config c = usual_of(some_policy(), 2, one_of(1, 3));
  c.sizes.n_tasks = 64;
  make(&c, NATIVE, 0, 0);
  add_workers(c.sizes.n_workers);
  return run_script(drains_tasks_script);
}

/* With one list and one priority, tasks of Python's begin in the order of their submits, whatever a publisher that helps takes between them. */
static void ordered_worker(void *unused, unsigned fiber) {
  sd_py_batch batch;
  while (sd_worker_next(W.d, 0, &batch) == SD_PY_TASK) {
    expect(batch.task == ++W.tasks, "a task of Python's begins before one that was submitted earlier");
    sd_worker_task_done(W.d, 0, &batch);
  }
  W.working--;
}

static void helps(void *unused, unsigned fiber) {
  const uint32_t participant = enter();
  while (!sd_dispatcher_stopping(W.d)) {
    sd_help(W.d, participant);
    sd_pause();
  }
}

static void does_nothing(sd_task_context *ctx, void *argument, int why) { sd_schedule_point("task"); }

static void submits_in_order(void *unused, unsigned fiber) {
  for (uint64_t tag = 1; tag <= 8;) {
    sd_task_spec spec = {.key = SD_NO_KEY, .priority = SD_USUAL_PRIORITY};
    if (sd_scheduler_random(2)) spec.fn = does_nothing;
    else spec.tag = tag;
    if (sd_tasks_submit(W.d, &spec, 1) == 1) tag += spec.fn == NULL;
    else sd_pause();
  }
  while (W.tasks < 8) sd_pause();
  stop();
}

static const char *helpers_leave_pythons_their_place(void) {
  const sd_config c = usual_of(some_policy(), 2, 1);
  make(&c, NATIVE, 0, 0);
  sd_scheduler_add(ordered_worker, NULL);
  W.working = 1;
  sd_scheduler_add(helps, NULL);
  return run_script(submits_in_order);
}

/* A publisher that helps gives a task its first turn, while the only worker sleeps. The worker has to wake for the second one. */
static void takes_two_turns(sd_task_context *ctx, void *argument, int why) {
  if (ctx->participant >= W.config.sizes.n_workers) until_asleep(1);
  ctx->again = W.tasks++ == 0;
}

static void helps_once(void *unused, unsigned fiber) {
  const uint32_t participant = enter();
  sd_task_spec spec = {.fn = takes_two_turns, .key = SD_NO_KEY, .priority = SD_USUAL_PRIORITY};
  until_asleep(1);
  expect(sd_tasks_submit(W.d, &spec, 1) == 1, "no place for a task");
  sd_help(W.d, participant);
  while (W.tasks < 2) sd_pause();
  stop();
}

static const char *wakes_for_another_turn(void) {
  const sd_config c = usual_of(some_policy(), 2, 1);
  make(&c, NATIVE, 0, 0);
  add_workers(1);
  return run_script(helps_once);
}

/* Tasks fill the table and wait on a, which is held for good. The timer of b fires nevertheless. */
static void held_tasks_script(void *unused, unsigned fiber) {
  uint32_t participant = enter(), n = 0;
  W.time = 10;
  publish(participant, "b");
  until_handled(1);
  sd_dispatcher_hold(W.d, 0, sd_scheduler_random(2) ? SD_PAUSED : SD_QUARANTINED);
  while (sd_task_enqueue(W.d, 0, 1, &W.handle) == SD_OK) n++;
  expect(n >= W.config.sizes.n_tasks, "the table has fewer places than there should be");
  sd_store(&W.d->arena->feed_time, 20, relaxed, X1);
  while (sd_dispatcher_drain(W.d, SD_NONE, SLICE_NS)) sd_pause();
  expect(W.wakes, "drained, but a timer is due");
  stop();
}

static const char *timers_beside_a_full_table(void) {
  sd_config c = usual(2, 1, 1);
  c.sizes.n_tasks = 8;
  c.sizes.has_positions = 1;
  make(&c, NATIVE, 1, 0);
  W.each = asks_for_15;
  add_workers(1);
  return run_script(held_tasks_script);
}

/* ---- permits */

/* A worker whose tasks of Python's take a while: the first one ends when there is nothing left but what is deferred. After a task that it
 * suspends it does nothing until the next one has run, as a thread that comes to its place late. */
static void python_worker(void *number, unsigned fiber) {
  const uint32_t participant = (uint32_t)(uintptr_t)number;
  sd_py_batch batch;
  int code;
  while ((code = sd_worker_next(W.d, participant, &batch)) == SD_PY_TASK) {
    expect(++W.publishing <= 1, "two workers in tasks of Python's with one permit");
    const int first = W.tasks == 0;
    for (uint32_t i = first ? one_of(5, 150) : sd_scheduler_random(3); i; i--) sd_pause();
    W.publishing--;
    W.tasks++;
    if (first && W.nesting) {
      W.handle = batch.strand;
      expect(sd_task_suspend(W.d, participant, &batch, 1) == SD_OK, "a task cannot be suspended");
      while (W.tasks < 2) sd_pause();
    } else {
      sd_worker_task_done(W.d, participant, &batch);
    }
  }
  expect(code == SD_E_STOPPED, "a worker ended otherwise than by a stop");
  W.working--;
}

/* The visit ends when the task has run for which a permit is free. */
static int waits_for_a_task(const record *t, int64_t i, sd_context *ctx) {
  while (W.tasks < 2) sd_pause();
  return 0;
}

/* Two tasks of Python's, and one permit. While the first one runs, the other one is deferred, and records that come before it in the
 * order are listed. Or none are, and the first task is suspended. */
static void deferred_script(void *unused, unsigned fiber) {
  const uint32_t participant = enter();
  sd_task_spec low = {
      .tag = 7, .key = SD_NO_KEY, .priority = W.config.policy.number == SD_LEVELS ? SD_LOW : SD_USUAL_PRIORITY};
  const int on_strand = (int)sd_scheduler_random(2);
  expect(sd_tasks_submit(W.d, &low, 1) == 1, "no place for a task");
  if (on_strand) expect(sd_task_enqueue(W.d, 1, 8, &W.handle) == SD_OK, "no place for a task");
  else expect(sd_tasks_submit(W.d, &low, 1) == 1, "no place for a task");
  if (sd_scheduler_random(2)) until_asleep(sd_scheduler_random(3));
  if (!W.nesting) publish(participant, "a");
  while (W.tasks < 2 || W.handled < !W.nesting) sd_pause();
  stop();
}

static const char *deferred_tasks_run(void) {
  const uint32_t workers = one_of(2, 3);
  sd_config c = usual_of((int32_t)sd_scheduler_random(SD_POLICY_COUNT), 2, workers);
  c.python_workers = 1;
  c.idle = draw_idle();
  W.nesting = sd_scheduler_random(4) == 0;
  make(&c, NATIVE, 0, 0);
  W.each = waits_for_a_task;
  if (c.policy.number == SD_LEVELS) {
    sd_dispatcher_prioritise(W.d, 0, SD_HIGH, 0);
    sd_dispatcher_prioritise(W.d, 1, SD_LOW, 0);
  }
  for (uint32_t i = 0; i < workers; i++) sd_scheduler_add(python_worker, (void *)(uintptr_t)i);
  W.working = workers;
  return run_script(deferred_script);
}

/* Workers sleep while only deferred tasks are left, and the highest one comes first when the permit is free. */
static void sleeps_script(void *unused, unsigned fiber) {
  const uint32_t participant = enter();
  sd_task_spec spec = {.tag = 1, .key = SD_NO_KEY, .priority = SD_NORMAL};
  for (uint32_t i = 0; i < 5; i++) {
    static const uint32_t levels[] = {SD_NORMAL, SD_LOW, SD_NORMAL, SD_HIGH, SD_NORMAL};
    spec.tag = i + 1;
    spec.priority = levels[i];
    expect(sd_tasks_submit(W.d, &spec, 1) == 1, "no place for a task");
    while (!W.swept) sd_pause();
    /* Deferred, or else it runs. */
    while (i && sd_list_length(&W.d->ready.lists[2]) < i) sd_pause();
  }
  until_asleep(1);
  publish(participant, "aa");
  until_handled(2);
  until_asleep(1);
  W.meeting = 1;
  while (W.n_told < 5) sd_pause();
  expect(W.notes[0].told == 1 && W.notes[3].told == 2, "a task of a lower level goes first");
  expect(W.notes[2].told == 3 && W.notes[4].told == 4 && W.notes[1].told == 5, "deferred tasks changed their order");
  stop();
}

static void one_permit_worker(void *number, unsigned fiber) {
  const uint32_t participant = (uint32_t)(uintptr_t)number;
  sd_py_batch batch;
  while (sd_worker_next(W.d, participant, &batch) == SD_PY_TASK) {
    W.swept = 1;
    while (!W.meeting) sd_pause();
    W.notes[batch.task - 1].told = ++W.n_told;
    sd_worker_task_done(W.d, participant, &batch);
  }
  W.working--;
}

static const char *sleeps_beside_deferred_tasks(void) {
  sd_config c = usual_of(SD_LEVELS, 1, 2);
  c.python_workers = SD_ALL_BUT_ONE;
  make(&c, NATIVE, 0, 0);
  for (uint32_t i = 0; i < 2; i++) sd_scheduler_add(one_permit_worker, (void *)(uintptr_t)i);
  W.working = 2;
  return run_script(sleeps_script);
}

/* ---- tasks and groups under a policy: each task ends once, and each group that was closed is returned once */

enum { MAX_LIVES = 32, NUMBERS = 3, USERS = 3, LIFE_WORKERS = 2 };

/* A free task, from its submission to its end. `to`: one more than the group to which a call is moving it, in levels and aging 1. */
typedef struct life {
  uint64_t handle;
  int submitted, in_c, turns, begun, ended, given_up, giving_up;
  uint32_t group, time, to; /* time: which of the groups that had this number */
  uint32_t own;             /* one more than the level by which it is counted; 0: none */
} life;

/* A number of a group. `maybe`: turns of tasks that were being moved when the turn began. */
typedef struct numbered {
  int closed;
  uint32_t time, entering, closings, closed_once;
  uint32_t calls, seconds; /* to close it, that are under way; seconds: those that came when it was closed */
  uint64_t turns, maybe;
} numbered;

static struct {
  life lives[MAX_LIVES];
  numbered groups[NUMBERS];
  uint32_t n, given_up, returned, users, collecting, closing_twice;
} L;

static int32_t policy_number(void) { return W.config.policy.number; }

/* A turn takes longer than a slice, so that each is counted as a long stretch of its group. */
static void take_turn(life *t) {
  numbered *its = &L.groups[t->group];
  t->begun = 1;
  if (t->to) {
    L.groups[t->to - 1].maybe++;
    if (its->time == t->time) its->maybe++;
  } else {
    expect(policy_number() != SD_FAIR || its->time == t->time, "a group was returned before its tasks were over");
    its->turns++;
  }
  for (int i = 0; i <= SHORT_SLICE_NS + 1; i++) sd_schedule_point("turn");
}

static void end_life(life *t) {
  expect(t->submitted && !t->ended, "a task ends that was not submitted, or twice");
  t->ended = 1;
}

static void life_in_c(sd_task_context *ctx, void *argument, int why) {
  life *t = argument;
  expect(why == SD_TASK_CANCELLED ? t->given_up || t->giving_up : !t->given_up, "a task was given up, and not told so");
  take_turn(t);
  if (why == SD_TASK_RUN && t->turns-- > 0) ctx->again = 1;
  else end_life(t);
}

static void life_worker(void *participant, unsigned fiber) {
  sd_py_batch batch;
  int code;
  while ((code = sd_worker_next(W.d, (uint32_t)(uintptr_t)participant, &batch)) == SD_PY_TASK) {
    life *t = &L.lives[batch.task - 1];
    expect(!t->begun && !t->given_up, "a task of Python's begins twice, or although it was given up");
    take_turn(t);
    end_life(t);
    sd_worker_task_done(W.d, (uint32_t)(uintptr_t)participant, &batch);
  }
  expect(code == SD_E_STOPPED, "a worker ended otherwise than by a stop");
  W.working--;
}

/* Draws what a task gets: a level and one by which it is counted, a priority, or a group that is open, which stays so meanwhile. */
static uint32_t draw_priority(life *t, uint32_t *own, uint32_t *to) {
  const uint32_t group = sd_scheduler_random(NUMBERS), level = sd_scheduler_random(SD_LEVEL_COUNT);
  *own = !t->in_c && sd_scheduler_random(4) ? 1 + level : 0;
  *to = 0;
  if (policy_number() == SD_LEVELS) return level | *own << SD_OWN_LEVEL;
  if (policy_number() == SD_AGING) return SD_AGING_USUAL - 4 + sd_scheduler_random(9);
  if (!W.d->policy->prioritise) return SD_USUAL_PRIORITY;
  if (L.groups[group].closed) return SD_USUAL_PRIORITY;
  L.groups[group].entering++;
  return *to = group;
}

static void submit_life(void) {
  if (L.n == MAX_LIVES) return;
  life *t = &L.lives[L.n++];
  sd_task_spec spec = {.key = SD_NO_KEY, .marks = sd_scheduler_random(SD_ALL_MARKS + 1), .tag = L.n};
  t->in_c = (int)sd_scheduler_random(2);
  t->turns = (int)sd_scheduler_random(2);
  spec.priority = draw_priority(t, &t->own, &t->group);
  if (spec.priority == SD_USUAL_PRIORITY && W.d->policy->prioritise) return;
  if (t->in_c) spec.fn = life_in_c, spec.argument = t;
  t->time = L.groups[t->group].time;
  t->submitted = 1;
  const int64_t done = sd_tasks_submit(W.d, &spec, 1);
  expect(done == 1 || (done == 0 && !t->begun), "a task is refused for no reason, or runs although it was refused");
  if (done) t->handle = spec.handle;
  else t->submitted = 0;
  if (policy_number() == SD_FAIR) L.groups[t->group].entering--;
}

static void move_life(life *t) {
  uint32_t own, to;
  if (!t->handle || t->to) return;
  const uint32_t priority = draw_priority(t, &own, &to);
  if (priority == SD_USUAL_PRIORITY) return;
  t->to = to + 1;
  const int code = sd_task_prioritise(W.d, t->handle, priority);
  expect(code == SD_OK || code == SD_AGAIN, "a task cannot be changed");
  if (code == SD_OK) {
    t->group = to;
    t->time = L.groups[to].time;
    if (own) t->own = own;
  }
  t->to = 0;
  if (policy_number() == SD_FAIR) L.groups[to].entering--;
}

static void give_up_life(life *t) {
  if (!t->handle) return;
  const int over = t->ended || t->given_up || (t->begun && !t->in_c);
  t->giving_up++;
  if (sd_task_give_up(W.d, t->handle) == SD_OK) {
    expect(!over && !t->given_up, "a task is given up that is over, or was given up before");
    t->given_up = 1;
    L.given_up++;
  }
  t->giving_up--;
}

/* Two threads may close a group. Nobody takes returned groups meanwhile, as the second one would close a group that is as new. */
static void close_group(uint32_t number) {
  numbered *g = &L.groups[number];
  const int second = g->closed;
  if (second ? L.collecting : g->entering) return;
  g->closings += !second;
  L.closing_twice += (uint32_t)second;
  g->seconds += (uint32_t)second;
  g->closed = 1;
  g->calls++;
  g->closed_once += sd_group_close(W.d, number) == SD_OK;
  if (--g->calls) return;
  expect(g->closed_once == g->closings, "of two threads that close a group not one is told so");
  L.closing_twice -= g->seconds;
  g->seconds = 0;
}

static void take_back(uint32_t number, const sd_group_counts *counts) {
  numbered *g = &L.groups[number];
  expect(g->closed, "a group is returned twice, or was not closed");
  for (uint32_t i = 0; i < L.n; i++) {
    const life *t = &L.lives[i];
    if (!t->submitted || t->group != number || t->time != g->time || t->to) continue;
    expect(t->ended || t->given_up || t->giving_up, "a group is returned before its tasks are over");
  }
  expect(g->turns <= counts->long_stretches && counts->long_stretches <= g->turns + g->maybe,
         "a group is returned with counts that are not its own");
  expect(counts->long_stretches ? counts->on_cpu_ns > SHORT_SLICE_NS * counts->long_stretches : !counts->on_cpu_ns,
         "a group is returned with a time that is not its own");
  L.returned++;
  g->time++;
  g->closed = 0;
  g->turns = g->maybe = 0;
}

static uint32_t collect(int everything) {
  uint32_t found, numbers[2];
  sd_group_counts counts[2];
  if (L.closing_twice) return 0;
  L.collecting++;
  found = sd_groups_returned(W.d, 2, everything, numbers, counts);
  for (uint32_t i = 0; i < found; i++) take_back(numbers[i], &counts[i]);
  L.collecting--;
  return found;
}

static void look_at_risen(void) {
  int64_t more[SD_LEVEL_COUNT] = {0}, sum = 0;
  sd_tasks_risen(W.d, more);
  for (uint32_t level = 0; level < SD_LEVEL_COUNT; level++) sum += more[level];
  expect(sum == 0, "a task has risen to a level and from none");
}

/* Nobody else is there: what is counted as risen are the tasks that have risen. */
static void compare_risen(void) {
  int64_t more[SD_LEVEL_COUNT] = {0};
  sd_tasks_risen(W.d, more);
  for (uint32_t i = 0; i < L.n; i++) {
    const life *t = &L.lives[i];
    const uint32_t level = t->handle && t->own ? sd_task_rose(W.d, t->handle) : 0;
    if (level) more[level - 1]--, more[t->own - 1]++;
  }
  for (uint32_t level = 0; level < SD_LEVEL_COUNT; level++)
    expect(!more[level], "what is counted as risen is not what has risen");
}

/* A user of tasks. The first one holds strands back too, which one thread does at a time. */
static void life_user(void *first, unsigned fiber) {
  for (int i = 0; i < 16; i++) {
    life *t = L.n ? &L.lives[sd_scheduler_random(L.n)] : NULL;
    const uint32_t what = sd_scheduler_random(8);
    if (!t || what < 3) submit_life();
    else if (what < 5) give_up_life(t);
    else if (what < 6) move_life(t);
    else if (policy_number() == SD_FAIR && sd_scheduler_random(2)) close_group(sd_scheduler_random(NUMBERS));
    else if (policy_number() == SD_FAIR) collect((int)sd_scheduler_random(2));
    else if (policy_number() == SD_LEVELS && first) hold_back(sd_scheduler_random(1u << SD_RESOURCE_COUNT));
    else if (policy_number() == SD_LEVELS) look_at_risen();
    else sd_pause();
  }
  L.users--;
}

/* Everything ends: after a drain, or by giving up what still waits when the workers have gone. */
static void end_lives(void *unused, unsigned fiber) {
  const int drains = policy_number() == SD_FAIR || sd_scheduler_random(2);
  sd_task_totals t;
  uint64_t submitted = 0;
  while (L.users) sd_pause();
  if (policy_number() == SD_LEVELS) hold_back(0);
  while (drains && sd_dispatcher_drain(W.d, SD_NONE, 300) == SD_AGAIN) sd_pause();
  stop();
  if (policy_number() == SD_LEVELS) hold_back(0), compare_risen();
  for (uint32_t i = 0; i < L.n; i++) give_up_life(&L.lives[i]);
  if (policy_number() == SD_LEVELS) compare_risen();
  for (uint32_t i = 0; i < NUMBERS && policy_number() == SD_FAIR; i++)
    if (!L.groups[i].closed) close_group(i);
  while (policy_number() == SD_FAIR && collect(1)) continue;
  for (uint32_t i = 0; i < NUMBERS; i++) submitted += L.groups[i].closings;
  expect(L.returned == submitted, "a group that was closed is not returned");
  expect_verified();
  sd_tasks_stop(W.d);
  expect_verified();
  submitted = 0;
  for (uint32_t i = 0; i < L.n; i++) {
    const life *its = &L.lives[i];
    submitted += (uint64_t)its->submitted;
    expect(!its->submitted || its->ended + (its->in_c ? 0 : its->given_up) == 1, "a task has no end, or two");
  }
  sd_tasks_total(W.d, 0, &t);
  expect(t.submitted == submitted && t.ended == submitted, "more or fewer tasks are counted than were submitted");
  expect(t.cancelled == L.given_up, "more or fewer tasks are counted as cancelled than were given up");
}

static const char *tasks_end_once(int32_t policy) {
  sd_config c = usual_of(policy, 1, LIFE_WORKERS);
  memset(&L, 0, sizeof L);
  for (uint32_t level = SD_HIGH; level < SD_LEVEL_COUNT; level++) c.policy.levels.timeout_ns[level] = one_of(1, 400);
  c.policy.levels.since_listed = (int32_t)sd_scheduler_random(2);
  if (sd_scheduler_random(2)) c.policy.aging.max_wait_ns = one_of(1, 400);
  c.policy.fair = (sd_fair_config){SHORT_SLICE_NS, one_of(1, 400), 0, NUMBERS};
  if (sd_scheduler_random(2)) c.policy.fair.cpu_share = one_of(5, 10) / 10.0;
  c.python_workers = sd_scheduler_random(2);
  make(&c, NATIVE, 0, 0);
  W.working = LIFE_WORKERS;
  L.users = USERS;
  for (uint32_t i = 0; i < LIFE_WORKERS; i++) sd_scheduler_add(life_worker, (void *)(uintptr_t)i);
  for (uint32_t i = 0; i < USERS; i++) sd_scheduler_add(life_user, (void *)(uintptr_t)(i == 0));
  return run_script(end_lives);
}

/* And by any policy that has no check of its own below. */
static const char *tasks_end_once_in_turn(void) {
  const uint32_t n = sd_scheduler_random(SD_POLICY_COUNT - SD_FAIR);
  return tasks_end_once(n ? SD_FAIR + (int32_t)n : SD_FIFO);
}
static const char *tasks_end_once_by_level(void) { return tasks_end_once(SD_LEVELS); }
static const char *tasks_end_once_by_age(void) { return tasks_end_once(SD_AGING); }
static const char *groups_are_returned_once(void) { return tasks_end_once(SD_FAIR); }

/* ---- figures by level */

enum { FIGURES = 20 };

/* The records that were handled at each level, from its histogram. */
static uint64_t handled_at(uint32_t level) {
  static uint64_t counts[SD_BUCKETS];
  uint64_t n = 0;
  sd_histogram_sum(W.d, SD_HANDLER_TIME, level, counts);
  for (uint32_t i = 0; i < SD_BUCKETS; i++) n += counts[i];
  return n;
}

/* A strand of each level. A record counts at the level of its strand, or at a higher one to which that has risen. */
static void figures_script(void *unused, unsigned fiber) {
  static const char *symbols[] = {"a", "b", "c", "d", "e", "ea", "edcba"};
  const uint32_t participant = enter();
  uint64_t n = 0, promoted = 0, at = 0, own = 0, rose = 0, visits = 0;
  while (n < FIGURES) {
    const char *some = symbols[sd_scheduler_random(7)];
    publish_all(participant, some);
    n += strlen(some);
    for (uint32_t turns = sd_scheduler_random(20); turns; turns--) sd_pause();
  }
  until_handled(n);
  stop();
  sd_policy_counts counted;
  sd_dispatcher_policy_counts(W.d, &counted);
  for (uint32_t level = 0; level < SD_LEVEL_COUNT; level++) {
    sd_at_level found;
    sd_dispatcher_at_level(W.d, level, &found);
    expect(!found.listed, "a strand waits at a level, and nothing is left");
    visits += found.visits;
    promoted += counted.promoted[level];
    at += handled_at(level);
    own += W.handled_of[level];
    expect(at >= own, "a record counts at a lower level than its strand has");
    rose += at > own;
  }
  sd_totals totals;
  sd_dispatcher_totals(W.d, &totals);
  expect(at == n && totals.handled == n && totals.visits == visits, "the figures of the levels do not add up");
  expect(!promoted == !rose, "what has risen does not count where it rose to, or something else does");
}

static const char *figures_by_level_add_up(void) {
  sd_config c = usual_of(SD_LEVELS, SD_LEVEL_COUNT, one_of(1, 2));
  const int rises = sd_scheduler_random(2);
  for (uint32_t level = SD_HIGH; rises && level < SD_LEVEL_COUNT; level++)
    c.policy.levels.timeout_ns[level] = one_of(1, 400);
  make(&c, NATIVE, 0, 0);
  for (uint32_t i = 0; i < SD_LEVEL_COUNT; i++) sd_dispatcher_prioritise(W.d, i, i, 0);
  add_workers(c.sizes.n_workers);
  return run_script(figures_script);
}

/* ---- all of them */

static const struct check {
  const char *name;
  const char *(*fn)(void);
  uint32_t seeds;
} all[] = {
    {"visits-take-a-budget", visits_take_a_budget, 1},
    {"dear-strands-keep-to-their-time", dear_strands_keep_to_their_time, 20},
    {"long-visits-leave-others-their-turn", long_visits_leave_others_their_turn, 20},
    {"spreads", spreads, 20000},
    {"wakes-for-what-it-leaves", wakes_for_what_it_leaves, 1},
    {"held-waits", held_waits, 50},
    {"held-back-waits", held_back_waits, 500},
    {"task-is-run", task_is_run, 50},
    {"drains-what-handlers-publish", drains_what_handlers_publish, 1000},
    {"stands-where-it-was-drained", stands_where_it_was_drained, 20000},
    {"names-what-did-not-go-in", names_what_did_not_go_in, 1},
    {"leaves-nothing-behind", leaves_nothing_behind, 1},
    {"paused-is-not-handled-inline", paused_is_not_handled_inline, 1},
    {"keys-are-read-once", keys_are_read_once, 4000},
    {"blocks-keep-the-order", blocks_keep_the_order, 4000},
    {"shut-windows-let-nobody-in", shut_windows_let_nobody_in, 1},
    {"sources-are-numbered", sources_are_numbered, 2000},
    {"blocks-hold-back-in-order", blocks_hold_back_in_order, 8000},
    {"blocks-stop-in-the-middle", blocks_stop_in_the_middle, 4000},
    {"blocks-wait-for-paused", blocks_wait_for_paused, 20},
    {"blocks-give-numbers", blocks_give_numbers, 8000},
    {"takes-an-idle-strands-segment", takes_an_idle_strands_segment, 1},
    {"goes-on-when-the-pool-is-dry", goes_on_when_the_pool_is_dry, 1000},
    {"segments-are-handed-out-once", segments_are_handed_out_once, 20},
    {"watermark-holds", watermark_holds, 20000},
    {"watermark-never-falls", watermark_never_falls, 30000},
    {"tasks-hold-up-no-watermark", tasks_hold_up_no_watermark, 1},
    {"watermark-waits-for-no-publisher", watermark_waits_for_no_publisher, 20},
    {"activated-workers-come", activated_workers_come, 2000},
    {"numbers-given-back-are-seen", numbers_given_back_are_seen, 4000},
    {"numbers-below-a-bound-stay", numbers_below_a_bound_stay, 1},
    {"waits-for-the-merger", waits_for_the_merger, 1},
    {"merger-waits-for-paused", merger_waits_for_paused, 1},
    {"merges-all-of-a-tick", merges_all_of_a_tick, 200},
    {"merges-what-the-end-emits", merges_what_the_end_emits, 1},
    {"merger-looks-for-timers", merger_looks_for_timers, 1},
    {"counts-what-waits-for-timers", counts_what_waits_for_timers, 1},
    {"endless-timers-leave-others-their-turn", endless_timers_leave_others_their_turn, 1000},
    {"records-keep-their-place-among-timers", records_keep_their_place_among_timers, 16000},
    {"time-moves-beside-publishers", time_moves_beside_publishers, 2000},
    {"due-timers-wait-for-nobody", due_timers_wait_for_nobody, 20000},
    {"time-fires-timers", time_fires_timers, 20},
    {"alarm-trees-are-right", alarm_trees_are_right, 20},
    {"looks-for-alarms", looks_for_alarms, 4000},
    {"looks-wait-for-no-other", looks_wait_for_no_other, 50},
    {"sheds-the-lowest-first", sheds_the_lowest_first, 1},
    {"sheds-the-oldest", sheds_the_oldest, 1},
    {"sheds-the-same-again", sheds_the_same_again, 1},
    {"sheds-for-no-full-strand", sheds_for_no_full_strand, 1},
    {"counts-to-its-level", counts_to_its_level, 1},
    {"shed-is-counted-in-order", shed_is_counted_in_order, 500},
    {"wakes-for-what-is-not-shed", wakes_for_what_is_not_shed, 1},
    {"inline-beside-tasks-elsewhere", inline_beside_tasks_elsewhere, 1},
    {"recycled-entries-keep-nothing", recycled_entries_keep_nothing, 40},
    {"given-up-when-taken", given_up_when_taken, 40},
    {"stops-while-others-submit", stops_while_others_submit, 4000},
    {"full-tables-become-free", full_tables_become_free, 200},
    {"timers-beside-a-full-table", timers_beside_a_full_table, 100},
    {"drains-what-tasks-submit", drains_what_tasks_submit, 2000},
    {"deferred-tasks-run", deferred_tasks_run, 4000},
    {"sleeps-beside-deferred-tasks", sleeps_beside_deferred_tasks, 200},
    {"helpers-leave-pythons-their-place", helpers_leave_pythons_their_place, 2000},
    {"wakes-for-another-turn", wakes_for_another_turn, 200},
    {"tasks-end-once-in-turn", tasks_end_once_in_turn, 2000},
    {"tasks-end-once-by-level", tasks_end_once_by_level, 4000},
    {"tasks-end-once-by-age", tasks_end_once_by_age, 2000},
    {"groups-are-returned-once", groups_are_returned_once, 4000},
    {"figures-by-level-add-up", figures_by_level_add_up, 400},
};

static const char *with_seed(const struct check *check, uint64_t seed) {
  memset(&W, 0, sizeof W);
  begin_seed(seed);
  sd_scheduler_start(seed);
  const char *wrong = check->fn();
  sd_dispatcher_destroy(W.d);
  sd_space_destroy(W.space);
  return wrong;
}

/* Nonzero: it failed. */
static int try_check(const struct check *check, uint64_t first, uint64_t last) {
  for (uint64_t seed = first; seed <= last; seed++) {
    const char *wrong = with_seed(check, seed);
    if (!wrong) continue;
    printf("%s, seed %llu: %s\n", check->name, (unsigned long long)seed, wrong);
    sd_scheduler_print();
    return 1;
  }
  printf("ok          %s, %llu seeds\n", check->name, (unsigned long long)(last - first + 1));
  return 0;
}

int main(int argc, char **argv) {
  tell_crashes();
  const char *only = getenv("SEED");
  const uint64_t seed = only ? strtoull(only, NULL, 10) : 0;
  int tried = 0, failed = 0;
  for (size_t i = 0; i < sizeof all / sizeof *all; i++) {
    if (argc > 1 && strcmp(argv[1], all[i].name)) continue;
    tried++;
    failed += try_check(&all[i], only ? seed : 1, only ? seed : all[i].seeds);
  }
  if (tried == 0) printf("no check is called %s\n", argv[1]);
  return tried == 0 || failed;
}
