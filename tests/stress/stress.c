#define _GNU_SOURCE /* pthread_timedjoin_np */
/* A stress of the real dispatcher on real threads, meant to run under ThreadSanitizer: several publishers and workers, steals,
 * pauses, every bound, failing handlers, handlers that publish, tasks between records, stops with and without draining, all idle strategies, small
 * pools, and a thread that looks at strands from outside. Each round draws a configuration, and when it has ended the books are checked
 * (contract, rules 1 to 3).
 *
 * stress [SECONDS] [SEED]
 */
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "base/clock.h"
#include "blocks/array.h"
#include "blocks/choice.h"
#include "engine/api.h"
#include "sd_error.h"

enum { TASKS = 100, FREES = 400 };
enum { SYMBOLS = 64, SOURCES = 4, WORKERS = 4, BATCH = 256, LONG_CALL = 4000 };
/* How many looks in a row, so far apart, find that nothing has moved before something is said to wait for ever. */
enum { LOOK_NS = 100000000, MAX_LOOKS = 600 };

/* What a symbol's row holds. Plain fields: that handlers of a symbol follow one another is what is tested. */
typedef struct row {
  uint64_t seen[SOURCES + 1];
  uint64_t alarm, last_time, woken, wakes;
  uint64_t handled;
  uint64_t emitted;
  uint64_t errors;
} row;

/* Queued behind record `sequence` of its publisher on a symbol. */
typedef struct task {
  uint64_t sequence;
  uint32_t key;
  uint32_t given_up;
  uint32_t turns; /* how many more it takes; plain, so that ThreadSanitizer sees whether they follow one another */
  sd_a32 ran;
} task;

/* A free task, and at the next place the one that it submits. */
typedef struct free_task {
  uint32_t submitted, told, spawns, turns;
} free_task;

typedef struct source {
  free_task frees[FREES];
  uint32_t n_frees;
  uint64_t next[SYMBOLS];
  uint64_t accepted, in_sources, kept_back; /* the latter two of records in blocks of sources */
  int64_t counts[SYMBOLS];                  /* of in_sources, by symbol */
  uint32_t random;
  int32_t index;
  uint32_t n_tasks;
  task tasks[TASKS];
} source;

typedef struct scene {
  sd_space *space;
  sd_dispatcher *d;
  sd_config config;
  uint32_t n_symbols, n_strands, n_publishers, n_workers, batches, record_size, fail_one_in, nest_one_in, task_one_in,
      python, stop_early;
  uint32_t map[SYMBOLS], timed, yields;
  uint32_t guards; /* strands are held back now and then */
  uint32_t sheds;  /* strands of higher levels have lower ones make room */
  uint32_t blocks; /* long calls, which go in blocks where strands are idle */
  uint32_t heals;  /* quarantines end */
  sd_a64 clock;
  source sources[SOURCES];
  sd_a32 publishing;
  sd_a32 in_python;                      /* workers that run tasks of Python's */
  sd_a32 free_pythons, free_pythons_ran; /* free tasks of Python's */
  sd_a64 nested;                         /* records accepted from inside handlers */
  uint32_t emits;
  sd_a32 merging;
  /* the merger's */
  uint64_t merged, merged_timers;
  uint64_t number;                                 /* of the last record's tick */
  uint64_t nth_of[SYMBOLS], nth_timer_of[SYMBOLS]; /* of each symbol's last record, and of its last timer's */
  sd_emitted last;
  const char *wrong;
  sd_a32 looking;
  uint64_t looks, believed; /* the looker's */
  sd_a32 bad;
} scene;

static scene S;
static uint32_t seed = 1;

static uint32_t draw(uint32_t *state, uint32_t n) {
  *state = *state * 1664525u + 1013904223u;
  return (uint32_t)((uint64_t)(*state >> 8) * n >> 24);
}
static uint32_t one_of(uint32_t low, uint32_t high) { return low + draw(&seed, high - low + 1); }

static void fill(unsigned char *at, uint32_t key, uint32_t who, uint64_t sequence, uint32_t mark) {
  sd_tick *t = (sd_tick *)at;
  memset(at, 0, S.record_size);
  t->instrument_id = key;
  sd_set_sequence(t, sequence);
  t->size = who;
  t->ts_recv = (int64_t)(sequence * 7 % 97 + sequence);
  t->flags = (uint8_t)mark; /* 1: fails, 2: publishes */
  /* A clock of all publishers, which their records reach in another order now and then. */
  if (S.timed) t->ts_recv = (int64_t)(1000 + sd_fetch_add(&S.clock, 3, relaxed, X1));
}

/* A symbol's timers: asked for by some of its records, and again by some timers. */
static uint64_t some_alarm(uint64_t draw, uint64_t time) { return draw % 5 ? time + 1 + draw % 400 : 0; }

static void before_record(row *r, uint64_t time) {
  if ((r->alarm && r->alarm <= time) || time < r->last_time || time < r->woken) r->errors++;
  r->last_time = time;
}

static uint64_t at_timer(row *r, uint64_t time) {
  if (r->alarm != time || r->last_time >= time || time > sd_feed_time(S.d)) r->errors++;
  r->wakes++;
  r->woken = time;
  return r->alarm = some_alarm(r->wakes * 0x9e3779b9u >> 7, time);
}

/* What is emitted: so many records a tick and one a timer, each with how many of its kind its symbol has emitted. */
typedef struct emission {
  uint64_t nth;
  uint32_t key;
} emission;

static int wake(void *rows, uint32_t key, int64_t at, sd_context *ctx) {
  const uint64_t time = (uint64_t)at;
  row *r = (row *)((char *)rows + key * ctx->row_stride);
  uint64_t alarm = at_timer(r, time);
  emission e = {r->wakes, key};
  if (S.emits && sd_emit(ctx, 0, -1, &e)) r->errors++;
  if (alarm) ctx->wake_at(ctx, key, alarm);
  return 0;
}

