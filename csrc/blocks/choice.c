#include "blocks/choice.h"

#include "base/clock.h"

#if defined(SD_MODEL_SCHEDULER)
enum { PER_SYMBOL = 1, BEFORE = 8, SAMPLE = 8, TRIED = 8, FIRST = 16, LAST = 64 };
#else
enum {
  PER_SYMBOL = 16, /* records per symbol, at least, before a first trial: its tables take some 20 ns for each symbol */
  BEFORE = 1
      << 19, /* records before the first measurement: handlers begin slowly, on memory that nobody has touched yet */
  SAMPLE = 1 << 19, /* records of which one cost is measured */
  TRIED = 1 << 18,  /* the same of a trial, which may cost more; and how many go before a first one */
  FIRST = 1 << 23,  /* records between two trials; four times as many after each that changed nothing */
  LAST = 1 << 28    /* but at most so many */
};
#endif

uint64_t sd_choice_tried_after(uint64_t symbols) {
  const uint64_t least = BEFORE + SAMPLE, by_symbols = PER_SYMBOL * symbols;
  return by_symbols > least ? by_symbols : least;
}

int sd_choice_blocks(const sd_choice *c, const sd_dispatcher *d) {
  const int32_t ingest = d->config.ingest;
  return ingest == SD_INGEST_AUTO ? c->blocks : ingest == SD_INGEST_BLOCKS;
}

/* Records of a trial. With outputs, what the merger does of the ticks before falls into it, so it is longer. */
static uint64_t tried(const sd_dispatcher *d) {
  return d->config.sizes.has_positions ? 4 * (uint64_t)TRIED : (uint64_t)TRIED;
}

uint64_t sd_choice_most(const sd_choice *c, const sd_dispatcher *d, uint64_t n) {
  return c->on_trial && n > tried(d) ? tried(d) : n;
}

/* Whether records may cost less in blocks than the `counts` that each costs now. */
static int may_gain(double counts) {
  return counts >= (double)sd_clock_counts(SD_CHOICE_CHEAP_NS) && counts <= (double)sd_clock_counts(SD_CHOICE_DEAR_NS);
}

static void take(sd_choice *c, int blocks, int on_trial, uint64_t left) {
  c->blocks = blocks;
  c->on_trial = on_trial;
  c->left = left;
  c->spent = c->records = 0;
}

static void learn(sd_choice *c, const sd_dispatcher *d, uint64_t counts, uint64_t n, int possible) {
  if (!c->interval) {
    c->interval = FIRST;
    c->left = sd_choice_tried_after(d->arena->n_symbols);
  }
  if (!possible) {
    /* Blocks are tried again when strands may be idle. */
    if (c->blocks) take(c, 0, 0, FIRST);
    return;
  }
  if (c->on_trial && c->left) {
    c->left = c->left > n ? c->left - n : 0;
    return;
  }
  c->spent += counts;
  c->records += n;
  c->left = c->left > n ? c->left - n : 0;
  if (c->records >= (c->on_trial ? tried(d) : SAMPLE)) {
    c->cost[c->blocks] = (double)c->spent / (double)c->records;
    c->spent = c->records = 0;
  } else if (c->on_trial || !c->cost[c->blocks]) {
    return;
  }
  if (c->on_trial) {
    const int better = c->cost[1] < c->cost[0];
    c->interval = better == c->blocks ? FIRST : c->interval < LAST / 4 ? 4 * c->interval : LAST;
    take(c, better, 0, c->interval);
  } else if (!c->left) {
    if (!c->blocks && !may_gain(c->cost[0])) c->left = FIRST;
    else take(c, !c->blocks, 1, c->cost[!c->blocks] ? 0 : tried(d));
  }
}

void sd_choice_learn(sd_choice *c, const sd_dispatcher *d, uint64_t counts, uint64_t n, int possible) {
  learn(c, d, counts, n, possible);
  /* C1: relaxed; several publishers tell what they measured, and the last one stays. */
  for (int i = 0; i < 2; i++) sd_store(&d->arena->blocks.cost[i], (uint64_t)(c->cost[i] * 1024), relaxed, C1);
}
