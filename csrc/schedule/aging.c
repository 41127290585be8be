/* Aging: of the ready strands the one whose priority is highest now comes next. A priority is a base plus the wait times the coefficient
 * of the strand's class.
 *
 * In a class, base - listed * coefficient is greater for the strand that comes first, whatever the time is. So a list has a heap for each
 * class, whose order never changes by itself, and a pick compares the heads. Heads of different classes are compared by their priorities
 * now. A second heap for each class is in the order of listing, for the strands that have waited longest; it is kept only where an option
 * asks for them.
 *
 * Priorities are whole numbers of 2^-64 points, in 128 bits. A coefficient is rounded once, to such units per clock count, and all that
 * follows is exact: a base takes 95 bits, a rate 62, and a rate times a time 126.
 *
 * Each list publishes hints: of each class the priority and time of the head, the time of the strand that was listed first, and how many
 * there are. A worker reads the hints of all lists, and takes what comes first. It keeps to its own list unless a strand on another list
 * would be ahead even without the time of a visit in its wait: without that, a strand whose worker is in a visit without end would wait
 * for ever while the others never run out. Under the list's lock the hints are what is there. If that comes later than what was seen,
 * another worker has taken the strand, and the worker looks again. */
#include "schedule/policy.h"

#include <stddef.h>

#include "base/clock.h"
#include "schedule/aging_heap.h"

/* Why a strand comes next. A later one of these goes before an earlier one. */
enum { NO_TURN = 0, FIRST, LOW_TURN, LATE };

enum { CLASS_SHIFT = 30, LOAD_FACTOR = 8, LOAD_MINIMUM = 2, LOAD_MAXIMUM = 64 };

typedef struct aging_class {
  sd_a32 first[SD_HEAPS]; /* one more than the head */
  sd_a32 priority;        /* of the head; 0: there is none */
  sd_a32 n;               /* strands */
  sd_a64 listed, oldest;  /* when the head was listed, and the strand that was listed first */
} aging_class;

typedef struct aging_list {
  SD_ALIGNED(2 * SD_LINE) aging_class classes[SD_AGING_CLASSES];
  sd_a32 row; /* strands of higher classes that were taken in a row for this list's worker */
  sd_a64 picked[SD_AGING_CLASSES], picked_low, picked_late;
  uint64_t order; /* of the strand listed last */
} aging_list;

typedef struct aging_state {
  SD_ALIGNED(2 * SD_LINE) uint64_t rate[SD_AGING_CLASSES]; /* units per clock count */
  uint64_t slack;                                          /* in clock counts */
  int64_t max_wait;                                        /* likewise; INT64_MAX: none */
  uint32_t n_classes, low_every;
} aging_state;

/* What a list has to give. */
typedef struct turn {
  uint32_t why, number;
  int counts;      /* what was taken had not been counted before */
  sd_points value; /* the priority, or the wait; the greater one comes first */
  sd_points ahead; /* the greatest value that a strand of the list would have after a wait shorter by the slack */
  uint64_t listed;
} turn;

static inline aging_state *aging_of(const sd_ready *ready) { return (aging_state *)(void *)ready->state; }

static inline aging_list *aging_list_of(const sd_ready *ready, uint32_t list) {
  return (aging_list *)(void *)(aging_of(ready) + 1) + list;
}

static inline sd_aging_strand *strands_of(const sd_ready *ready) {
  return (sd_aging_strand *)(void *)aging_list_of(ready, ready->n_lists);
}

static uint64_t aging_state_bytes(const sd_policy_config *config, uint32_t n_lists, uint32_t n_strands,
                                  uint32_t n_entries) {
  (void)config;
  (void)n_strands;
  return sizeof(aging_state) + (uint64_t)n_lists * sizeof(aging_list) + (uint64_t)n_entries * sizeof(sd_aging_strand);
}

static inline int by_age(const aging_state *state) { return state->low_every || state->max_wait != INT64_MAX; }

/* ---- priorities */

/* Points per second as units per clock count, to the nearest one. */
static uint64_t rate_of(double coefficient) {
  const double units = coefficient / 1e9 * sd_the_clock.ns_per_count * 0x1p64;
  return units < 0x1p62 ? (uint64_t)(units + 0.5) : UINT64_C(1) << 62;
}

