/* The real dispatcher under the seeded scheduler: publishers, workers (native and as Python ones behave), steals, pauses,
 * every bound, on a strand, on a level and in all, failing handlers, handlers that publish, tasks between records, stops. After each run the contract is checked.
 *
 * schedule [SEEDS] [FIRST]    or SEED=n schedule, to run one again and print it; POLICY=NAME: under that policy
 */
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "blocks/choice.h"
#include "crashes.h"
#include "engine/api.h"
#include "sd_error.h"
#include "seeded/scheduler.h"

enum { TASKS = 64, FREES = 48, FREE_TAG = 1000 };
enum { LONG_CALL = 80 }; /* records */
enum { RECORD = 1984, SYMBOLS = 40, STRANDS = 40, SOURCES = 4, MAX_STEPS = 2000000 };

typedef struct record {
  uint32_t key, source;
  uint64_t sequence; /* a source's and symbol's, from 1 */
  uint32_t fails, nests;
  uint64_t time;
} record;

/* A task and what its publisher had published of each symbol when it queued it. */
typedef struct task {
  uint32_t strand, source;
  uint64_t before[SYMBOLS];
  int queued, ran, given_up, kept;  /* kept: it could not be given up, so a worker has it */
  int in_c, told;                   /* told: its function was called for the last time, with whatever */
  int turns, suspended, away, over; /* turns: how many more it asks for; over: its last turn has ended */
} task;

/* A free task. It runs once, or its function is told once why it did not run. */
typedef struct free_task {
  uint64_t handle;
  uint32_t priority;
  int submitted, in_c, ran, told, given_up, changed, expires;
  int turns, suspended, away, over;
} free_task;

typedef struct run {
  sd_config config;
  sd_space *space;
  sd_dispatcher *d;
  task tasks[TASKS];
  uint32_t n_tasks, tasking, timed, yields;
  free_task frees[FREES];
  uint32_t n_frees, free_tasking, suspending;
  uint32_t away[FREES + TASKS], away_by[FREES + TASKS],
      n_away; /* entries of tasks that are away, and their participants */
  uint64_t copied[FREES];
  uint64_t clock, alarm[SYMBOLS], last_time[SYMBOLS]; /* a symbol's timer, and the time of its last record */
  uint64_t woken[SYMBOLS];                            /* and of the last timer that fired */
  uint64_t wakes;
  uint32_t n_symbols, n_strands, n_publishers, n_workers, python, stop_early, activates, n_batches, n_controls, helps,
      failing, nesting;
  uint32_t map[SYMBOLS], stride, emits;
  uint32_t in_python; /* workers that run tasks of Python's */
  uint32_t blocks;    /* long calls, which may go in blocks */
  int running[STRANDS];
  task *middle[STRANDS];           /* a task that has begun, and is not over */
  uint64_t seen[SYMBOLS][SOURCES]; /* last sequence handled */
  uint64_t next[SYMBOLS][SOURCES]; /* next sequence to publish */
  uint64_t handled, accepted, dealt, failed;
  uint64_t emitted[SYMBOLS], merged[SYMBOLS];             /* for a symbol's records, */
  uint64_t timer_emitted[SYMBOLS], timer_merged[SYMBOLS]; /* and for its timers */
  uint64_t number;                                        /* of the last record that was merged for a record */
  sd_emitted last;                                        /* what was merged last */
  int merging, drained;
  int left;               /* publishers and controllers at work */
  uint32_t guards, lifts; /* guards: strands are held back; lifts: so that they need not rise to be let go */
  int guarding;
  int workers_left;
  int stopped;
  char what[160];
} run;

static run R;
static uint64_t in_blocks; /* records of all runs */
static int POLICY;

static record *at(const void *records, int64_t i) { return (record *)((char *)records + (size_t)i * R.stride); }

static void broken(const char *what) {
  snprintf(R.what, sizeof R.what, "%s", what);
  sd_scheduler_fail(R.what);
}

static int lossless(void) { return R.config.on_full == SD_BLOCK || R.config.on_full == SD_RAISE; }

/* ---- bounds over strands: exact at every moment, by what the strands themselves count */

/* Reads without a step of the scheduler, so that all is of one moment. */
static uint64_t now_in(const sd_a64 *counter) { return *(const volatile uint64_t *)(const void *)counter; }

static uint64_t waits_on(uint32_t strand) {
  const sd_strand *s = &R.d->strands[strand];
  const uint64_t dropped = now_in(&s->dropped[SD_DROPPED_NEWEST]) + now_in(&s->dropped[SD_DROPPED_QUARANTINED]);
  const uint64_t failed = *(const volatile uint32_t *)(const void *)&s->failed;
  const int64_t n = (int64_t)(now_in(&s->accepted) - dropped - now_in(&s->handled) - failed);
  return n > 0 ? (uint64_t)n : 0; /* what is dropped is counted a moment before it is accepted */
}

static void within_bounds(void) {
  uint64_t of[SD_LEVEL_COUNT] = {0}, all = 0;
  /* What is handled inline waits nowhere, but strands count it as accepted first. */
  if (!R.d->admitted || R.d->may_run_inline) return;
  for (uint32_t i = 0; i < R.n_strands; i++) {
    const uint64_t n = waits_on(i);
    of[*(const volatile uint32_t *)(const void *)&R.d->admissions[i].level] += n;
    all += n;
  }
  if (R.config.total_capacity && all > R.config.total_capacity) broken("more waits than the bound in all");
  for (uint32_t level = 0; level < SD_LEVEL_COUNT; level++)
    if (R.config.level_capacity[level] && of[level] > R.config.level_capacity[level])
      broken("more waits than the bound on its level");
}

/* Draws bounds for every fourth seed, from numbers of its own: the others' runs stay what they were. */
static void draw_bounds(sd_config *c, uint64_t seed) {
  uint64_t random = (seed + 1) * UINT64_C(0x9e3779b97f4a7c15);
  const int own_room = c->on_full == SD_DROP_OLDEST || c->on_full == SD_CONFLATE;
  if (seed % 4 || (own_room && POLICY != SD_LEVELS)) return;
  if (own_room || (POLICY == SD_LEVELS && random >> 60 < 8)) c->on_full = SD_SHED;
  /* Quarantined strands keep what they hold, and publishers that wait would wait for ever. */
  const uint64_t least = R.failing && c->on_full == SD_BLOCK ? R.n_strands * c->capacity + 1 : 1;
  if (c->on_full == SD_SHED || POLICY != SD_LEVELS || random >> 48 & 1) c->total_capacity = least + (random >> 50) % 12;
  for (uint32_t level = 0; level < SD_LEVEL_COUNT && POLICY == SD_LEVELS; level++)
    if (random >> (8 * level) & 1) c->level_capacity[level] = least + (random >> (8 * level + 1)) % 6;
}