static int emit(row *r, const sd_tick *t, int64_t i, sd_context *ctx, const sd_py_batch *batch, uint32_t participant) {
  for (uint32_t k = 0; k < (uint64_t)sd_sequence(t) % 3; k++) {
    /* What a tick emits that fails is void: its numbers come again. */
    emission e = {r->emitted + k + 1, t->instrument_id};
    char message[104];
    if (ctx ? sd_emit(ctx, 0, i, &e) : sd_py_emit(S.d, participant, batch, 0, &i, &e, 1, message)) return 1;
  }
  return 0;
}

/* A strand in quarantine drops what it has no room for. */
static int all_arrive(void) { return S.config.on_full == SD_BLOCK && !S.heals; }

static int64_t handle(void *rows, const sd_tick *ticks, int64_t n, sd_context *ctx, uint64_t stride,
                      const sd_py_batch *batch, uint32_t participant) {
  for (int64_t i = 0; i < n; i++) {
    const sd_tick *t = (const sd_tick *)((const char *)ticks + (size_t)i * S.record_size);
    row *r = (row *)((char *)rows + t->instrument_id * stride);
    if (S.timed) before_record(r, (ctx ? ctx->positions : batch->positions)[i].time);
    if (t->size > SOURCES) r->errors++;
    else if (t->size < SOURCES) {
      uint64_t *seen = &r->seen[t->size];
      if (all_arrive() ? (uint64_t)sd_sequence(t) != *seen + 1 : (uint64_t)sd_sequence(t) <= *seen) r->errors++;
      *seen = (uint64_t)sd_sequence(t);
    }
    if ((t->flags & 2) && ctx) {
      _Alignas(64) unsigned char more[256];
      int64_t in;
      fill(more, (t->instrument_id * 7 + 1) % S.n_symbols, SOURCES, (uint64_t)sd_sequence(t), 0);
      ctx->publish(ctx, more, 1, &in);
      sd_fetch_add(&S.nested, (uint64_t)in, relaxed, X1);
    }
    if (S.emits && emit(r, t, i, ctx, batch, participant)) r->errors++;
    if (t->flags & 1) return i;
    r->handled++;
    if (S.emits) r->emitted += (uint64_t)sd_sequence(t) % 3;
    if (S.timed && ctx && (uint64_t)sd_sequence(t) % 3 == 0) {
      r->alarm = some_alarm((uint64_t)sd_sequence(t) * 0x9e3779b9u >> 7, ctx->positions[i].time);
      ctx->wake_at(ctx, t->instrument_id, r->alarm);
      if (S.yields && ctx->yield) return i + 1;
    }
  }
  return n;
}

static int64_t native(void *rows, const sd_tick *ticks, int64_t n, sd_context *ctx) {
  return handle(rows, ticks, n, ctx, ctx->row_stride, NULL, 0);
}

/* The tag of free tasks of Python's. */
#define FREE_PYTHON (UINT64_C(1) << 40)

/* A bound that follows the active workers may have been higher when those that run began. */
static void begin_python(void) {
  const uint32_t bound = S.config.python_workers, all = S.n_workers;
  const uint32_t most = bound == 0 ? all : bound != SD_ALL_BUT_ONE ? bound : all > 1 ? all - 1 : 1;
  if (sd_fetch_add(&S.in_python, 1u, relaxed, X1) >= most) sd_store(&S.bad, 5u, relaxed, X1);
}

static void end_python(void) { sd_fetch_sub(&S.in_python, 1u, relaxed, X1); }

/* Plain reads of the row: that no handler runs beside a task is what is tested. Nonzero: it has given the worker back. */
static int run_task(void *rows, uint64_t stride, uint32_t participant, sd_py_batch *batch) {
  begin_python();
  if (batch->task == FREE_PYTHON) {
    sd_fetch_add(&S.free_pythons_ran, 1u, relaxed, X1);
    end_python();
    return 0;
  }
  source *from = &S.sources[batch->task >> 16];
  task *t = &from->tasks[(batch->task & 0xffff) - 1];
  row *r = (row *)((char *)rows + t->key * stride);
  uint64_t seen = r->seen[from->index];
  if (S.map[t->key] != batch->strand || (all_arrive() ? seen != t->sequence : seen > t->sequence)) r->errors++;
  if (t->turns) {
    const int away = t->turns-- % 2 == 0;
    const uint32_t entry = batch->strand;
    sd_should_yield(S.d, participant, entry);
    end_python();
    if (sd_task_suspend(S.d, participant, batch, away)) r->errors++;
    if (away) sd_task_charge(S.d, entry, 100);
    if (away && sd_task_return(S.d, participant, entry)) sd_store(&S.bad, 1u, relaxed, X1);
    return 1;
  }
  if (sd_fetch_add(&t->ran, 1u, relaxed, X1)) r->errors++;
  end_python();
  return 0;
}

static void *worker(void *argument) {
  uint32_t participant = (uint32_t)(uintptr_t)argument;
  uint64_t stride;
  void *rows = sd_dispatcher_rows(S.d, &stride);
  sd_py_batch batch;
  int code;
  while ((code = sd_worker_next(S.d, participant, &batch)) > 0) {
    if (code == SD_PY_WAKE) {
      row *r = (row *)((char *)rows + batch.wake_key * stride);
      uint64_t alarm = at_timer(r, batch.wake_time);
      emission e = {r->wakes, batch.wake_key};
      char message[104];
      if (S.emits && sd_py_emit_timer(S.d, participant, batch.wake_key, batch.wake_time, 0, 0, &e, 1, message))
        r->errors++;
      sd_worker_wake_done(S.d, participant, &batch, alarm, 0, NULL);
      continue;
    }
    if (S.timed && batch.n) {
      /* Up to the record that asks for a timer. */
      const sd_tick *last = (const sd_tick *)((const char *)batch.records + (size_t)(batch.n - 1) / 2 * S.record_size);
      int64_t most = (batch.n - 1) / 2 + 1;
      int64_t done = handle(rows, batch.records, most, NULL, stride, &batch, participant);
      if (done == most) {
        row *r = (row *)((char *)rows + last->instrument_id * stride);
        r->alarm = batch.positions[most - 1].time + 1 + (uint64_t)sd_sequence(last) % 200;
        if (sd_py_wake_at(S.d, &batch, most, r->alarm)) r->errors++;
      }
      sd_worker_done(S.d, participant, &batch, done, done < most, "as told");
      continue;
    }
    if (code == SD_PY_TASK || code == SD_PY_RESUME) {
      if (code == SD_PY_RESUME) sd_task_resumed(S.d, participant);
      if (!run_task(rows, stride, participant, &batch)) sd_worker_task_done(S.d, participant, &batch);
      continue;
    }
    int64_t done = batch.n ? handle(rows, batch.records, batch.n, NULL, stride, &batch, participant) : 0;
    sd_worker_done(S.d, participant, &batch, done, done < batch.n, "as told");
  }
  return NULL;
}