static void aging_start(const sd_ready *ready, const sd_policy_config *config) {
  aging_state *state = aging_of(ready);
  for (uint32_t number = 0; number < SD_AGING_CLASSES; number++)
    state->rate[number] = rate_of(config->aging.coefficient[number]);
  state->slack = sd_clock_span(config->slack_ns);
  state->max_wait = config->aging.max_wait_ns ? (int64_t)sd_clock_span(config->aging.max_wait_ns) : INT64_MAX;
  state->n_classes = config->aging.n_classes;
  state->low_every = config->aging.low_every;
}

static inline uint32_t class_of(uint32_t priority) { return priority >> CLASS_SHIFT; }

static inline sd_points base_of(uint32_t priority) {
  return ((sd_points)(priority & ((1u << CLASS_SHIFT) - 1)) - SD_AGING_USUAL) * ((sd_points)1 << 64);
}

/* The wait; below 0 where another thread's clock is ahead. */
static inline int64_t wait_of(uint64_t listed, uint64_t now) { return (int64_t)(now - listed); }

/* The higher one of a strand's own priority and that for its backlog. A higher class is higher, whatever the base. */
static uint32_t priority_of(sd_aging_strand *s) {
  sd_lock(&s->lock);
  const uint32_t own = s->own ^ SD_AGING_USUAL, priority = s->raised > own ? s->raised : own;
  sd_unlock(&s->lock);
  return priority;
}

/* A strand with nothing pending is raised no longer. But its publisher has added records before it lists them at `now`, and a raise that
 * comes in between is meant for them. */
static void end_backlog(sd_aging_strand *s, uint64_t now) {
  sd_lock(&s->lock);
  if (s->raised_at <= now) s->raised = 0;
  sd_unlock(&s->lock);
}

/* ---- a list, under its lock */

/* Publishes what has changed, for those who look without the lock. */
static void say_heads(const sd_ready *ready, aging_list *l) {
  for (uint32_t number = 0; number < aging_of(ready)->n_classes; number++) {
    aging_class *c = &l->classes[number];
    const uint32_t first = sd_load(&c->first[SD_BY_PRIORITY], relaxed, R1),
                   oldest = sd_load(&c->first[SD_BY_AGE], relaxed, R1);
    sd_store(&c->priority, first ? strands_of(ready)[first - 1].priority : 0, relaxed, R1);
    if (first) sd_store(&c->listed, strands_of(ready)[first - 1].listed, relaxed, R1);
    if (oldest) sd_store(&c->oldest, strands_of(ready)[oldest - 1].listed, relaxed, R1);
  }
}

/* Adds a strand of this priority. */
static void enlist(const sd_ready *ready, aging_list *l, uint32_t strand, uint32_t priority) {
  sd_aging_strand *s = &strands_of(ready)[strand];
  aging_class *c = &l->classes[class_of(priority)];
  s->priority = priority;
  s->key = base_of(priority) - (sd_points)s->listed * (sd_points)aging_of(ready)->rate[class_of(priority)];
  sd_heap_add(strands_of(ready), &c->first[SD_BY_PRIORITY], strand + 1, SD_BY_PRIORITY);
  if (by_age(aging_of(ready))) sd_heap_add(strands_of(ready), &c->first[SD_BY_AGE], strand + 1, SD_BY_AGE);
  sd_store(&c->n, sd_load(&c->n, relaxed, R1) + 1, relaxed, R1);
}

static void delist(const sd_ready *ready, aging_list *l, uint32_t strand) {
  aging_class *c = &l->classes[class_of(strands_of(ready)[strand].priority)];
  sd_heap_remove(strands_of(ready), &c->first[SD_BY_PRIORITY], strand + 1, SD_BY_PRIORITY);
  if (by_age(aging_of(ready))) sd_heap_remove(strands_of(ready), &c->first[SD_BY_AGE], strand + 1, SD_BY_AGE);
  sd_store(&c->n, sd_load(&c->n, relaxed, R1) - 1, relaxed, R1);
}

/* ---- the table */

static void aging_ready(const sd_ready *ready, uint32_t list, const uint32_t *strands, uint32_t n, int why,
                        uint64_t now) {
  aging_list *l = aging_list_of(ready, list);
  sd_lock(&ready->lists[list].lock);
  for (uint32_t i = 0; i < n; i++) {
    sd_aging_strand *s = &strands_of(ready)[strands[i]];
    if (why == SD_WAS_EMPTY) end_backlog(s, now);
    if (why < SD_NOT_VISITED) {
      s->listed = now;
      s->order = ++l->order;
      s->counted = 0;
    }
    sd_store(&s->list, list + 1, relaxed, R1);
    enlist(ready, l, strands[i], priority_of(s));
  }
  say_heads(ready, l);
  sd_list_count_listed(&ready->lists[list], n);
  sd_unlock(&ready->lists[list].lock);
}