/* At rest, records admitted less records ended are those pending, and the drops by level add up to all drops. */
static const char *check_admission(const sd_totals *t, uint64_t dropped) {
  uint64_t waits = 0, at = 0;
  for (uint32_t level = 0; level < SD_LEVEL_COUNT; level++) {
    at += t->dropped_at[level];
    for (uint32_t i = 0; R.d->admitted && i < R.d->n_participants; i++)
      waits += sd_peek(&R.d->admitted[i].admitted[level]) - sd_peek(&R.d->admitted[i].ended[level]);
  }
  if (R.d->admitted && waits != t->pending) return "what was admitted and has not ended is not what is pending";
  if (POLICY == SD_LEVELS && at != dropped) return "drops by level do not add up to all drops";
  return NULL;
}

/* ---- timers: what each symbol asked for, and that it comes between the right records */

static uint64_t some_alarm(uint64_t time) { return sd_scheduler_random(5) ? time + sd_scheduler_random(12) : 0; }

static void expect_alarm(uint32_t key, uint64_t time, uint64_t ns) { R.alarm[key] = ns && ns <= time ? time + 1 : ns; }

static void before_record(uint32_t key, uint64_t time) {
  if (R.alarm[key] && R.alarm[key] <= time) broken("a record before a timer that is due");
  if (time < R.last_time[key]) broken("time runs back along a symbol");
  if (time < R.woken[key]) broken("a record after a timer that it comes before");
  R.last_time[key] = time;
}

static void before_wake(uint32_t key, uint64_t time) {
  if (R.alarm[key] != time) broken("a timer that nobody asked for");
  if (R.last_time[key] >= time) broken("a timer after a record that it comes before");
  if (time > sd_feed_time(R.d)) broken("a timer before its time");
  if (R.running[R.map[key]]) broken("a timer beside a handler");
  R.alarm[key] = 0;
  R.woken[key] = time;
  R.wakes++;
}

/* What is emitted: a record, or a timer's, numbered along the symbol. */
typedef struct emission {
  uint64_t nth;
  uint32_t key;
  unsigned char more[48]; /* two a chunk */
} emission;

static int wake(void *rows, uint32_t key, int64_t at, sd_context *ctx) {
  const uint64_t time = (uint64_t)at;
  before_wake(key, time);
  R.running[R.map[key]] = 1;
  sd_schedule_point("timer");
  emission e = {R.timer_emitted[key] + 1, key, {0}};
  if (R.emits && sd_emit(ctx, 0, -1, &e)) broken("no room for what a timer emits");
  R.running[R.map[key]] = 0;
  uint64_t ns = some_alarm(time);
  ctx->wake_at(ctx, key, ns);
  if (ns) expect_alarm(key, time, ns);
  if (R.failing && sd_scheduler_random(16) == 0) return 1;
  R.timer_emitted[key]++;
  return 0;
}

/* ---- free tasks */

static uint32_t some_priority(void) {
  const uint32_t class = sd_scheduler_random(POLICY == SD_AGING ? R.config.policy.aging.n_classes : 1);
  if (POLICY == SD_LEVELS) return sd_scheduler_random(SD_LEVEL_COUNT);
  if (POLICY == SD_AGING) return class << 30 | (SD_AGING_USUAL - 4 + sd_scheduler_random(9));
  return POLICY == SD_FAIR ? sd_scheduler_random(R.n_strands) : SD_USUAL_PRIORITY;
}

static void free_task_ends(sd_task_context *ctx, void *argument, int why);

/* How many turns a task asks for, after its first one. */
static int some_turns(void) { return R.suspending && sd_scheduler_random(2) ? 1 + (int)sd_scheduler_random(3) : 0; }

/* Whether a function in C asks for another turn. */
static int asks_for_more(sd_task_context *ctx, int why, int *turns) {
  if (why != SD_TASK_RUN || !*turns) return 0;
  --*turns;
  ctx->should_yield(ctx);
  return ctx->again = 1;
}

/* Draws up to n free tasks and submits them in one call, through a context or as a guest. */
static void submit_free(uint32_t n, sd_context *handler, sd_task_context *from) {
  sd_task_spec specs[4];
  uint32_t first = R.n_frees;
  if (!R.free_tasking || !n || first + n > FREES) return;
  R.n_frees += n;
  for (uint32_t i = 0; i < n; i++) {
    const uint64_t number = first + i;
    free_task *t = &R.frees[number];
    t->in_c = (int)sd_scheduler_random(2);
    t->expires = t->in_c && sd_scheduler_random(4) == 0;
    t->turns = some_turns();
    t->priority = sd_scheduler_random(4) ? some_priority() : SD_USUAL_PRIORITY;
    specs[i] = (sd_task_spec){
        .key = SD_NO_KEY, .priority = t->priority, .within_ns = t->expires ? 1 + sd_scheduler_random(300) : 0};
    specs[i].marks = sd_scheduler_random(SD_ALL_MARKS + 1);
    if (!t->in_c) {
      specs[i].tag = FREE_TAG + number;
      continue;
    }
    specs[i].fn = free_task_ends;
    specs[i].argument = &t->submitted;
    if (sd_scheduler_random(2)) continue;
    uint64_t *copied = &R.copied[number];
    *copied = number;
    specs[i].argument = copied;
    specs[i].argument_bytes = sizeof *copied;
    t->in_c = 2;
  }
  for (uint32_t i = 0; i < n; i++) R.frees[first + i].submitted = 1;
  const int64_t done = handler ? handler->submit(handler, specs, n)
                       : from  ? from->submit(from, specs, n)
                               : sd_tasks_submit(R.d, specs, n);
  if (done < 0 && done != SD_E_STOPPED) broken("free tasks were refused");
  for (uint32_t i = 0; i < n; i++) {
    free_task *t = &R.frees[first + i];
    if ((int64_t)i < done) t->handle = specs[i].handle;
    else if (t->told || t->ran) broken("a task that was refused ran");
    else t->submitted = 0;
  }
}

static void run_free(free_task *t, uint64_t number) {
  if (!t->submitted || t->ran) broken("a free task that nobody submitted, or twice");
  t->ran = 1;
  if (POLICY == SD_LEVELS && t->handle && !t->changed) {
    const uint32_t level = sd_level_now(R.d, R.d->ready.n_strands + (uint32_t)t->handle - 1);
    if (level != (t->priority == SD_USUAL_PRIORITY ? (uint32_t)SD_NORMAL : t->priority))
      broken("a task of another level");
  }
  sd_schedule_point("free task");
}