/* In the order of the feed; at one time timers come first, in the order of their keys. */
static void after_last(const sd_emitted *head) {
  const int is_timer = head->number == SD_TIMER, was_timer = S.last.number == SD_TIMER;
  if (head->time < S.last.time) S.wrong = "the feed's time goes back";
  if (!is_timer && head->number < S.number) S.wrong = "merged out of order";
  /* Without a time in its records the feed's time stays 0, and no timer fires. */
  if (is_timer && head->time == S.last.time && !was_timer) S.wrong = "a timer is merged behind a record of its time";
  if (is_timer && head->time == S.last.time && was_timer && head->key <= S.last.key)
    S.wrong = "timers of one time are not in the order of their keys";
  if (!is_timer) S.number = head->number;
  S.last = *head;
}

/* Takes all there is, and looks whether it is in order: of the feed, and of each symbol. */
static void merge(int how) {
  enum { MAX_TAKEN = 37 };
  unsigned char room[MAX_TAKEN * (SD_MERGED_HEAD + sizeof(emission)) + 8], *at;
  int64_t n;
  if (sd_outputs_round(S.d, how)) S.wrong = "the merger has no memory";
  do {
    n = sd_outputs_take(S.d, 0, room, MAX_TAKEN);
    at = room;
    for (int64_t i = 0; i < n; i++, at += SD_MERGED_HEAD + sizeof(emission)) {
      sd_emitted head;
      emission e;
      memcpy(&head, at, SD_MERGED_HEAD);
      memcpy(&e, at + SD_MERGED_HEAD, sizeof e);
      after_last(&head);
      const int is_timer = head.number == SD_TIMER;
      *(is_timer ? &S.merged_timers : &S.merged) += 1;
      if (head.key != e.key || e.key >= S.n_symbols) S.wrong = "a record of another tick";
      else if (e.nth != ++(is_timer ? S.nth_timer_of : S.nth_of)[e.key])
        S.wrong = "a symbol's records are out of order, twice or missing";
    }
  } while (n == MAX_TAKEN);
}

static void *merger(void *unused) {
  while (sd_load(&S.merging, acquire, X1)) {
    merge(SD_FINAL_LIVE);
    usleep(50);
  }
  return NULL;
}

static sd_task_spec free_spec(free_task **t);

/* Puts a task behind what this publisher has published of a symbol; some are given up at once. */
static void enqueue_task(source *me) {
  if (me->n_tasks == TASKS) return;
  uint64_t tag = ((uint64_t)me->index << 16) | (me->n_tasks + 1);
  task *t = &me->tasks[me->n_tasks++];
  t->key = draw(&me->random, S.n_symbols);
  t->sequence = me->next[t->key];
  t->turns = draw(&me->random, 3);
  uint64_t handle;
  if (sd_task_enqueue(S.d, S.map[t->key], tag, &handle)) sd_store(&S.bad, 1u, relaxed, X1);
  if (draw(&me->random, 4) == 0) t->given_up = sd_task_give_up(S.d, handle) == SD_OK;
}

/* A free task: told once how it ended. `told` is plain, so that ThreadSanitizer sees whether drain shows it. */
static void free_task_ends(sd_task_context *ctx, void *argument, int why) {
  free_task *t = *(free_task **)argument;
  if (why == SD_TASK_RUN && t->turns) {
    t->turns--;
    ctx->should_yield(ctx);
    ctx->again = 1;
    return;
  }
  t->told++;
  if (why != SD_TASK_RUN || !t->spawns) return;
  free_task *more = t + 1;
  sd_task_spec spec = free_spec(&more);
  more->submitted = ctx->submit(ctx, &spec, 1) == 1;
}

static sd_task_spec free_spec(free_task **t) {
  return (sd_task_spec){.fn = free_task_ends,
                        .argument = t,
                        .argument_bytes = sizeof *t,
                        .key = SD_NO_KEY,
                        .priority = SD_USUAL_PRIORITY};
}

/* Submits a few free tasks, and changes or gives up one of them. Half of the tasks submit another one. */
static void submit_free(source *me) {
  enum { AT_A_GO = 4 };
  sd_task_spec specs[AT_A_GO];
  free_task *t[AT_A_GO];
  if (me->n_frees + 2 * AT_A_GO > FREES) return;
  for (uint32_t i = 0; i < AT_A_GO; i++, me->n_frees += 2) {
    t[i] = &me->frees[me->n_frees];
    t[i]->spawns = draw(&me->random, 2);
    t[i]->turns = draw(&me->random, 3);
    specs[i] = free_spec(&t[i]);
  }
  sd_task_spec python = {.tag = FREE_PYTHON, .key = SD_NO_KEY, .priority = SD_USUAL_PRIORITY};
  if (sd_tasks_submit(S.d, &python, 1) == 1) sd_fetch_add(&S.free_pythons, 1u, relaxed, X1);
  const int64_t n = sd_tasks_submit(S.d, specs, AT_A_GO);
  for (int64_t i = 0; i < n; i++) t[i]->submitted = 1;
  if (n < 1) return;
  if (S.config.policy.number == SD_LEVELS)
    sd_task_prioritise(S.d, specs[n - 1].handle, draw(&me->random, SD_LEVEL_COUNT));
  if (draw(&me->random, 4) == 0) sd_task_give_up(S.d, specs[0].handle);
}