/* What comes first on a list, by its hints. `low_due`: it is the turn of the lowest class. */
static turn turn_of(const aging_state *state, aging_list *l, int low_due, uint64_t now) {
  turn best = {.why = NO_TURN};
  for (uint32_t number = state->n_classes; number-- > 0;) {
    aging_class *c = &l->classes[number];
    /* R2 */
    const uint32_t priority = sd_load(&c->priority, relaxed, R2);
    if (!priority) continue;
    turn t = {.why = FIRST, .number = number, .listed = sd_load(&c->listed, relaxed, R2)};
    t.value = base_of(priority) + (sd_points)wait_of(t.listed, now) * (sd_points)state->rate[number];
    if (by_age(state)) {
      const uint64_t oldest = sd_load(&c->oldest, relaxed, R2);
      const int64_t wait = wait_of(oldest, now);
      if (wait > state->max_wait || (low_due && number == 0))
        t = (turn){.why = wait > state->max_wait ? LATE : LOW_TURN, .number = number, .value = wait, .listed = oldest};
    }
    if (t.why < best.why) continue;
    t.ahead = t.value - (sd_points)state->slack * (sd_points)(t.why == FIRST ? state->rate[number] : 1);
    /* A strand of another class may gain less in a visit than the first one does, and so be further ahead. */
    const sd_points ahead = t.why == best.why && best.ahead > t.ahead ? best.ahead : t.ahead;
    if (t.why > best.why || t.value > best.value || (t.value == best.value && t.listed < best.listed)) best = t;
    best.ahead = ahead;
  }
  return best;
}

/* How many strands of higher classes go before one of the lowest. */
static uint32_t high_before_low(const sd_ready *ready) {
  uint64_t high = 0, low = 0;
  if (aging_of(ready)->low_every != SD_AGING_BY_LOAD) return aging_of(ready)->low_every;
  for (uint32_t list = 0; list < ready->n_lists; list++) {
    const aging_class *classes = aging_list_of(ready, list)->classes;
    /* R2 */
    low += sd_load(&classes[0].n, relaxed, R2);
    for (uint32_t number = 1; number < aging_of(ready)->n_classes; number++)
      high += sd_load(&classes[number].n, relaxed, R2);
  }
  const uint64_t n = low ? LOAD_FACTOR * high / low : LOAD_MAXIMUM;
  return (uint32_t)(n < LOAD_MINIMUM ? LOAD_MINIMUM : n > LOAD_MAXIMUM ? LOAD_MAXIMUM : n);
}

/* The list whose strand comes first of all; *chosen says what it has to give. SD_NONE: nothing is ready. */
static uint32_t first_list(const sd_ready *ready, uint32_t own, int deferred, int low_due, uint64_t now, turn *chosen) {
  const aging_state *state = aging_of(ready);
  const uint32_t n = deferred == SD_TAKE_DEFERRED ? ready->n_lists : ready->n_workers;
  uint32_t best = SD_NONE;
  *chosen = (turn){.why = NO_TURN};
  for (uint32_t i = 0; i < n; i++) {
    const uint32_t list = sd_list_in_turn(ready, own, i, deferred);
    const turn t = turn_of(state, aging_list_of(ready, list), low_due, now);
    if (t.why < chosen->why || t.why == NO_TURN || (t.why == chosen->why && t.ahead <= chosen->value)) continue;
    *chosen = t;
    best = list;
  }
  return best;
}

/* Counts a strand that is taken: once, also where whoever took it lists it again because it could not visit it. Zero: it
 * was counted before. */
static int count_picked(aging_list *l, sd_aging_strand *s, const turn *t) {
  if (s->counted) return 0;
  s->counted = 1;
  sd_store(&l->picked[t->number], sd_load(&l->picked[t->number], relaxed, R1) + 1, relaxed, R1);
  sd_a64 *by_rule = t->why == LATE ? &l->picked_late : &l->picked_low;
  if (t->why != FIRST) sd_store(by_rule, sd_load(by_rule, relaxed, R1) + 1, relaxed, R1);
  return 1;
}

