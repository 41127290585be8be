#include "seeded/scheduler.h"

#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <ucontext.h>

#include "base/clock.h"
#include "schedule/idle.h"

enum { STACK_BYTES = 1 << 20, GUARD_BYTES = 1 << 16 }; /* no page is larger than the guard */
enum { OFTEN = 32, LONG = 400 };
enum { RUNS = 0, SLEEPS = 1, ENDED = 2 };

typedef struct fiber {
  ucontext_t context;
  char *stack;
  sd_fiber_fn fn;
  void *argument;
  int state;
  sd_a32 *word;      /* the futex word on which it sleeps */
  uint64_t until;    /* and until when, by the clock; 0: for ever */
  uint64_t steps;    /* that it made itself */
  uint64_t busy_ns;  /* that it was busy beside them */
  const char *label; /* the point at which it stands */
} fiber;

static fiber fibers[SD_FIBERS];
static unsigned n_fibers, current;
static unsigned caller;   /* of sd_scheduler_enter; SD_FIBERS: there is none */
static unsigned acts_for; /* the fiber for which the caller runs now, or itself */
static int running, result;
static ucontext_t outside;
static uint64_t state, steps, max_steps;
static uint64_t skipped; /* while all slept, in the clock's units */
static uint32_t stay;    /* on average, one point in `stay` switches */
static int keeps;        /* a fiber that is switched away may stay off for long, like a thread that lost its core */
static unsigned kept;
static uint64_t kept_until; /* in steps */
static const char *failure;

static uint64_t draw(void) {
  state += UINT64_C(0x9e3779b97f4a7c15);
  uint64_t z = state;
  z = (z ^ (z >> 30)) * UINT64_C(0xbf58476d1ce4e5b9);
  z = (z ^ (z >> 27)) * UINT64_C(0x94d049bb133111eb);
  return z ^ (z >> 31);
}

uint32_t sd_scheduler_random(uint32_t n) { return (uint32_t)((draw() >> 32) * n >> 32); }

void sd_scheduler_start(uint64_t seed) {
  state = seed * UINT64_C(0xd1342543de82ef95) + 1;
  n_fibers = 0;
  caller = acts_for = SD_FIBERS;
  steps = 0;
  skipped = 0;
  running = 0;
  failure = NULL;
  /* Some runs switch at every point, others let a fiber go on for long. */
  stay = 1u << sd_scheduler_random(6);
  keeps = (int)sd_scheduler_random(2);
  kept_until = 0;
}

void sd_scheduler_add(sd_fiber_fn fn, void *argument) {
  if (n_fibers == SD_FIBERS) abort();
  fiber *f = &fibers[n_fibers++];
  f->fn = fn;
  f->argument = argument;
  f->state = RUNS;
  f->word = NULL;
  f->until = f->steps = f->busy_ns = 0;
  f->label = "start";
}

static void leave(int why) {
  result = why;
  running = 0;
  swapcontext(&fibers[current].context, &outside);
}

/* Wakes the sleepers whose time has come. `may_skip`: lets the time of the first one come. */
static void time_out(int may_skip) {
  uint64_t now = sd_schedule_now(), first = UINT64_MAX;
  for (unsigned i = 0; i < n_fibers; i++)
    if (fibers[i].state == SLEEPS && fibers[i].until && fibers[i].until < first) first = fibers[i].until;
  if (first == UINT64_MAX) return;
  if (may_skip && first > now) {
    skipped += first - now;
    now = first;
  }
  for (unsigned i = 0; i < n_fibers; i++) {
    if (fibers[i].state != SLEEPS || !fibers[i].until || fibers[i].until > now) continue;
    fibers[i].state = RUNS;
    fibers[i].until = 0;
  }
}

/* Whether time may go on to the first time-out: all sleep; or the caller, which `pauses`, waits for one that sleeps until then. */
static int nobody_runs(int pauses) {
  unsigned run = 0, wait_for_caller = 0;
  for (unsigned i = 0; i < n_fibers; i++) {
    run += fibers[i].state == RUNS;
    wait_for_caller += fibers[i].state == SLEEPS && !fibers[i].word && !fibers[i].until;
  }
  return run == 0 || (pauses && current == caller && run == 1 && !wait_for_caller);
}

/* Lets another fiber run, which is drawn. */
static void change(int pauses) {
  unsigned can[SD_FIBERS], n = 0;
  time_out(nobody_runs(pauses));
  for (unsigned i = 0; i < n_fibers; i++)
    if (fibers[i].state == RUNS && (i != kept || steps >= kept_until)) can[n++] = i;
  if (n == 0 && kept < n_fibers && fibers[kept].state == RUNS) can[n++] = kept;
  if (n == 0) {
    int all = 1;
    for (unsigned i = 0; i < n_fibers; i++) all &= fibers[i].state == ENDED;
    leave(all ? SD_RAN : SD_DEADLOCK);
    return;
  }
  unsigned from = current, to = can[sd_scheduler_random(n)];
  if (to == from) return;
  current = to;
  swapcontext(&fibers[from].context, &fibers[to].context);
}