static void free_task_ends(sd_task_context *ctx, void *argument, int why) {
  free_task *t = (free_task *)((char *)argument - offsetof(free_task, submitted));
  uint64_t number = 0;
  const char *first = (const char *)R.frees, *behind = (const char *)(R.frees + FREES);
  if ((char *)argument < first || (char *)argument >= behind) {
    memcpy(&number, argument, sizeof number);
    if (number >= R.n_frees || R.frees[number].in_c != 2) broken("what a task copied is gone");
    t = &R.frees[number];
  }
  if (t->told) broken("a free task is told twice how it ended");
  if (why == SD_TASK_RUN && t->given_up) broken("a task that was given up runs");
  if (why == SD_TASK_CANCELLED && t->handle && !t->given_up && !t->changed) broken("nobody gave this task up");
  if (why == SD_TASK_EXPIRED && !t->expires) broken("a task without a deadline expired");
  if (why == SD_TASK_EXPIRED && t->ran) broken("a task expired that had begun");
  if (why == SD_TASK_RUN && !t->ran) run_free(t, number);
  else if (why == SD_TASK_RUN) sd_schedule_point("a free task's turn");
  if (asks_for_more(ctx, why, &t->turns)) return;
  t->told = 1;
  if (why == SD_TASK_STOPPED) {
    sd_task_spec more = {.tag = 1, .key = SD_NO_KEY, .priority = SD_USUAL_PRIORITY};
    if (ctx->submit(ctx, &more, 1) != SD_E_STOPPED) broken("a task was submitted after the end");
  }
  if (why != SD_TASK_RUN) return;
  t->over = 1;
  submit_free(sd_scheduler_random(3), NULL, ctx);
  /* What it copied stays its own until it has run. */
  if (t->in_c == 2 && memcmp(argument, &R.copied[number], sizeof number))
    broken("an entry was used again before its task had ended");
}

/* Changes a free task, or gives it up, whatever has become of it. */
static void change_free(void) {
  if (!R.n_frees) return;
  free_task *t = &R.frees[sd_scheduler_random(R.n_frees)];
  if (!t->handle) return;
  if (sd_scheduler_random(2)) {
    if (!R.d->policy->prioritise) return;
    t->changed = 1;
    const int code = sd_task_prioritise(R.d, t->handle, some_priority());
    if (code != SD_OK && code != SD_AGAIN) broken("a task cannot be changed");
    return;
  }
  t->changed = 1;
  const int had_run = t->told || (t->ran && !t->in_c);
  if (sd_task_give_up(R.d, t->handle) != SD_OK) return;
  if (had_run || t->over || (t->ran && !t->in_c)) broken("a free task that has run was given up");
  t->given_up = 1;
}

/* At the end each has run, been told, or been given up; or else waits until it is stopped. */
static const char *check_free(int over) {
  for (uint32_t i = 0; i < R.n_frees; i++) {
    const free_task *t = &R.frees[i];
    if (!t->submitted) continue;
    if (over && t->in_c && t->told != 1) return "a function was not told how its free task ended";
    if (over && !t->in_c && t->over + t->given_up != 1) return "a free task of Python's is lost";
  }
  return NULL;
}

/* Rule 1: publish order, and never two at a time. */
static int emit_one(const record *t, int64_t i, sd_context *ctx, const sd_py_batch *batch, uint32_t participant);

static int64_t handle(const void *records, int64_t n, sd_context *ctx, const sd_py_batch *batch, uint32_t participant,
                      int64_t first) {
  uint32_t s = R.map[at(records, 0)->key];
  if (R.running[s]) broken("two handlers of a strand at a time");
  if (R.middle[s]) broken("a handler in the middle of a task");
  R.running[s] = 1;
  within_bounds();
  int64_t done = n;
  for (int64_t i = 0; i < n; i++) {
    const record *t = at(records, i);
    if (t->key >= R.n_symbols || t->source >= SOURCES) broken("a record that nobody published");
    if (!ctx && R.map[t->key] != s) broken("a record on another's strand");
    uint64_t *seen = &R.seen[t->key][t->source];
    /* Records from inside handlers: several handlers number them, so they may be published in another order. */
    if (t->source == SOURCES - 1) *seen = t->sequence - 1;
    if (t->sequence <= *seen || t->sequence >= R.next[t->key][t->source]) broken("out of order, or twice");
    if (lossless() && !R.nesting && R.config.on_full == SD_BLOCK && t->sequence != *seen + 1)
      broken("a record is missing");
    *seen = t->sequence;
    if (R.timed && ctx) before_record(t->key, ctx->positions[i + first].time);
    sd_schedule_point("handler");
    if (t->nests && ctx) {
      union {
        record r;
        unsigned char bytes[RECORD];
      } more;
      int64_t in;
      memset(&more, 0, sizeof more);
      more.r.key = sd_scheduler_random(R.n_symbols);
      more.r.source = SOURCES - 1;
      more.r.sequence = R.next[more.r.key][more.r.source]++;
      ctx->publish(ctx, &more, 1, &in);
      R.accepted += (uint64_t)in;
    }
    if (ctx && sd_scheduler_random(4) == 0) submit_free(sd_scheduler_random(3), ctx, NULL);
    if (emit_one(t, first + i, ctx, batch, participant)) broken("no room for what is emitted");
    if (t->fails) {
      R.failed++;
      done = i;
      break;
    }
    R.handled++;
    R.emitted[t->key]++;
    if (R.timed && ctx && sd_scheduler_random(3) == 0) {
      uint64_t time = ctx->positions[i + first].time, ns = some_alarm(time);
      ctx->wake_at(ctx, t->key, ns);
      expect_alarm(t->key, time, ns);
      if (ctx->yield && R.yields) {
        done = i + 1;
        break;
      }
    }
  }
  R.running[s] = 0;
  return done;
}

static int emit_one(const record *t, int64_t i, sd_context *ctx, const sd_py_batch *batch, uint32_t participant) {
  emission e = {R.emitted[t->key] + 1, t->key, {0}};
  char message[104];
  if (!R.emits) return 0;
  return ctx ? sd_emit(ctx, 0, i, &e) : sd_py_emit(R.d, participant, batch, 0, &i, &e, 1, message);
}

/* Merged time never goes back. At one time timers come first, in the order of their keys. */
static void after_last(const sd_emitted *head) {
  const sd_emitted *last = &R.last;
  int is_timer = head->number == SD_TIMER;
  if (head->time < last->time) broken("merged time goes back");
  if (head->time == last->time && is_timer && last->number != SD_TIMER)
    broken("a timer is merged behind a record that it comes before");
  if (head->time == last->time && is_timer && last->number == SD_TIMER && head->key <= last->key)
    broken("timers of one time are not merged by their keys");
  R.last = *head;
}