/* Takes what comes first on a list. SD_NONE: that comes later than what was chosen, or the caller has no use for it. */
static uint32_t take_first(const sd_ready *ready, uint32_t list, int low_due, uint64_t now, turn *chosen,
                           sd_can_use can, const void *who) {
  aging_list *l = aging_list_of(ready, list);
  uint32_t strand = SD_NONE;
  sd_lock(&ready->lists[list].lock);
  const turn t = turn_of(aging_of(ready), l, low_due, now);
  if (t.why > chosen->why || (t.why == chosen->why && t.value >= chosen->value))
    strand = sd_load(&l->classes[t.number].first[t.why == FIRST ? SD_BY_PRIORITY : SD_BY_AGE], relaxed, R1) - 1;
  if (SD_UNLIKELY(can != NULL) && strand != SD_NONE && !can(who, strand)) strand = SD_NONE;
  if (strand != SD_NONE) {
    *chosen = t;
    delist(ready, l, strand);
    sd_store(&strands_of(ready)[strand].list, 0, relaxed, R1);
    say_heads(ready, l);
    chosen->counts = count_picked(l, &strands_of(ready)[strand], &t);
    sd_list_count_taken(&ready->lists[list], 1);
  }
  sd_unlock(&ready->lists[list].lock);
  return strand;
}

static uint32_t aging_next(const sd_ready *ready, uint32_t own, int deferred, uint64_t now, sd_can_use can,
                           const void *who) {
  sd_a32 *row = &aging_list_of(ready, own)->row;
  for (;;) {
    turn chosen;
    /* R2: a publisher that helps counts for the same list, and may be seen late. */
    const uint32_t high = sd_load(row, relaxed, R2);
    const int low_due = aging_of(ready)->low_every && high >= high_before_low(ready);
    const uint32_t list = first_list(ready, own, deferred, low_due, now, &chosen);
    if (list == SD_NONE) return SD_NONE;
    const uint32_t strand = take_first(ready, list, low_due, now, &chosen, can, who);
    if (strand == SD_NONE && can) return SD_NONE;
    if (strand == SD_NONE) continue; /* Another worker took it. Which list comes first has to be looked up again. */
    if (!chosen.counts) return strand;
    if (chosen.number == 0) sd_store(row, 0, relaxed, R2);
    else if (high < UINT32_MAX) sd_store(row, high + 1, relaxed, R2);
    return strand;
  }
}

static int aging_gives_way(const sd_ready *ready, uint32_t own, uint32_t strand, int deferred, uint64_t now) {
  const aging_state *state = aging_of(ready);
  const sd_aging_strand *s = &strands_of(ready)[strand];
  turn first;
  if (first_list(ready, own, deferred, 0, now, &first) == SD_NONE) return 0;
  const int64_t wait = wait_of(s->listed, now);
  const int late = wait > state->max_wait;
  if (first.why == LATE || late) return first.why == LATE && (!late || first.value > wait);
  return first.value > base_of(s->priority) + (sd_points)wait * (sd_points)state->rate[class_of(s->priority)];
}

/* Levels are counted from the highest one. The memory may be another process's. */
static inline uint32_t level_of_class(const sd_ready *ready, uint32_t number) {
  return (aging_of(ready)->n_classes - 1 - number) % SD_AGING_CLASSES;
}

static uint32_t aging_taken_at(const sd_ready *ready, uint32_t strand) {
  return level_of_class(ready, class_of(strands_of(ready)[strand].priority));
}

static void aging_listed(const sd_ready *ready, uint64_t *by_level) {
  for (uint32_t list = 0; list < ready->n_lists; list++) {
    for (uint32_t number = 0; number < SD_AGING_CLASSES; number++)
      by_level[level_of_class(ready, number)] += sd_load(&aging_list_of(ready, list)->classes[number].n, relaxed, R2);
  }
}

static uint32_t aging_peek(const sd_ready *ready, uint32_t list, uint32_t i) {
  for (uint32_t number = aging_of(ready)->n_classes; number-- > 0;) {
    /* R2 */
    uint32_t place = sd_load(&aging_list_of(ready, list)->classes[number].first[SD_BY_PRIORITY], relaxed, R2);
    while (place && i--) place = sd_load(&strands_of(ready)[place - 1].nodes[SD_BY_PRIORITY].left, relaxed, R2);
    if (place) return place - 1;
  }
  return SD_NONE;
}