/* Publishes to the end. Returns how many records did not go in. */
static uint64_t go_on(uint32_t participant, int *code) {
  while (*code == SD_AGAIN) *code = sd_publish_more(S.d, participant, 1000000);
  return *code ? (uint64_t)sd_publish_rejected(S.d, participant, 0, NULL, 0) : 0;
}

/* Records in memory. The beginnings of some blocks are guessed wrongly, as in a file: these blocks are made anew when they are adopted. */
typedef struct guessed {
  sd_block_array array;
  sd_block_source right; /* of the array */
} guessed;

static void guess(void *self, uint64_t number, sd_block *block, int exactly, const uint8_t *home_of) {
  ((guessed *)self)->right.make(self, number, block, exactly, home_of);
  if (!exactly && number % 3 == 1) block->begin++;
}

static int adopt(void *self, uint64_t number, sd_block *block, const uint8_t *home_of) {
  const sd_block_source *right = &((guessed *)self)->right;
  if (block->begin != number * SD_ARRAY_BLOCK) {
    memset(block->n, 0, sizeof block->n);
    right->make(self, number, block, 1, home_of);
  }
  return right->adopt(self, number, block, home_of);
}

/* Publishes as a feeder does: blocks of a source, and some records in turn where there are none. Returns how many did not go in. */
static uint64_t publish_source(source *me, uint32_t participant, const unsigned char *records, uint32_t n, int *code) {
  uint64_t rejected = 0;
  for (*code = SD_OK; n && !*code;) {
    guessed its = {.array = {.records = records, .n = n, .size = S.record_size, .key_offset = S.d->arena->key_offset}};
    sd_block_source blocks = its.right = sd_block_array_source(S.d, &its.array);
    sd_blocks_done done;
    blocks.make = guess, blocks.adopt = adopt, blocks.counts = me->counts;
    *code = sd_publish_blocks(S.d, participant, &blocks, &its, 1000000, &done);
    me->in_sources += done.records;
    me->kept_back += done.n_held;
    uint32_t went = (uint32_t)its.array.adopted;
    if (!went) {
      went = n < SD_ARRAY_BLOCK ? n : SD_ARRAY_BLOCK;
      *code = sd_publish_own(S.d, participant, records, went, 1000000);
    }
    if (*code) rejected = go_on(participant, code);
    records += (size_t)went * S.record_size;
    n -= went;
  }
  return n + rejected;
}

static void *publisher(void *argument) {
  source *me = argument;
  static _Thread_local _Alignas(64) unsigned char batch[LONG_CALL * 64];
  for (uint32_t b = 0; b < S.batches; b++) {
    int64_t participant;
    while ((participant = sd_publisher_enter(S.d)) < 0) usleep(10);
    /* Long calls, which may go in blocks, are not of sd_publish_own: a feeder's records do not. */
    uint32_t n = 1 + draw(&me->random, b % 4 == 0 ? 8 : S.blocks && b % 4 == 2 ? LONG_CALL : BATCH);
    for (uint32_t i = 0; i < n; i++) {
      uint32_t key = draw(&me->random, S.n_symbols), mark = 0;
      if (S.fail_one_in && draw(&me->random, S.fail_one_in) == 0) mark |= 1;
      if (S.nest_one_in && draw(&me->random, S.nest_one_in) == 0) mark |= 2;
      fill(batch + (size_t)i * S.record_size, key, (uint32_t)me->index, ++me->next[key], mark);
    }
    const int own = b % 2, constant = b % 8 < 4;
    int code;
    if (S.blocks && b % 8 == 6) {
      me->accepted += n - publish_source(me, (uint32_t)participant, batch, n, &code);
    } else {
      code = (own        ? sd_publish_own
              : constant ? sd_publish_constant
                         : sd_publish)(S.d, (uint32_t)participant, batch, n, 1000000);
      me->accepted += n - go_on((uint32_t)participant, &code);
    }
    sd_publisher_leave(S.d, (uint32_t)participant);
    if (code == SD_E_STOPPED) break;
    if (S.task_one_in && draw(&me->random, S.task_one_in) == 0) enqueue_task(me);
    if (S.task_one_in) submit_free(me);
    if (S.timed && draw(&me->random, 4) == 0) {
      const uint64_t to = 1000 + sd_load(&S.clock, relaxed, X1) + draw(&me->random, 200);
      sd_publish_time(S.d, to);
      if (sd_feed_time(S.d) < to) sd_store(&S.bad, 6u, relaxed, X1);
    }
    if (code && code != SD_E_FULL) sd_store(&S.bad, 1u, relaxed, X1);
  }
  sd_fetch_sub(&S.publishing, 1u, acq_rel, X1);
  return NULL;
}

static void hold_back(uint32_t resources) {
  uint32_t waiting;
  if (S.guards && sd_dispatcher_hold_back(S.d, resources, &waiting)) sd_store(&S.bad, 4u, relaxed, X1);
}