static void merge(int how) {
  enum { MAX_TAKEN = 3, BYTES = SD_MERGED_HEAD + sizeof(emission) };
  unsigned char room[MAX_TAKEN * BYTES + 8];
  int64_t n;
  sd_outputs_round(R.d, how);
  do {
    n = sd_outputs_take(R.d, 0, room, MAX_TAKEN);
    for (int64_t i = 0; i < n; i++) {
      sd_emitted head;
      emission e;
      memcpy(&head, room + i * BYTES, SD_MERGED_HEAD);
      memcpy(&e, room + i * BYTES + SD_MERGED_HEAD, sizeof e);
      after_last(&head);
      uint64_t *merged = head.number == SD_TIMER ? R.timer_merged : R.merged;
      if (head.key != e.key || e.nth != ++merged[e.key]) broken("merged twice, or without one before it");
      if (head.number == SD_TIMER) continue;
      if (head.number < R.number) broken("merged out of order");
      R.number = head.number;
    }
  } while (n == MAX_TAKEN);
}

static void merger(void *unused, unsigned index) {
  while (R.merging) {
    merge(SD_FINAL_LIVE);
    for (int i = 0; i < 5; i++) sd_pause();
  }
}

static int64_t native(void *rows, const sd_tick *ticks, int64_t n, sd_context *ctx) {
  return handle(ticks, n, ctx, NULL, 0, 0);
}

/* Handlers that run under publish locks see records of several strands at a go. */
static int64_t pure(void *rows, const sd_tick *ticks, int64_t n, sd_context *ctx) {
  for (int64_t i = 0; i < n; i++) {
    int64_t done = handle(at(ticks, i), 1, ctx, NULL, 0, i);
    if (done != 1) return i;
    if (R.timed && R.yields && ctx->yield) return i + 1;
  }
  return n;
}

/* After all that its publisher published before, before anything after, and never beside the strand's handler: also in later turns. */
static void run_task_of_strand(task *t) {
  if (t->over || t->given_up) broken("a task twice, or although it was given up");
  if (R.running[t->strand]) broken("a task beside a handler");
  if (R.middle[t->strand] != (t->ran ? t : NULL)) broken("a task in the middle of another one");
  R.running[t->strand] = 1;
  t->ran = 1;
  R.middle[t->strand] = t;
  for (uint32_t key = 0; key < R.n_symbols; key++) {
    if (R.map[key] != t->strand) continue;
    uint64_t seen = R.seen[key][t->source];
    if (seen > t->before[key]) broken("a task after what was published later");
    if (R.config.on_full == SD_BLOCK && seen < t->before[key]) broken("a task before what was published earlier");
  }
  sd_schedule_point("task");
  R.running[t->strand] = 0;
}

/* Draws a bound on workers that run Python's tasks, from numbers of its own. It is meant for two workers and more. */
static uint32_t draw_python_workers(uint64_t seed) {
  const uint64_t random = (seed + 7) * UINT64_C(0x9e3779b97f4a7c15) >> 32;
  if (random % 4 == 0) return 0;
  return random % 4 == 1 ? SD_ALL_BUT_ONE : 1 + (uint32_t)(random >> 8) % R.n_workers;
}

/* A bound that follows the active workers may have been higher when those that run began. */
static void begin_python(void) {
  const uint32_t bound = R.config.python_workers, all = R.n_workers;
  const uint32_t most = bound == 0 ? all : bound != SD_ALL_BUT_ONE ? bound : all > 1 ? all - 1 : 1;
  if (++R.in_python > most) broken("more workers in tasks of Python's than may be");
}

/* A turn of a task of Python's: it ends, or is suspended. Nonzero: it has been suspended, and the worker has nothing in hand. */
static int run_task(uint32_t participant, sd_py_batch *batch, int resumes) {
  begin_python();
  const int is_free = batch->task >= FREE_TAG && batch->task < FREE_TAG + R.n_frees;
  if (!is_free && (batch->task == 0 || batch->task > R.n_tasks)) broken("a task that nobody queued");
  free_task *f = is_free ? &R.frees[batch->task - FREE_TAG] : NULL;
  task *t = is_free ? NULL : &R.tasks[batch->task - 1];
  int *suspended = f ? &f->suspended : &t->suspended, *turns = f ? &f->turns : &t->turns;
  if (*suspended != resumes) broken("a task is resumed that is not suspended, or begun that is");
  *suspended = 0;
  if (resumes) sd_task_resumed(R.d, participant);
  if (f && f->given_up) broken("a free task of Python's runs although it was given up");
  if (f && resumes) sd_schedule_point("a free task goes on");
  else if (f) run_free(f, batch->task - FREE_TAG);
  if (t && t->strand != batch->strand) broken("a task on another's strand");
  if (t) run_task_of_strand(t);
  if (*turns) {
    --*turns;
    sd_should_yield(R.d, participant, batch->strand);
    const int away = (int)sd_scheduler_random(2);
    const uint32_t entry = batch->strand;
    *suspended = 1;
    R.in_python--;
    if (sd_task_suspend(R.d, participant, batch, away)) broken("a task cannot be suspended");
    if (!away) return 1;
    R.away[R.n_away] = entry;
    R.away_by[R.n_away++] = participant;
    return 1;
  }
  if (t) R.middle[t->strand] = NULL;
  *(f ? &f->over : &t->over) = 1;
  R.in_python--;
  return 0;
}

/* The threads of tasks that are away: their blocks end. */
static void returner(void *unused, unsigned index) {
  while (R.workers_left) {
    for (uint32_t i = sd_scheduler_random(30); i && R.workers_left; i--) sd_pause();
    if (!R.n_away) {
      sd_pause();
      continue;
    }
    const uint32_t i = sd_scheduler_random(R.n_away), entry = R.away[i], by = R.away_by[i];
    R.away[i] = R.away[--R.n_away];
    R.away_by[i] = R.away_by[R.n_away];
    if (sd_is_task(R.d, entry) && sd_scheduler_random(2)) {
      /* A coroutine, which has ended. */
      free_task *f = &R.frees[sd_task_of(R.d, entry)->call - FREE_TAG];
      f->suspended = f->turns = 0;
      f->over = 1;
      if (sd_task_end_away(R.d, entry)) broken("a task that is away cannot end");
    } else if (sd_task_return(R.d, by, entry)) {
      broken("a task cannot come back");
    }
  }
}

static void task_ends(sd_task_context *ctx, void *argument, int why) {
  task *t = argument;
  if (t->told) broken("a task is told twice how it ended");
  if (why == SD_TASK_RUN) run_task_of_strand(t);
  if (asks_for_more(ctx, why, &t->turns)) return;
  t->told = 1;
  if (t->ran) R.middle[t->strand] = NULL;
  t->over = why == SD_TASK_RUN;
  submit_free(why == SD_TASK_RUN ? sd_scheduler_random(3) : 0, NULL, ctx);
}