void sd_schedule_point(const char *label) {
  if (!running) return;
  fibers[current].label = label;
  fibers[current].steps++;
  if (++steps > max_steps) leave(SD_NO_END);
  if (keeps && steps >= kept_until && sd_scheduler_random(OFTEN) == 0) {
    kept = current;
    kept_until = steps + sd_scheduler_random(LONG);
    change(label[0] == 'p');
    return;
  }
  if (label[0] == 'p' || stay == 1 || sd_scheduler_random(stay) == 0) change(label[0] == 'p');
}

void sd_futex_wait(sd_a32 *word, uint32_t seen) {
  sd_schedule_point("futex wait");
  if (atomic_load(word) != seen) return;
  fibers[current].word = word;
  fibers[current].state = SLEEPS;
  change(0);
}

void sd_futex_wait_for(sd_a32 *word, uint32_t seen, uint64_t ns) {
  fibers[current].until = sd_schedule_now() + ns;
  sd_futex_wait(word, seen);
  fibers[current].until = 0;
}

void sd_futex_wake(sd_a32 *word, uint32_t n) {
  sd_schedule_point("futex wake");
  for (; n; n--) {
    unsigned sleeping[SD_FIBERS], k = 0;
    for (unsigned i = 0; i < n_fibers; i++)
      if (fibers[i].state == SLEEPS && fibers[i].word == word) sleeping[k++] = i;
    if (!k) return;
    fibers[sleeping[sd_scheduler_random(k)]].state = RUNS;
  }
}

void sd_scheduler_fail(const char *what) {
  failure = what;
  if (running) leave(SD_FAILED);
}

const char *sd_scheduler_failure(void) { return failure ? failure : "none"; }
uint64_t sd_scheduler_steps(void) { return steps; }

unsigned sd_scheduler_asleep(void) {
  unsigned n = 0;
  for (unsigned i = 0; i < n_fibers; i++) n += fibers[i].state == SLEEPS;
  return n;
}

void sd_scheduler_print(void) {
  static const char *const names[] = {"runs", "sleeps", "ended"};
  for (unsigned i = 0; i < n_fibers; i++) printf("  fiber %u %s, at %s\n", i, names[fibers[i].state], fibers[i].label);
}

static void body(void) {
  unsigned me = current;
  fibers[me].fn(fibers[me].argument, me);
  fibers[me].state = ENDED;
  fibers[me].label = "end";
  change(0);
  abort();
}

/* A handler that overruns its stack hits the guard, and does not overwrite what lies below. */
static char *new_stack(void) {
  char *stack = mmap(NULL, STACK_BYTES, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_STACK, -1, 0);
  if (stack == MAP_FAILED || mprotect(stack, GUARD_BYTES, PROT_NONE)) abort();
  return stack;
}

static void make_context(fiber *f) {
  if (!f->stack) f->stack = new_stack();
  getcontext(&f->context);
  f->context.uc_stack.ss_sp = f->stack;
  f->context.uc_stack.ss_size = STACK_BYTES;
  f->context.uc_link = NULL;
  makecontext(&f->context, body, 0);
}

static void make_contexts(void) {
  for (unsigned i = 0; i < n_fibers; i++) make_context(&fibers[i]);
}

int sd_scheduler_run(uint64_t maximum) {
  max_steps = maximum;
  make_contexts();
  running = 1;
  result = SD_RAN;
  current = sd_scheduler_random(n_fibers);
  swapcontext(&outside, &fibers[current].context);
  running = 0;
  return result;
}

void sd_scheduler_enter(void) {
  max_steps = UINT64_MAX;
  make_contexts();
  caller = acts_for = current = n_fibers;
  sd_scheduler_add(NULL, NULL);
  running = 1;
}

void sd_scheduler_leave(void) { running = 0; }

int sd_scheduler_hold(void) {
  const int was = running;
  running = 0;
  return was;
}

void sd_scheduler_let_go(int was) { running = was; }

void sd_scheduler_wait(const char *label) {
  fibers[current].label = label;
  fibers[current].word = NULL;
  fibers[current].state = SLEEPS;
  change(0);
}

void sd_scheduler_wake(unsigned index) { fibers[index].state = RUNS; }

void sd_scheduler_wake_at(unsigned index, uint64_t time) { fibers[index].until = time; }

void sd_scheduler_sleep(uint64_t until) {
  fibers[current].until = until;
  sd_scheduler_wait("sleep");
  fibers[current].until = 0;
}

void sd_scheduler_act_for(unsigned index) { acts_for = index; }
void sd_scheduler_act(uint64_t ns) { fibers[acts_for].busy_ns += ns; }

/* The clock counts three per step, so that budgets and slices end at drawn places too. */
sd_clock sd_the_clock = {0, 1.0};
void sd_clock_init(void) {}
double sd_clock_resolution_ns(void) { return 1; }
uint64_t sd_schedule_now(void) { return 1000 + steps * 3 + skipped; }
/* A fiber runs while it makes steps, and while it is busy. */
uint64_t sd_schedule_on_cpu(void) {
  const fiber *f = &fibers[current == caller ? acts_for : current];
  return f->steps * 3 + f->busy_ns;
}