static void *controller(void *unused) {
  uint32_t random = 12345 + S.n_strands;
  sd_totals totals;
  uint32_t turn = 0;
  uint64_t mark = sd_watermark(S.d);
  /* At least once, and as long as something is published. */
  do {
    uint32_t s = draw(&random, S.n_strands);
    if (S.config.policy.number == SD_LEVELS)
      sd_dispatcher_prioritise(S.d, draw(&random, S.n_strands), draw(&random, SD_LEVEL_COUNT), draw(&random, 2));
    if (S.config.policy.number == SD_AGING)
      sd_dispatcher_prioritise(S.d, draw(&random, S.n_strands),
                               draw(&random, SD_AGING_CLASSES) << 30 | (SD_AGING_USUAL - 4 + draw(&random, 9)),
                               draw(&random, 2));
    hold_back(draw(&random, 1u << SD_RESOURCE_COUNT));
    sd_dispatcher_activate(S.d, 1 + draw(&random, S.n_workers));
    if (S.config.policy.number == SD_FAIR)
      sd_dispatcher_prioritise(S.d, draw(&random, S.n_strands), draw(&random, S.n_strands), 0);
    sd_dispatcher_hold(S.d, s, SD_PAUSED);
    usleep(draw(&random, 200));
    sd_dispatcher_resume(S.d, s, SD_PAUSED);
    if (S.heals) sd_dispatcher_resume(S.d, draw(&random, S.n_strands), SD_QUARANTINED);
    /* Without it a lone strand would be paused nearly always, and a worker that looks seldom come too late each time. */
    if (draw(&random, 4)) usleep(draw(&random, 200));
    sd_dispatcher_totals(S.d, &totals);
    uint64_t now = sd_watermark(S.d);
    if ((int64_t)(now - mark) < 0) sd_store(&S.bad, 2u, relaxed, X1);
    mark = now;
    if (S.stop_early && ++turn == S.stop_early) sd_dispatcher_stop(S.d);
  } while (sd_load(&S.publishing, acquire, X1));
  hold_back(0);
  return NULL;
}

/* A row as another process reads it, plain memory that handlers write meanwhile. No memcpy: ThreadSanitizer has its own, which reports. */
__attribute__((noinline, no_sanitize("thread"))) static uint64_t handled_in(const row *r) {
  return *(const volatile uint64_t *)&r->handled;
}

/* Looks at strands while they run, as csrc/outside does. What a look says may be believed has to fit: the rows of a strand count its
 * handled records.
 *
 * gcc's ThreadSanitizer does not model fences, and O1 and O3 order the rows by fences alone: it would report every row read here, so
 * handled_in() is hidden from it. It therefore tells nothing of races between the looker and handlers. What this can find is a
 * wrong sum on the machine it runs on: an owner that writes without its word, or counts after it has let go, a look without its second load.
 * What only another machine's reordering would break is for tests/model/look.cpp. */
static void *looker(void *unused) {
  uint32_t random = 54321 + S.n_strands;
  uint64_t stride;
  const unsigned char *rows = sd_dispatcher_rows(S.d, &stride);
  /* At least once. */
  do {
    const uint32_t strand = draw(&random, S.n_strands);
    sd_strand *s = &S.d->strands[strand];
    const uint64_t word = sd_strand_look(s);
    const uint64_t shed = S.d->admissions ? sd_peek(&S.d->admissions[strand].shed) : 0;
    const uint64_t counted = sd_peek(&s->handled) - shed - S.config.sizes.counters_start;
    /* Owners come and go meanwhile. */
    if (draw(&random, 8) == 0) usleep(draw(&random, 100));
    uint64_t handled = 0;
    for (uint32_t key = strand; key < S.n_symbols; key += S.n_strands)
      handled += handled_in((const row *)(rows + key * stride));
    S.looks++;
    if (!sd_strand_unchanged(s, word)) continue;
    S.believed++;
    if (handled != counted) sd_store(&S.bad, 3u, relaxed, X1);
  } while (sd_load(&S.looking, acquire, X1));
  return NULL;
}

/* Rule 3, as far as looking can tell. There is only so much to be published and handled, so it cannot go on moving for ever; and
 * looks are counted, not seconds: a machine that is busy, or this process being stopped, passes no time. */
typedef struct patience {
  uint64_t moved;
  uint32_t looks;
} patience;

/* Nonzero: nothing has moved for too long. */
static int is_over(patience *p) {
  sd_totals t;
  sd_dispatcher_totals(S.d, &t);
  uint64_t moved = t.accepted + t.handled + t.failed + t.lost;
  for (int i = 0; i < SD_DROP_REASONS; i++) moved += t.dropped[i];
  if (moved != p->moved) *p = (patience){moved, 0};
  return ++p->looks > MAX_LOOKS;
}

/* Nonzero: it does not end. */
static int join(pthread_t thread) {
  patience p = {0, 0};
  struct timespec until;
  do {
    clock_gettime(CLOCK_REALTIME, &until);
    until.tv_nsec += LOOK_NS;
    until.tv_sec += until.tv_nsec / 1000000000;
    until.tv_nsec %= 1000000000;
    if (!pthread_timedjoin_np(thread, NULL, &until)) return 0;
  } while (!is_over(&p));
  return 1;
}

/* Bounds over strands, for some rounds. Quarantined strands keep what they hold, and publishers that wait would wait for ever. */
static void draw_bounds(sd_config *c) {
  const int levels = c->policy.number == SD_LEVELS,
            own_room = c->on_full == SD_DROP_OLDEST || c->on_full == SD_CONFLATE;
  if (!S.sheds && (one_of(0, 1) || (own_room && !levels))) return;
  if (S.sheds || own_room || (levels && one_of(0, 1))) c->on_full = SD_SHED;
  const uint64_t least = S.fail_one_in && c->on_full == SD_BLOCK ? (uint64_t)S.n_strands * c->capacity + 1 : 1;
  if (c->on_full == SD_SHED || one_of(0, 1)) c->total_capacity = least + one_of(0, 300);
  for (int level = 0; levels && level < SD_LEVEL_COUNT; level++)
    if (one_of(0, 2) == 0) c->level_capacity[level] = least + one_of(0, 100);
}

/* The drops by level add up to all drops, and records admitted less records ended are those pending. */
static int admission_balances(const sd_totals *t, uint64_t dropped) {
  uint64_t waits = 0, at = 0;
  for (int level = 0; level < SD_LEVEL_COUNT; level++) {
    at += t->dropped_at[level];
    for (uint32_t i = 0; S.d->admitted && i < S.d->n_participants; i++)
      waits += sd_peek(&S.d->admitted[i].admitted[level]) - sd_peek(&S.d->admitted[i].ended[level]);
  }
  return (!S.d->admitted || waits == t->pending) && (S.config.policy.number != SD_LEVELS || at == dropped);
}