static void worker(void *unused, unsigned index) {
  uint32_t participant = (uint32_t)(uintptr_t)unused;
  sd_py_batch batch;
  int code;
  while ((code = sd_worker_next(R.d, participant, &batch)) == SD_PY_RECORDS || code == SD_PY_TASK ||
         code == SD_PY_WAKE || code == SD_PY_RESUME) {
    if (code == SD_PY_TASK || code == SD_PY_RESUME) {
      if (run_task(participant, &batch, code == SD_PY_RESUME)) continue;
      if (sd_scheduler_random(2)) {
        int gone = 0;
        while (!gone && (code = sd_worker_task_next(R.d, participant, &batch)) == SD_PY_TASK)
          gone = run_task(participant, &batch, 0);
        if (gone) continue;
        if (code && code != SD_PY_OTHER) broken("what is next after a task?");
      } else {
        sd_worker_task_done(R.d, participant, &batch);
      }
      continue;
    }
    if (batch.n == 0 && code != SD_PY_WAKE) {
      sd_worker_done(R.d, participant, &batch, 0, 0, "");
      continue;
    }
    if (code == SD_PY_WAKE) {
      before_wake(batch.wake_key, batch.wake_time);
      sd_schedule_point("Python's timer");
      emission e = {R.timer_emitted[batch.wake_key] + 1, batch.wake_key, {0}};
      char message[104];
      if (R.emits && sd_py_emit_timer(R.d, participant, batch.wake_key, batch.wake_time, 0, 0, &e, 1, message))
        broken("no room for what Python's timer emits");
      uint64_t ns = some_alarm(batch.wake_time);
      if (ns) expect_alarm(batch.wake_key, batch.wake_time, ns);
      int fails = R.failing && sd_scheduler_random(16) == 0;
      if (!fails) R.timer_emitted[batch.wake_key]++;
      sd_worker_wake_done(R.d, participant, &batch, ns, fails, "as told");
      continue;
    }
    int64_t most = R.timed ? 1 + sd_scheduler_random((uint32_t)batch.n) : batch.n;
    for (int64_t i = 0; R.timed && i < most; i++) before_record(at(batch.records, i)->key, batch.positions[i].time);
    int64_t done = handle(batch.records, most, NULL, &batch, participant, 0);
    if (R.timed && done == most) {
      uint32_t key = at(batch.records, most - 1)->key;
      uint64_t ns = batch.positions[most - 1].time + 1 + sd_scheduler_random(12);
      if (sd_py_wake_at(R.d, &batch, most, ns)) broken("an alarm was refused");
      R.alarm[key] = ns;
      sd_worker_done(R.d, participant, &batch, most, 0, NULL);
      continue;
    }
    sd_worker_done(R.d, participant, &batch, done, done < batch.n, "as told");
  }
  if (code != SD_E_STOPPED) broken("a worker ended otherwise than by a stop");
  R.workers_left--;
}

static void enqueue_task(uint32_t source) {
  if (R.n_tasks == TASKS) return;
  uint32_t number = R.n_tasks++;
  task *t = &R.tasks[number];
  t->strand = sd_scheduler_random(R.n_strands);
  t->source = source;
  for (uint32_t key = 0; key < R.n_symbols; key++) t->before[key] = R.next[key][source] - 1;
  uint64_t handle;
  t->in_c = (int)sd_scheduler_random(2);
  t->turns = some_turns();
  if (t->in_c) {
    uint32_t key = sd_scheduler_random(R.n_symbols);
    t->strand = R.map[key];
    sd_task_spec spec = {.fn = task_ends, .argument = t, .key = key};
    if (sd_tasks_submit(R.d, &spec, 1) != 1) t->given_up = 1, t->told = 1;
    handle = spec.handle;
  } else if (sd_task_enqueue(R.d, t->strand, number + 1, &handle)) {
    t->given_up = 1;
  }
  if (t->given_up) return;
  t->queued = 1;
  if (sd_scheduler_random(3)) return;
  for (uint32_t i = sd_scheduler_random(6); i; i--) sd_pause();
  int code = sd_task_give_up(R.d, handle);
  if (code == SD_OK && (t->over || (t->ran && !t->in_c))) broken("a task that has run was given up");
  t->given_up = code == SD_OK;
  t->kept = code == SD_AGAIN;
}

static void publisher(void *unused, unsigned index) {
  uint32_t source = (uint32_t)(uintptr_t)unused;
  static _Alignas(8) unsigned char batches[SOURCES][8 * RECORD]; /* stays until publish ends */
  unsigned char *batch = batches[source];
  for (uint32_t b = 0; b < R.n_batches; b++) {
    int64_t participant = sd_publisher_enter(R.d), n = 1 + sd_scheduler_random(R.blocks ? LONG_CALL : 8);
    if (participant < 0) {
      sd_pause();
      continue;
    }
    for (uint32_t i = R.tasking ? sd_scheduler_random(3) : 0; i; i--) enqueue_task(source);
    submit_free(sd_scheduler_random(5), NULL, NULL);
    change_free();
    memset(batch, 0, sizeof batches[source]);
    for (int64_t i = 0; i < n; i++) {
      record *r = at(batch, i);
      r->key = sd_scheduler_random(R.n_symbols);
      r->source = source;
      r->sequence = R.next[r->key][source]++;
      r->fails = R.failing && sd_scheduler_random(R.blocks ? 64 : 16) == 0;
      R.clock += sd_scheduler_random(4);
      r->time = R.clock;
      r->nests = R.nesting && sd_scheduler_random(4) == 0;
    }
    int code = (n % 2 ? sd_publish_own : sd_publish)(R.d, (uint32_t)participant, batch, n, 30);
    while (code == SD_AGAIN) {
      sd_pause();
      code = sd_publish_more(R.d, (uint32_t)participant, 30);
    }
    int64_t rejected = code ? sd_publish_rejected(R.d, (uint32_t)participant, 0, NULL, 0) : 0;
    if (code && code != SD_E_STOPPED && code != SD_E_FULL) broken("publish failed for no reason");
    if (code == SD_E_FULL && R.config.on_full != SD_RAISE) broken("full although it should wait");
    R.accepted += (uint64_t)(n - rejected);
    within_bounds();
    /* Tasks and timers take no place, and count as pending all the same; so does what a lossy strand's worker still holds. */
    for (uint32_t i = 0; i < R.n_strands && !R.tasking && !R.timed && !R.d->lossy; i++)
      if (sd_load(&R.d->strands[i].pending, relaxed, X1) > R.config.capacity)
        broken("more is pending than the bound allows");
    sd_publisher_leave(R.d, (uint32_t)participant);
    if (code == SD_E_STOPPED) break;
  }
  R.left--;
}

static uint32_t one_of(uint32_t low, uint32_t high) { return low + sd_scheduler_random(high - low + 1); }