static int aging_count(const sd_ready *ready, uint32_t list, uint32_t *times) {
  const aging_state *state = aging_of(ready);
  aging_list *l = aging_list_of(ready, list);
  uint32_t all = 0, good = 1;
  sd_lock(&ready->lists[list].lock);
  for (uint32_t number = 0; number < state->n_classes && good; number++) {
    aging_class *c = &l->classes[number];
    const uint32_t n = sd_load(&c->n, relaxed, R1);
    all += n;
    for (int heap = 0; heap <= by_age(state) && good; heap++)
      good = sd_heap_count(strands_of(ready), ready->n_entries, &c->first[heap], n, heap ? NULL : times, heap) != 0;
  }
  good = good && all == sd_list_length(&ready->lists[list]);
  sd_unlock(&ready->lists[list].lock);
  return (int)good;
}

static int aging_accepts(const sd_ready *ready, uint32_t priority) {
  const uint32_t base = priority & ((1u << CLASS_SHIFT) - 1);
  return class_of(priority) < aging_of(ready)->n_classes && base >= SD_AGING_USUAL - SD_AGING_MAX &&
         base <= SD_AGING_USUAL + SD_AGING_MAX;
}

static void aging_renew(const sd_ready *ready, uint32_t task, uint32_t priority, uint32_t marks) {
  (void)marks;
  sd_aging_strand *s = &strands_of(ready)[task];
  s->own = priority == UINT32_MAX ? 0 : priority ^ SD_AGING_USUAL;
  s->raised = 0;
  s->raised_at = 0;
}

static int aging_prioritise(const sd_ready *ready, uint32_t strand, uint32_t priority, int for_backlog, uint64_t now) {
  if (!aging_accepts(ready, priority)) return 0;
  sd_aging_strand *s = &strands_of(ready)[strand];
  sd_lock(&s->lock);
  if (for_backlog) {
    s->raised = priority;
    s->raised_at = now;
  } else {
    s->own = priority ^ SD_AGING_USUAL;
  }
  sd_unlock(&s->lock);
  /* Whoever lists the strand reads its priority under the list's lock. So if it is not found on a list here, and is listed there
   * afterwards, its new priority has been seen. */
  for (uint32_t list = 0; list < ready->n_lists; list++) {
    aging_list *l = aging_list_of(ready, list);
    sd_lock(&ready->lists[list].lock);
    if (sd_load(&s->list, relaxed, R1) == list + 1) {
      delist(ready, l, strand);
      enlist(ready, l, strand, priority_of(s));
      say_heads(ready, l);
    }
    sd_unlock(&ready->lists[list].lock);
  }
  return 1;
}

static int aging_leave(const sd_ready *ready, uint32_t strand) {
  sd_aging_strand *s = &strands_of(ready)[strand];
  for (uint32_t list = 0; list < ready->n_lists; list++) {
    aging_list *l = aging_list_of(ready, list);
    sd_lock(&ready->lists[list].lock);
    const int here = sd_load(&s->list, relaxed, R1) == list + 1;
    if (here) {
      delist(ready, l, strand);
      sd_store(&s->list, 0, relaxed, R1);
      say_heads(ready, l);
      sd_list_count_taken(&ready->lists[list], 1);
    }
    sd_unlock(&ready->lists[list].lock);
    if (here) return 1;
  }
  return 0;
}

static void aging_counts(const sd_ready *ready, sd_policy_counts *counts) {
  counts->n_classes = aging_of(ready)->n_classes;
  for (uint32_t list = 0; list < ready->n_lists; list++) {
    aging_list *l = aging_list_of(ready, list);
    /* C2 */
    for (uint32_t number = 0; number < SD_AGING_CLASSES; number++)
      counts->picked[number] += sd_load(&l->picked[number], relaxed, C2);
    counts->picked_low += sd_load(&l->picked_low, relaxed, C2);
    counts->picked_late += sd_load(&l->picked_late, relaxed, C2);
  }
}

const sd_policy sd_policy_aging = {
    .name = "aging",
    .state_bytes = aging_state_bytes,
    .entry_bytes = sizeof(sd_aging_strand),
    .n_levels = SD_AGING_CLASSES,
    .taken_at = aging_taken_at,
    .listed = aging_listed,
    .start = aging_start,
    .ready = aging_ready,
    .next = aging_next,
    .gives_way = aging_gives_way,
    .peek = aging_peek,
    .count = aging_count,
    .prioritise = aging_prioritise,
    .accepts = aging_accepts,
    .renew = aging_renew,
    .leave = aging_leave,
    .counts = aging_counts,
};