/* In every fourth round, all that keeps records from going in blocks goes away. */
static void draw_blocks(sd_config *c) {
  if (!S.blocks) return;
  S.record_size = 64;
  S.python = S.nest_one_in = 0;
  S.n_publishers = one_of(1, 2);
  c->sizes.record_size = S.record_size;
  c->publisher_drains = 1;
  c->one_core = 0;
  c->on_full = SD_BLOCK;
  c->policy = (sd_policy_config){.number = SD_FIFO};
  S.guards = 0;
  c->total_capacity = 0;
  memset(c->level_capacity, 0, sizeof c->level_capacity);
  c->ingest = one_of(0, 3) ? SD_INGEST_BLOCKS : SD_INGEST_AUTO;
}

static void prepare(uint32_t round) {
  memset(&S, 0, sizeof S);
  S.n_workers = one_of(1, WORKERS);
  S.n_publishers = one_of(1, SOURCES);
  /* The other rounds shed seldom, and those that end before the controller has changed a level do not. */
  S.sheds = round % 8 == 5;
  S.blocks = round % 4 == 3;
  S.n_strands = one_of(0, 1) && !S.sheds ? one_of(1, 4) : one_of(5, SYMBOLS);
  S.n_symbols = one_of(S.n_strands, SYMBOLS);
  S.record_size = (uint32_t[]){64, 128, 256}[one_of(0, 2)];
  S.batches = one_of(10, 200);
  S.fail_one_in = one_of(0, S.blocks ? 1 : 3) ? 0 : one_of(50, 2000);
  S.nest_one_in = one_of(0, 3) ? 0 : one_of(4, 40);
  S.task_one_in = one_of(0, 1) ? 0 : one_of(1, 8);
  S.timed = one_of(0, 1);
  S.yields = one_of(0, 1);
  S.python = one_of(0, 2) == 0;
  S.stop_early = one_of(0, 4) ? 0 : one_of(1, 10);
  S.emits = one_of(0, 1);
  /* A merger passes over what a strand in quarantine emits later. */
  S.heals = S.fail_one_in && !S.emits && one_of(0, 3);
  sd_config *c = &S.config;
  uint32_t participants = S.n_workers + S.n_publishers + 2;
  c->capacity = one_of(0, 1) ? one_of(1, 40) : one_of(41, 5000);
  c->sizes = (sd_sizes){.n_symbols = S.n_symbols,
                        .n_strands = S.n_strands,
                        .n_workers = S.n_workers,
                        .n_publishers = S.n_publishers + 2,
                        .record_size = S.record_size,
                        .key_offset = offsetof(sd_tick, instrument_id),
                        .sequence_offset = offsetof(sd_tick, sequence_low),
                        .sequence_high = offsetof(sd_tick, sequence_high),
                        .row_bytes = sizeof(row),
                        .n_tasks = one_of(1000, 4000),
                        .n_segments = participants * 2 * SD_FREE_RUN + one_of(1, 40),
                        .has_positions = S.emits || S.timed,
                        .counters_start = UINT64_MAX - one_of(0, 5000)};
  c->time_offset = one_of(0, 3) ? 8 : SD_NONE;
  c->idle = (int32_t)one_of(0, 2);
  c->on_error = one_of(0, 4) ? SD_ON_ERROR_QUARANTINE : SD_ON_ERROR_STOP;
  c->on_full = (int32_t)one_of(0, 4);
  const uint32_t policy = S.sheds ? 0 : one_of(0, 5);
  if (policy == 2)
    c->policy = (sd_policy_config){
        .number = SD_FAIR,
        .fair = {one_of(1000, 1000000), one_of(10000, 10000000), one_of(0, 2) ? one_of(5, 10) / 10.0 : 0}};
  if (policy == 0) {
    c->policy = (sd_policy_config){.number = SD_LEVELS, .levels = {.since_listed = (int32_t)one_of(0, 1)}};
    for (uint32_t i = SD_HIGH; i < SD_LEVEL_COUNT; i++)
      c->policy.levels.timeout_ns[i] = c->policy.levels.timeout_ns[i - 1] + one_of(1000, 1000000);
    S.guards = one_of(0, 1);
  }
  if (policy == 1) {
    c->policy = (sd_policy_config){.number = SD_AGING, .aging = {.n_classes = SD_AGING_CLASSES}};
    for (uint32_t i = 0; i < SD_AGING_CLASSES; i++) c->policy.aging.coefficient[i] = (i + 1) * one_of(1, 100000);
    c->policy.aging.low_every = (uint32_t[]){0, 4, SD_AGING_BY_LOAD}[one_of(0, 2)];
    c->policy.aging.max_wait_ns = one_of(0, 1) ? one_of(1000, 1000000) : 0;
  }
  if (c->on_full == SD_CONFLATE && c->capacity < SYMBOLS) c->capacity = SYMBOLS;
  draw_bounds(c);
  /* What is quarantined keeps its segments; the others still need some. */
  if (S.fail_one_in)
    c->sizes.n_segments += S.n_strands * (c->capacity * S.record_size / (SD_SEGMENT_BYTES - SD_SEGMENT_HEADER) + 3);
  c->budget_records = one_of(1, 300);
  c->budget_ns = one_of(1000, 1000000);
  c->batch_records = one_of(1, 512);
  c->ahead_records = one_of(0, 2000);
  c->publisher_drains = (int32_t)one_of(0, 1);
  c->one_core = (int32_t)one_of(0, 1);
  const uint32_t bounds[] = {0, SD_ALL_BUT_ONE, one_of(1, S.n_workers)};
  c->python_workers = bounds[one_of(0, 2)];
  draw_blocks(c);
}