/* Changes what may change of a policy that runs. */
static void change_policy(void) {
  const uint64_t timeout_ns[SD_LEVEL_COUNT] = {0, one_of(1, 50), one_of(50, 100), one_of(100, 200), one_of(200, 400)};
  if (R.config.policy.number == SD_LEVELS && sd_dispatcher_retime(R.d, timeout_ns)) broken("timeouts were refused");
  if (R.config.policy.number == SD_FAIR &&
      sd_dispatcher_weigh(R.d, sd_scheduler_random(R.n_strands), one_of(100, 3000)))
    broken("a weight was refused");
}

/* Pauses and resumes strands; at the end it resumes all that it paused. */
static void controller(void *unused, unsigned index) {
  const sd_aging_config *c = &R.config.policy.aging;
  for (uint32_t i = 0; i < R.n_controls; i++) {
    uint32_t s = sd_scheduler_random(R.n_strands);
    if (R.config.policy.number == SD_LEVELS)
      sd_dispatcher_prioritise(R.d, s, sd_scheduler_random(SD_LEVEL_COUNT), (int)sd_scheduler_random(2));
    if (R.config.policy.number == SD_AGING)
      sd_dispatcher_prioritise(R.d, s,
                               sd_scheduler_random(c->n_classes) << 30 | (SD_AGING_USUAL - 4 + sd_scheduler_random(9)),
                               (int)sd_scheduler_random(2));
    if (R.config.policy.number == SD_FAIR) sd_dispatcher_prioritise(R.d, s, sd_scheduler_random(R.n_strands), 0);
    change_free();
    if (sd_scheduler_random(2)) change_policy();
    if (R.activates && sd_dispatcher_activate(R.d, one_of(1, R.n_workers))) broken("workers cannot be activated");
    sd_dispatcher_hold(R.d, s, SD_PAUSED);
    for (uint32_t j = sd_scheduler_random(20); j; j--) sd_pause();
    sd_dispatcher_resume(R.d, s, SD_PAUSED);
    if (R.stop_early && i + 1 == R.n_controls) sd_dispatcher_stop(R.d);
    sd_watermark(R.d);
  }
  R.left--;
}

static void hold_back(uint32_t resources) {
  uint32_t waiting;
  if (sd_dispatcher_hold_back(R.d, resources, &waiting)) broken("a hold was refused");
  if (waiting & resources) broken("a round goes on while strands are held back");
}

/* With `lifts`, resources are drawn again and again, none of them too. Without it, what is held back goes on by rising alone until all is
 * drained: nothing may sleep for ever. A marked strand of the highest level does not rise, so none is held for SD_IO then. */
static void guard(void *unused, unsigned index) {
  const uint32_t fixed = 1 + sd_scheduler_random((1u << SD_IO) - 1);
  while (R.guarding) {
    hold_back(R.lifts ? sd_scheduler_random(1u << SD_RESOURCE_COUNT) : fixed);
    for (uint32_t i = sd_scheduler_random(60); i && R.guarding; i--) sd_pause();
  }
  hold_back(0);
}

/* When all is published: nobody helps and all must be handled all the same (rule 3), but what is quarantined. */
static void closer(void *unused, unsigned index) {
  while (R.left) sd_pause();
  int code = SD_AGAIN;
  int64_t participant = R.helps ? sd_publisher_enter(R.d) : -1;
  while (code == SD_AGAIN) {
    code = sd_dispatcher_drain(R.d, participant < 0 ? SD_NONE : (uint32_t)participant, 300);
    sd_pause();
  }
  for (uint32_t i = 0; i < R.n_symbols && code == SD_OK && !R.failing && R.timed; i++)
    if (R.alarm[i] && R.alarm[i] <= sd_feed_time(R.d)) broken("drained, but a timer is due");
  for (uint32_t i = 0; i < R.n_tasks && code == SD_OK && !R.failing; i++)
    if (!R.tasks[i].over && !R.tasks[i].given_up) broken("drained, but not all tasks have run");
  if (code == SD_OK && check_free(1)) broken("drained, but not all free tasks have ended");
  if (code == SD_OK && !R.failing && R.handled != R.accepted && R.config.on_full != SD_DROP_NEWEST && lossless())
    broken("drained, but not all was handled");
  if (participant >= 0) sd_publisher_leave(R.d, (uint32_t)participant);
  sd_dispatcher_stop(R.d);
  R.guarding = 0;
  while (R.workers_left) sd_pause();
  R.drained = code == SD_OK;
  R.merging = 0;
}

/* Of every eighth seed, all that keeps records from going in blocks goes away. */
static void draw_blocks(sd_config *c, uint64_t seed) {
  R.blocks = seed % 8 == 5;
  if (!R.blocks) return;
  R.stride = 64;
  R.nesting = R.python = 0;
  c->publisher_drains = 1;
  c->one_core = 0;
  c->on_full = SD_BLOCK;
  c->sizes.record_size = R.stride;
  c->total_capacity = 0;
  c->ingest = seed % 32 == 5 ? SD_INGEST_AUTO : SD_INGEST_BLOCKS;
}

