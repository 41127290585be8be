/* Which way of publishing pays, measured here and now: the better one is taken, the other one tried at the start and then more
 * and more rarely.
 */
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
  SAMPLES = 1,
  FIRST_INTERVAL = 3,
  LAST_INTERVAL = 5
};
#elif defined(SD_STRESS)
/* Every way, and every change of ways, within a few thousand records. */
enum {
  INLINE_MINIMUM = 8,
  RUN_MAX = 512,
  TRIAL_MIN = 8,
  TRIAL_MAX = 64,
  LONG_MINIMUM = 16,
  TRIAL_NS = 3000000,
  WARM_UP = 16,
  SAMPLE = 32,
  SAMPLES = 1,
  FIRST_INTERVAL = 64,
  LAST_INTERVAL = 512
};
#else
enum {
  INLINE_MINIMUM = 64,  /* records left in a call before inline execution is worth a thought */
  RUN_MAX = 131072,     /* records for which strands stay owned, ... */
  TRIAL_MIN = 4096,     /* records of a run that ends a trial, ... */
  TRIAL_NS = 3000000,   /* ... if this does not; */
  TRIAL_MAX = 32768,    /* and of any run in one */
  LONG_MINIMUM = 65536, /* records in long calls, one after the other, before a trial */
  WARM_UP = 8192,       /* records queued before their cost counts: lines that go back and forth find their places */
  SAMPLE = 16384,       /* records a cost of queueing is taken from */
  SAMPLES = 2,          /* and how many a trial of queueing takes */
  FIRST_INTERVAL = 1 << 15, /* records between two trials; sixteen times as many after each that changed nothing, ... */
  LAST_INTERVAL = 1 << 24   /* ... up to this */
};
#endif

/* Above any cost. */
#define UNKNOWN 1e18
/* What inline execution may cost at most, as a share of enqueueing: it leaves the workers idle. */
#define CLEARLY 0.9
/* A run that costs so many times what queueing does ends a trial, ... */
#define HOPELESS 3
/* ... and so does a warm-up of enqueueing that costs so many times what inline execution does: a whole trial takes five times as long. */
#define DEARER 1.25

/* The least of the last few costs: a page that comes in, or a neighbour on the machine, makes one dearer and none cheaper. */
static double cost_of(const sd_cost *cost) {
  double minimum = UNKNOWN;
  for (uint32_t i = 0; i < SD_COSTS && i < cost->n; i++)
    if (cost->last[i] < minimum) minimum = cost->last[i];
  return minimum;
}

static void learn(sd_cost *cost, uint64_t counts, int64_t n) {
  cost->last[cost->n++ % SD_COSTS] = (double)counts / (double)n;
}

/* After n records went one of the ways: whose turn it is now. */
static void decide(sd_publisher *p, int64_t n, int trial_over) {
  if (p->on_trial) {
    if (!trial_over) return;
    p->on_trial = 0;
    p->next_trial = p->interval;
  } else {
    p->next_trial -= n;
  }
  /* On one core a worker's time is the publisher's too: handing records over saves nothing, and inline execution leaves nobody idle. */
  const double maximum = p->one_core ? UNKNOWN : p->enqueue_cost.n >= SAMPLES ? CLEARLY * cost_of(&p->enqueue_cost) : 0;
  int better = cost_of(&p->inline_cost) < maximum ? BY_INLINE : BY_ENQUEUE;
  if (better != p->better) {
    p->better = better;
    p->next_trial = p->interval = FIRST_INTERVAL;
  } else if (p->next_trial <= 0 && !(p->one_core && better == BY_INLINE)) {
    p->on_trial = 1;
    /* What was true some time ago may be so no more. */
    if (better == BY_INLINE) p->enqueue_cost.n = 0;
    else p->inline_cost.n = 0;
    p->interval = p->interval < LAST_INTERVAL / 16 ? 16 * p->interval : LAST_INTERVAL;
  }
}

/* Short calls are a live feed's, for which a trial may be too slow; a longer one now and then is its catching up. */
void sd_learn_length(sd_publisher *p, int64_t n) { p->in_a_row = n < TRIAL_MIN ? 0 : p->in_a_row + n; }

static void forget_sample(sd_publisher *p) {
  p->spent = 0;
  p->sampled = 0;
}

/* Nonzero: a trial that was over with it, as if all samples had cost as much. */
static int end_warm_up(sd_publisher *p) {
  int over = p->on_trial && p->better == BY_INLINE &&
             (double)p->spent > DEARER * cost_of(&p->inline_cost) * (double)p->sampled;
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
    if (p->warm_up <= 0) over = end_warm_up(p);
  } else if (p->sampled >= SAMPLE) {
    learn(&p->enqueue_cost, p->spent, p->sampled);
    forget_sample(p);
    over = p->enqueue_cost.n >= SAMPLES;
  }
  decide(p, n, over);
}

void sd_learn_inline(sd_publisher *p, uint64_t counts, int64_t n) {
  p->warm_up = WARM_UP;
  forget_sample(p);
  p->runs++;
  p->tried += counts;
  /* Not to be had, by a pause perhaps; or far too dear. */
  int hopeless = n == 0 || (p->enqueue_cost.n && (double)counts > HOPELESS * cost_of(&p->enqueue_cost) * (double)n);
  int over = hopeless || p->tried > sd_clock_counts(TRIAL_NS) || (p->runs > 1 && n >= TRIAL_MIN);
  if (n == 0) p->inline_cost.n = 0;
  /* The first run of several fetches lines that workers had, and a day's first ones bring pages in. */
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
  /* The first trial of all brings rows into the caches: a short run would tell of little else. */
  int64_t maximum = !p->on_trial || (!p->runs && !p->enqueue_cost.n) ? RUN_MAX : p->runs ? TRIAL_MAX : WARM_UP;
  return left < maximum ? left : maximum;
}