static int fail(const char *what, uint32_t round) {
  const sd_config *c = &S.config;
  printf(
      "FAILED round %u: %s\n  %u workers, %u publishers, %u strands, %u symbols, record %u, segments %u, idle %d, "
      "on_full %d, capacity %u, "
      "budget %u, drains %d, python %u, fail %u, nest %u, tasks %u, timed %u, guards %u, python_workers %u, stop %u\n",
      round, what, S.n_workers, S.n_publishers, S.n_strands, S.n_symbols, S.record_size, c->sizes.n_segments, c->idle,
      c->on_full, c->capacity, c->budget_records, c->publisher_drains, S.python, S.fail_one_in, S.nest_one_in,
      S.task_one_in, S.timed, S.guards, c->python_workers, S.stop_early);
  for (uint32_t i = 0; i < S.n_strands; i++) {
    sd_inspection k;
    sd_strand_inspect(S.d, i, &k);
    if (k.pending || k.owner)
      printf("  strand %u: pending %lld owner %llu control %u\n", i, (long long)k.pending, (unsigned long long)k.owner,
             k.control);
  }
  return 1;
}

/* What each round adds to the sums, by a name and an expression of play(). A part of the engine that no round came by was not stressed. */
#define PARTS(X) \
  X("accepted", t.accepted) \
  X("handled", t.handled) \
  X("dropped", dropped) \
  X("shed", t.dropped[SD_DROPPED_SHED]) \
  X("failed", t.failed + t.lost) \
  X("stolen", t.stolen) \
  X("handled_inline", t.handled_inline) \
  X("ungrouped", t.handled_ungrouped) \
  X("in blocks", t.handled_in_blocks) \
  X("in blocks of sources", in_sources) \
  X("kept back by these", kept_back) \
  X("parks", t.parks) \
  X("wakes", t.wakes) \
  X("stopped before the end", (uint64_t)stopped) \
  X("tasks", ran) \
  X("timers", timers) \
  X("merged", S.merged) \
  X("of timers", S.merged_timers) \
  X("looks", S.looks) \
  X("not believed", S.looks - S.believed)
#define NAME(name, value) name,
#define VALUE(name, value) value,
static const char *const part[] = {PARTS(NAME)};
enum { N_PARTS = sizeof part / sizeof *part };
static uint64_t sum[N_PARTS], rounds;

static int all_told(void) {
  for (uint32_t i = 0; i < S.n_publishers; i++)
    for (uint32_t j = 0; j < FREES; j++)
      if (S.sources[i].frees[j].told != S.sources[i].frees[j].submitted) return 0;
  return 1;
}