static int prepare(uint64_t seed) {
  memset(&R, 0, sizeof R);
  R.n_workers = one_of(1, 3);
  R.workers_left = (int)R.n_workers;
  R.n_publishers = one_of(1, 3);
  /* Few strands meet often; many, beside few segments, run the pool dry. */
  R.n_strands = sd_scheduler_random(3) ? one_of(1, 4) : one_of(5, STRANDS);
  R.n_symbols = one_of(R.n_strands, R.n_strands <= 4 ? 6 : SYMBOLS);
  /* 1, 3 or 31 records a segment. */
  R.stride = (uint32_t[]){RECORD, 640, 64}[sd_scheduler_random(3)];
  R.n_batches = one_of(1, R.n_strands > 4 ? 12 : 4);
  R.n_controls = sd_scheduler_random(2) ? one_of(1, 4) : 0;
  R.stop_early = R.n_controls && sd_scheduler_random(6) == 0;
  R.activates = sd_scheduler_random(2);
  R.failing = sd_scheduler_random(4) == 0;
  R.nesting = sd_scheduler_random(5) == 0;
  R.helps = sd_scheduler_random(3) == 0;
  R.python = sd_scheduler_random(4) == 0;
  R.emits = R.merging = sd_scheduler_random(2) == 0;
  R.tasking = sd_scheduler_random(3) == 0;
  R.free_tasking = sd_scheduler_random(2);
  R.timed = sd_scheduler_random(3) == 0;
  R.yields = sd_scheduler_random(2);
  R.suspending = seed % 2; /* with nothing drawn, the runs of even seeds stay what they were */
  R.clock = 100;           /* after the time of R.last, which is 0 */
  sd_config *c = &R.config;
  c->time_offset = offsetof(record, time);
  uint32_t participants = R.n_workers + R.n_publishers + 1;
  c->sizes = (sd_sizes){.n_symbols = R.n_symbols,
                        .n_strands = R.n_strands,
                        .n_workers = R.n_workers,
                        .n_publishers = R.n_publishers + 1,
                        .record_size = R.stride,
                        .key_offset = 0,
                        .sequence_offset = 8,
                        .row_bytes = 8,
                        .n_segments = participants * 2 * SD_FREE_RUN + one_of(1, 12),
                        .has_positions = R.emits || R.timed,
                        .n_tasks = one_of(0, 12),
                        .counters_start = UINT64_MAX - one_of(0, 20)};
  c->idle = (int32_t)sd_scheduler_random(3);
  c->on_error = sd_scheduler_random(4) ? SD_ON_ERROR_QUARANTINE : SD_ON_ERROR_STOP;
  c->on_full = (int32_t)sd_scheduler_random(5);
  c->policy.number = POLICY;
  if (POLICY == SD_LEVELS) {
    R.guards = R.guarding = sd_scheduler_random(2);
    R.lifts = sd_scheduler_random(2);
    c->policy = (sd_policy_config){.number = SD_LEVELS, .levels = {.since_listed = (int32_t)sd_scheduler_random(2)}};
    for (uint32_t i = SD_HIGH; i < SD_LEVEL_COUNT; i++)
      c->policy.levels.timeout_ns[i] = c->policy.levels.timeout_ns[i - 1] + one_of(1, 400);
  }
  if (POLICY == SD_AGING) {
    sd_aging_config *aging = &c->policy.aging;
    aging->n_classes = sd_scheduler_random(3) ? SD_AGING_CLASSES : 1;
    for (uint32_t i = 0; i < SD_AGING_CLASSES; i++) aging->coefficient[i] = 1e6 * one_of(1, 40) * (i + 1);
    if (aging->n_classes > 1) aging->low_every = (uint32_t[]){0, 1, 3, SD_AGING_BY_LOAD}[sd_scheduler_random(4)];
    if (sd_scheduler_random(2)) aging->max_wait_ns = one_of(1, 2000);
  }
  if (POLICY == SD_FAIR) {
    c->policy = (sd_policy_config){.number = SD_FAIR, .fair = {one_of(1, 400), one_of(1, 400), 0}};
    if (sd_scheduler_random(3)) c->policy.fair.cpu_share = one_of(1, 10) / 10.0;
  }
  c->capacity = one_of(1, 7);
  if (c->on_full == SD_CONFLATE) c->capacity = one_of(R.n_symbols, R.n_symbols + 3);
  draw_bounds(c, seed);
  c->budget_records = one_of(1, 5);
  c->budget_ns = one_of(1, 400);
  c->batch_records = one_of(1, 8);
  c->ahead_records = one_of(0, 6);
  c->publisher_drains = (int32_t)sd_scheduler_random(2);
  c->one_core = (int32_t)sd_scheduler_random(2);
  c->python_workers = draw_python_workers(seed);
  draw_blocks(c, seed);
  /* A quarantined strand keeps what it holds: the pool has to have that much, or all the others wait for its segments. */
  if (R.failing) c->sizes.n_segments += R.n_strands * (c->capacity + 1);
  if (sd_space_create(0, 0, &R.space) || sd_dispatcher_create(R.space, c, &R.d)) return 0;
  uint16_t handler_of[STRANDS] = {0};
  for (uint32_t i = 0; i < R.n_symbols; i++) {
    R.map[i] = i % R.n_strands;
    for (uint32_t j = 0; j < SOURCES; j++) R.next[i][j] = 1;
  }
  int quiet = !R.nesting && (sd_scheduler_random(2) || R.blocks);
  static const uint32_t its_outputs[1] = {0};
  const uint32_t bytes = sizeof(emission);
  sd_handler handlers[2] = {{quiet ? pure : native, NULL, quiet, R.emits, its_outputs, .wake = R.timed ? wake : NULL,
                             .yields = (int32_t)R.yields},
                            {NULL, NULL, 0, R.emits, its_outputs, .wakes = (int32_t)R.timed}};
  /* Between the times of two records all symbols' timers may fire. */
  const uint64_t room = sd_outputs_minimum(R.d, 1) + one_of(0, 2) * 4000 + (R.timed ? R.n_symbols * 1000 : 0);
  if (R.emits && sd_dispatcher_outputs(R.d, &bytes, 1, room)) return 0;
  if (R.python)
    for (uint32_t i = 0; i < R.n_strands; i++) handler_of[i] = (uint16_t)sd_scheduler_random(2);
  if (sd_dispatcher_route(R.d, R.map, handler_of)) return 0;
  if (sd_dispatcher_handlers(R.d, handlers, 2)) return 0;
  for (uint32_t i = 0; R.guards && i < R.n_strands; i++) {
    if (sd_dispatcher_mark(R.d, i, sd_scheduler_random(SD_ALL_MARKS + 1))) return 0;
    sd_dispatcher_prioritise(R.d, i, sd_scheduler_random(SD_LEVEL_COUNT), 0);
  }
  for (uint32_t i = 0; i < R.n_strands && POLICY == SD_FAIR; i++) {
    if (sd_dispatcher_prioritise(R.d, i, sd_scheduler_random(R.n_strands), 0)) return 0;
    if (sd_scheduler_random(2) && sd_dispatcher_weigh(R.d, i, one_of(100, 3000))) return 0;
  }
  for (uint32_t i = 0; i < R.n_workers; i++) sd_scheduler_add(worker, (void *)(uintptr_t)i);
  for (uint32_t i = 0; i < R.n_publishers; i++, R.left++) sd_scheduler_add(publisher, (void *)(uintptr_t)i);
  if (R.n_controls) sd_scheduler_add(controller, NULL), R.left++;
  sd_scheduler_add(closer, NULL);
  if (R.emits) sd_scheduler_add(merger, NULL);
  if (R.guards) sd_scheduler_add(guard, NULL);
  if (R.suspending) sd_scheduler_add(returner, NULL);
  return 1;
}

