/* Which way of publishing pays, measured while publishing: the publisher takes the cheaper way, and tries the other one at the start and
 * then more and more rarely. */
#include "publish/cost_model.h"

#include "base/clock.h"

#if defined(SD_MODEL_SCHEDULER)
enum {
  INLINE_MINIMUM = 1,
  RUN_MAX = 5,
  TRIAL_MIN = 2,
  TRIAL_MAX = 4,
  LONG_MINIMUM = 4,
  TRIAL_NS = 200,
  WARM_UP = 1,
  SAMPLE = 1,
  FILLS = 8,
  FILL_UP = 2,
  FULL_SAMPLE = 2,
  SAMPLES = 1,
  FIRST_INTERVAL = 3,
  LAST_INTERVAL = 5
};
#elif defined(SD_STRESS)
/* For the stress test: takes every way, and changes ways, within a few thousand records. */
enum {
  INLINE_MINIMUM = 8,
  RUN_MAX = 512,
  TRIAL_MIN = 8,
  TRIAL_MAX = 64,
  LONG_MINIMUM = 16,
  TRIAL_NS = 3000000,
  WARM_UP = 16,
  SAMPLE = 32,
  FILLS = 128,
  FILL_UP = 48,
  FULL_SAMPLE = 64,
  SAMPLES = 1,
  FIRST_INTERVAL = 64,
  LAST_INTERVAL = 512
};
#else
enum {
  INLINE_MINIMUM = 64,  /* records left in a call from which on inline execution is considered */
  RUN_MAX = 131072,     /* records after which an inline run lets its strands go */
  TRIAL_MIN = 4096,     /* a run of so many records ends a trial */
  TRIAL_NS = 3000000,   /* and so does a trial that takes longer */
  TRIAL_MAX = 32768,    /* records of one run in a trial */
  LONG_MINIMUM = 65536, /* records in long calls, one after another, before a trial */
  WARM_UP = 8192, /* records enqueued before their cost counts: lines that move between cores find their places first */
  SAMPLE = 16384, /* records from which one cost of enqueuing is measured */
  /* A long call gets ahead of the workers, and only then does the wait for them show. */
  FILLS = 1 << 18,          /* records of such a call, at least */
  FILL_UP = 49152,          /* records enqueued until the publisher is ahead, after the warm-up */
  FULL_SAMPLE = 65536,      /* as SAMPLE */
  SAMPLES = 2,              /* costs that a trial of enqueuing measures */
  FIRST_INTERVAL = 1 << 15, /* records between two trials; sixteen times as many after each that changed nothing */
  LAST_INTERVAL = 1 << 24   /* but at most so many */
};
#endif

/* Above any cost. */
#define UNKNOWN 1e18
/* Inline execution has to cost less than this share of enqueuing, because it leaves the workers idle. */
#define CLEARLY 0.9
/* A run that costs this many times what enqueuing does ends a trial. */
#define HOPELESS 3
/* A warm-up of enqueuing that costs this many times what inline execution does ends a trial too: a whole trial takes five times as long. */
#define DEARER 1.25

/* The minimum of the last few costs: a page fault, or another program on the machine, makes a cost higher and never lower. */
static double cost_of(const sd_cost *cost) {
  double minimum = UNKNOWN;
  for (uint32_t i = 0; i < SD_COSTS && i < cost->n; i++)
    if (cost->last[i] < minimum) minimum = cost->last[i];
  return minimum;
}

static void learn(sd_cost *cost, uint64_t counts, int64_t n) {
  cost->last[cost->n++ % SD_COSTS] = (double)counts / (double)n;
}