static int play(uint32_t round) {
  prepare(round);
  if (sd_space_create(0, 0, &S.space) || sd_dispatcher_create(S.space, &S.config, &S.d))
    return fail("the configuration was refused", round);
  uint16_t handler_of[SYMBOLS] = {0};
  for (uint32_t i = 0; i < S.n_symbols; i++) S.map[i] = i % S.n_strands;
  int pure = !S.nest_one_in && (one_of(0, 1) || S.blocks);
  static const uint32_t its_outputs[1] = {0};
  const uint32_t bytes = sizeof(emission);
  sd_handler handlers[2] = {
      {native, NULL, pure, S.emits, its_outputs, .wake = S.timed ? wake : NULL, .yields = (int32_t)S.yields},
      {NULL, NULL, 0, S.emits, its_outputs, .wakes = (int32_t)S.timed}};
  /* What may be in flight beyond the bound has to have room: two records a tick, and about one timer each. */
  uint64_t in_flight = (uint64_t)S.n_strands * S.config.capacity + BATCH * SOURCES + (S.nest_one_in ? 20000 : 2000);
  uint64_t room = in_flight * (S.timed ? 3 : 2) * 48 / SD_OUTPUT_SLACK * (one_of(0, 1) ? 2 : 20);
  if (S.emits && sd_dispatcher_outputs(S.d, &bytes, 1, room + sd_outputs_minimum(S.d, 1)))
    return fail("refused its outputs", round);
  for (uint32_t i = 0; S.python && i < S.n_strands; i++) handler_of[i] = (uint16_t)one_of(0, 1);
  if (sd_dispatcher_route(S.d, S.map, handler_of) || sd_dispatcher_handlers(S.d, handlers, 2))
    return fail("refused its handlers", round);

  for (uint32_t i = 0; S.guards && i < S.n_strands; i++)
    if (sd_dispatcher_mark(S.d, i, one_of(0, SD_ALL_MARKS))) return fail("refused a mark", round);
  for (uint32_t i = 0; S.sheds && i < S.n_strands; i++)
    if (sd_dispatcher_prioritise(S.d, i, i % SD_LEVEL_COUNT, 0)) return fail("refused a level", round);

  pthread_t workers[WORKERS], publishers[SOURCES], control;
  sd_store(&S.publishing, S.n_publishers, relaxed, X1);
  for (uint32_t i = 0; i < S.n_workers; i++) pthread_create(&workers[i], NULL, worker, (void *)(uintptr_t)i);
  for (uint32_t i = 0; i < S.n_publishers; i++) {
    S.sources[i].random = one_of(1, 1000000);
    S.sources[i].index = (int32_t)i;
    pthread_create(&publishers[i], NULL, publisher, &S.sources[i]);
  }
  pthread_create(&control, NULL, controller, NULL);
  pthread_t looking, merging;
  sd_store(&S.looking, 1u, relaxed, X1);
  pthread_create(&looking, NULL, looker, NULL);
  sd_store(&S.merging, S.emits, relaxed, X1);
  if (S.emits) pthread_create(&merging, NULL, merger, NULL);

  for (uint32_t i = 0; i < S.n_publishers; i++)
    if (join(publishers[i])) return fail("a publisher waits for ever", round);
  pthread_join(control, NULL);
  int code = SD_AGAIN, drains = one_of(0, 3) != 0, stopped = 0;
  patience p = {0, 0};
  sd_totals t = {0};
  uint64_t failures = 0;
  /* A strand that its last record put in quarantine may have a timer yet. */
  while (drains && (code == SD_AGAIN || (!code && S.heals && (t.pending || t.failures != failures)))) {
    failures = t.failures;
    for (uint32_t i = 0; S.heals && i < S.n_strands; i++) sd_dispatcher_resume(S.d, i, SD_QUARANTINED);
    code = sd_dispatcher_drain(S.d, SD_NONE, LOOK_NS);
    sd_dispatcher_totals(S.d, &t);
    if (code == SD_AGAIN && is_over(&p)) return fail("something is pending and nobody comes for it", round);
  }
  stopped = code != SD_OK;
  sd_dispatcher_stop(S.d);
  for (uint32_t i = 0; i < S.n_workers; i++)
    if (join(workers[i])) return fail("a worker sleeps through the stop", round);
  sd_store(&S.looking, 0u, release, X1);
  pthread_join(looking, NULL);

  if (S.emits) {
    sd_store(&S.merging, 0u, release, X1);
    pthread_join(merging, NULL);
    merge(stopped ? SD_FINAL_ABANDONED : SD_FINAL_ALL);
    if (!S.wrong && sd_outputs_late(S.d) && !S.d->outputs->passed) S.wrong = "something was emitted too late";
    if (S.wrong) return fail(S.wrong, round);
  }
  uint32_t strand;
  char what[160];
  if (sd_dispatcher_verify(S.d, &strand, what)) return fail(what, round);
  sd_dispatcher_totals(S.d, &t);
  const int at_rest = !stopped && (S.heals || !t.failures);
  uint64_t stride, due_timers = 0, timers = 0, handled = 0, emitted = 0, errors = 0,
                   accepted = sd_load(&S.nested, relaxed, X1);
  unsigned char *rows = sd_dispatcher_rows(S.d, &stride);
  for (uint32_t i = 0; i < S.n_symbols; i++) {
    row *r = (row *)(rows + i * stride);
    handled += r->handled;
    emitted += r->emitted;
    errors += r->errors;
    timers += r->wakes;
    due_timers += r->alarm && r->alarm <= sd_feed_time(S.d);
  }
  uint64_t in_sources = 0, kept_back = 0;
  int64_t counted = 0;
  for (uint32_t i = 0; i < S.n_publishers; i++) {
    const source *from = &S.sources[i];
    accepted += from->accepted, in_sources += from->in_sources, kept_back += from->kept_back;
    for (uint32_t key = 0; key < S.n_symbols; key++) counted += from->counts[key];
  }
  uint64_t ran = 0, waiting = 0;
  for (uint32_t i = 0; i < S.n_publishers; i++)
    for (uint32_t j = 0; j < S.sources[i].n_tasks; j++) {
      const task *k = &S.sources[i].tasks[j];
      uint32_t times = sd_load((sd_a32 *)&k->ran, relaxed, X1);
      if (times + k->given_up > 1) return fail("a task ran twice, or although it was given up", round);
      ran += times;
      waiting += !times && !k->given_up;
    }
  if (!stopped && !all_told()) return fail("drained, and a free task waits or ran twice", round);
  sd_tasks_stop(S.d);
  if (!all_told()) return fail("a free task was not told once how it ended", round);
  if (at_rest && due_timers) return fail("drained, and a timer is due", round);
  if (!stopped && sd_load(&S.free_pythons, relaxed, X1) != sd_load(&S.free_pythons_ran, relaxed, X1))
    return fail("drained, and a free task of Python's has not run once", round);
  if (at_rest && waiting) return fail("drained, and a task waits", round);
  uint64_t dropped = t.dropped[0] + t.dropped[1] + t.dropped[2] + t.dropped[3] + t.dropped[4];
  if (errors) return fail("records out of order, twice or missing", round);
  if (stopped ? S.merged > emitted : S.merged != emitted) return fail("what was emitted was not all merged", round);
  if (S.emits && (stopped ? S.merged_timers > timers : S.merged_timers != timers))
    return fail("what timers emitted was not all merged", round);
  if ((uint64_t)counted != in_sources) return fail("sources do not count what blocks handled", round);
  if (accepted != t.accepted) return fail("accepted is not what publishers were told", round);
  if (handled != t.handled) return fail("handled is not what handlers ran over", round);
  if (t.accepted != t.handled + t.failed + t.lost + dropped + t.pending) return fail("the books do not balance", round);
  if (!admission_balances(&t, dropped)) return fail("the books of admission do not balance", round);
  if (at_rest && sd_watermark(S.d) - S.config.sizes.counters_start < t.accepted - dropped)
    return fail("drained, and the watermark stays behind", round);
  if (at_rest && t.pending) return fail("drained, and something is pending", round);
  static const char *const why[] = {"publish failed for no reason",
                                    "the watermark went back",
                                    "a look was believed, and its rows do not count its strand's records",
                                    "a hold was refused",
                                    "more workers in tasks of Python's than may be",
                                    "the feed's time goes back"};
  const uint32_t bad = sd_load(&S.bad, relaxed, X1);
  if (bad) return fail(why[bad - 1], round);
  const uint64_t its[] = {PARTS(VALUE)};
  for (int i = 0; i < N_PARTS; i++) sum[i] += its[i];
  rounds++;
  sd_dispatcher_destroy(S.d);
  sd_space_destroy(S.space);
  return 0;
}

int main(int argc, char **argv) {
  double seconds = argc > 1 ? atof(argv[1]) : 60;
  seed = argc > 2 ? (uint32_t)strtoul(argv[2], NULL, 10) : 1;
  uint64_t start = sd_monotonic_ns();
  int bad = 0;
  uint32_t round = 0;
  while (!bad && (double)(sd_monotonic_ns() - start) / 1e9 < seconds) bad = play(round++);
  for (int i = 0; i < N_PARTS && !bad && rounds >= 100; i++) {
    if (sum[i]) continue;
    fprintf(stderr, "in no round there was anything of: %s\n", part[i]);
    bad = 1;
  }
  printf("%s %llu rounds, %.0f s", bad ? "FAILED" : "ok", (unsigned long long)rounds,
         (double)(sd_monotonic_ns() - start) / 1e9);
  for (int i = 0; i < N_PARTS; i++) printf("%s %s %llu", i ? "," : ":", part[i], (unsigned long long)sum[i]);
  printf("\n");
  return bad;
}