/* Rules 2 and 3, at rest. */
static const char *check(void) {
  uint32_t strand;
  static char what[160];
  if (sd_dispatcher_verify(R.d, &strand, what)) return what;
  sd_totals t;
  sd_dispatcher_totals(R.d, &t);
  uint64_t dropped = t.dropped[0] + t.dropped[1] + t.dropped[2] + t.dropped[3] + t.dropped[4];
  if (t.accepted != R.accepted) {
    snprintf(what, sizeof what, "publishers were told %llu accepted, the counters say %llu",
             (unsigned long long)R.accepted, (unsigned long long)t.accepted);
    return what;
  }
  sd_tasks_stop(R.d);
  if (sd_dispatcher_verify(R.d, &strand, what)) return what;
  if (check_free(1) && R.drained) return check_free(1);
  for (uint32_t i = 0; i < R.n_frees; i++)
    if (R.frees[i].submitted && R.frees[i].in_c && R.frees[i].told != 1) return "a stop told not all free tasks";
  for (uint32_t i = 0; i < R.n_tasks; i++)
    if (R.tasks[i].in_c && R.tasks[i].told != 1) return "a stop told not all tasks";
  uint32_t waiting = 0, there = 0;
  for (uint32_t i = 0; i < R.n_tasks; i++) {
    waiting += !R.tasks[i].over && !R.tasks[i].given_up;
    if (R.tasks[i].kept && !R.tasks[i].ran && !R.tasks[i].told) return "a task that waits could not be given up";
  }
  for (uint32_t i = 0; i < R.n_strands; i++) {
    sd_inspection k;
    sd_strand_inspect(R.d, i, &k);
    there += k.tasks;
  }
  if (waiting > there) return "a task is lost";
  in_blocks += t.handled_in_blocks;
  if (t.handled != R.handled) return "handled is not what handlers ran over";
  if (t.failed != R.failed) return "failed is not what handlers failed on";
  if (t.accepted != t.handled + t.failed + t.lost + dropped + t.pending) return "the totals do not balance";
  if ((R.config.on_full == SD_BLOCK || R.config.on_full == SD_RAISE) && t.dropped[0] + t.dropped[1] + t.dropped[2])
    return "dropped although nothing may be";
  if (!R.failing && t.lost) return "lost without a failure";
  const char *wrong = check_admission(&t, dropped);
  if (wrong) return wrong;
  if (R.emits) {
    merge(R.drained ? SD_FINAL_ALL : SD_FINAL_ABANDONED);
    if (R.what[0]) return R.what;
    for (uint32_t i = 0; i < R.n_symbols && R.drained; i++)
      if (R.merged[i] + sd_outputs_late(R.d) < R.emitted[i]) return "not all that was emitted was merged";
    for (uint32_t i = 0; i < R.n_symbols && R.drained; i++)
      if (R.timer_merged[i] < R.timer_emitted[i]) return "not all that timers emitted was merged";
    for (uint32_t i = 0; i < R.n_symbols; i++) {
      if (R.merged[i] > R.emitted[i]) return "merged what was emitted for a record that failed";
      if (R.timer_merged[i] > R.timer_emitted[i]) return "merged what was emitted by a timer that failed";
    }
    if (sd_outputs_late(R.d) && !R.d->outputs->passed) return "something was emitted too late";
  }
  uint64_t position = 0;
  for (int i = 0; i < 3; i++) position = sd_watermark(R.d);
  if (t.pending == 0 && position != t.watermark_sequence) return "all is handled and the watermark is not at the end";
  return NULL;
}

static int one(uint64_t seed, int loud) {
  begin_seed(seed);
  sd_scheduler_start(seed);
  if (!prepare(seed)) {
    printf("seed %llu: the dispatcher refused its configuration\n", (unsigned long long)seed);
    return 1;
  }
  int how = sd_scheduler_run(MAX_STEPS);
  const char *wrong = how == SD_DEADLOCK ? "deadlock: all that are left sleep"
                      : how == SD_NO_END
                          ? "no end: something is pending and nobody comes for it, or somebody waits for ever"
                      : how == SD_FAILED ? sd_scheduler_failure()
                                         : check();
  if (wrong || loud) {
    const sd_config *c = &R.config;
    printf("seed %llu: %s\n", (unsigned long long)seed, wrong ? wrong : "ok");
    printf("  %u workers, %u publishers, %u strands, %u symbols, idle %d, on_full %d, capacity %u, budget %u, drains "
           "%d, python %u, "
           "failing %u (on_error %d), nesting %u, tasks %u, timed %u, controls %u, guards %u (lifts %u), stop %u, "
           "python_workers %u, segments %u, record %u, steps %llu, bounds %llu %llu %llu %llu %llu %llu, accepted "
           "%llu, handled %llu\n",
           R.n_workers, R.n_publishers, R.n_strands, R.n_symbols, c->idle, c->on_full, c->capacity, c->budget_records,
           c->publisher_drains, R.python, R.failing, c->on_error, R.nesting, R.n_tasks, R.timed, R.n_controls, R.guards,
           R.lifts, R.stop_early, c->python_workers, c->sizes.n_segments, R.stride,
           (unsigned long long)sd_scheduler_steps(), (unsigned long long)c->total_capacity,
           (unsigned long long)c->level_capacity[0], (unsigned long long)c->level_capacity[1],
           (unsigned long long)c->level_capacity[2], (unsigned long long)c->level_capacity[3],
           (unsigned long long)c->level_capacity[4], (unsigned long long)R.accepted, (unsigned long long)R.handled);
    for (uint32_t i = 0; i < R.n_strands; i++) {
      /* Not sd_strand_inspect, which waits for a lock that nobody gives back any more. */
      sd_strand *k = &R.d->strands[i];
      printf("  strand %u: pending %lld, owner %llu, control %u, accepted %llu, handled %llu, failed %u, lost %u\n", i,
             (long long)sd_load(&k->pending, relaxed, X1),
             (unsigned long long)sd_owner_in(sd_load(&k->owner, relaxed, X1)), sd_load(&k->control, relaxed, X1),
             (unsigned long long)sd_load(&k->accepted, relaxed, X1),
             (unsigned long long)sd_load(&k->handled, relaxed, X1), sd_load(&k->failed, relaxed, X1),
             sd_load(&k->lost, relaxed, X1));
    }
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
  uint64_t seeds = argc > 1 ? strtoull(argv[1], NULL, 10) : 20000, first = argc > 2 ? strtoull(argv[2], NULL, 10) : 1,
           steps = 0;
  unsigned bad = 0, max_bad = getenv("KEEP_GOING") ? 20 : 1;
  struct timespec from, to;
  clock_gettime(CLOCK_MONOTONIC, &from);
  uint64_t i = 0;
  for (; i < seeds && bad < max_bad; i++) {
    bad += (unsigned)one(first + i, 0);
    steps += sd_scheduler_steps();
  }
  clock_gettime(CLOCK_MONOTONIC, &to);
  printf("%s %llu seeds from %llu, %llu steps, %llu records in blocks, %.1f s\n", bad ? "FAILED" : "ok",
         (unsigned long long)i, (unsigned long long)first, (unsigned long long)steps, (unsigned long long)in_blocks,
         (double)(to.tv_sec - from.tv_sec) + (double)(to.tv_nsec - from.tv_nsec) / 1e9);
  return bad != 0;
}