/* After n records went one of the ways: decides which way is next. */
static void decide(sd_publisher *p, int64_t n, int trial_over) {
  if (p->on_trial) {
    if (!trial_over) return;
    p->on_trial = 0;
    p->next_trial = p->interval;
  } else {
    p->next_trial -= n;
  }
  /* On one core the workers and the publisher share their time: handing records over saves nothing, and inline execution leaves nobody
   * idle. */
  const double maximum = p->one_core ? UNKNOWN : p->enqueue_cost.n >= SAMPLES ? CLEARLY * cost_of(&p->enqueue_cost) : 0;
  int better = cost_of(&p->inline_cost) < maximum ? BY_INLINE : BY_ENQUEUE;
  if (better != p->better) {
    p->better = better;
    p->next_trial = p->interval = FIRST_INTERVAL;
  } else if (p->next_trial <= 0 && !(p->one_core && better == BY_INLINE)) {
    p->on_trial = 1;
    /* These costs are old and may no longer be true. */
    if (better == BY_INLINE) p->enqueue_cost.n = 0;
    else p->inline_cost.n = 0;
    p->interval = p->interval < LAST_INTERVAL / 16 ? 16 * p->interval : LAST_INTERVAL;
  }
}

/* Short calls come from a live feed, for which a trial may be too slow; a longer call now and then is the feed catching up. */
void sd_learn_length(sd_publisher *p, int64_t n) { p->in_a_row = n < TRIAL_MIN ? 0 : p->in_a_row + n; }

static void forget_sample(sd_publisher *p) {
  p->spent = 0;
  p->sampled = 0;
}

/* Nonzero: the warm-up ended the trial, as if all samples had cost as much as it did. */
static int end_warm_up(sd_publisher *p) {
  int over = (double)p->spent > DEARER * cost_of(&p->inline_cost) * (double)p->sampled;
  for (int i = 0; over && i < SAMPLES; i++) learn(&p->enqueue_cost, p->spent, p->sampled);
  forget_sample(p);
  return over;
}

void sd_learn_enqueueing(sd_publisher *p, uint64_t counts, int64_t n) {
  if (n < INLINE_MINIMUM) return;
  int over = 0;
  p->runs = 0;
  p->tried = 0;
  p->spent += counts;
  p->sampled += n;
  if (p->warm_up > 0) {
    p->warm_up -= n;
    if (p->warm_up <= 0) {
      over = end_warm_up(p);
      if (!over && p->n >= FILLS && !p->filled) p->warm_up = FILL_UP;
      p->filled = 1;
    }
  } else if (p->sampled >= (p->n < FILLS ? SAMPLE : FULL_SAMPLE)) {
    learn(&p->enqueue_cost, p->spent, p->sampled);
    forget_sample(p);
    over = p->enqueue_cost.n >= SAMPLES;
  }
  decide(p, n, over);
}

void sd_learn_inline(sd_publisher *p, uint64_t counts, int64_t n) {
  p->warm_up = WARM_UP;
  p->filled = 0;
  forget_sample(p);
  p->runs++;
  p->tried += counts;
  /* Either no strand could be owned, because of a pause perhaps, or inline execution is far too expensive. */
  int hopeless = n == 0 || (p->enqueue_cost.n && (double)counts > HOPELESS * cost_of(&p->enqueue_cost) * (double)n);
  int over = hopeless || p->tried > sd_clock_counts(TRIAL_NS) || (p->runs > 1 && n >= TRIAL_MIN);
  if (n == 0) p->inline_cost.n = 0;
  /* The first of several runs fetches lines that workers had, and a day's first runs cause page faults. */
  else if (!p->on_trial || over) learn(&p->inline_cost, counts, n);
  decide(p, n, over);
}

int64_t sd_records_inline(sd_dispatcher *d, sd_publisher *p) {
  int64_t left = p->n - p->at;
  if (!d->may_run_inline || !d->config.publisher_drains || p->nested || left < INLINE_MINIMUM) return 0;
  if (p->interval == 0) {
    p->interval = FIRST_INTERVAL;
    p->on_trial = 1;
  }
  if (p->on_trial == (p->better == BY_INLINE)) return 0;
  if (p->on_trial && p->in_a_row < LONG_MINIMUM && !p->one_core) return 0;
  /* The very first trial brings rows into the caches, so a short run would measure little else. */
  int64_t maximum = !p->on_trial || (!p->runs && !p->enqueue_cost.n) ? RUN_MAX : p->runs ? TRIAL_MAX : WARM_UP;
  return left < maximum ? left : maximum;
}
