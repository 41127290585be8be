/* Levels: of the ready strands one of the highest level comes next, and in a level the one that entered it first. A strand that waits
 * longer than its level's timeout rises to the next level.
 *
 * A list has two queues for each level: strands that were listed in it, and strands that rose into it. Both are in the order in which
 * strands entered the level. They are apart so that both are in the order in which their strands are due to rise, too: where waits count
 * since the strand was listed, one that rose has waited longer than its new level allows, and is due again at once. So a look at the
 * heads of the queues finds all that are due.
 *
 * A look lets a strand rise by one level, because it goes through the levels from the highest to the lowest. It lets at most RISING
 * strands of a level rise, so that the lock is held for a short time. The others are due at the next look.
 *
 * Each list publishes hints: which of its queues have strands, when the first strand of its highest level entered it, and when the next
 * one is due to rise. A worker that looks for a strand reads the hints of all lists, lets strands rise that are due, and takes one of the
 * highest level found. So it starts no level while it sees a higher one on any list. In a level it keeps to its own list, because it
 * drained the strands there last, unless a strand on another list entered the level longer than a visit before. Without that a strand
 * whose worker is in a visit without end would wait for ever while the others never run out. */
#include "schedule/levels.h"

#include <stddef.h>

#include "base/clock.h"

#if defined(SD_MODEL_SCHEDULER)
enum { RISING = 2 };
#else
enum { RISING = 64 };
#endif

enum { QUEUES = 2 * SD_LEVEL_COUNT };

/* A strand. Links and places are one more than an index, and so 0 for none: memory of zeros is a strand that is not listed. */
typedef struct level_strand {
  SD_ALIGNED(SD_LINE) sd_a32 level; /* one more than its level; 0: SD_NORMAL */
  sd_a64 raised;         /* for its backlog: when, in the upper bits, and one more than the level; 0: not raised */
  sd_a32 list;           /* where it is listed. The rest is the list's, under its lock. */
  sd_a32 next, previous; /* in its queue */
  uint32_t queue, began, counted; /* began: the level in which the wait began; counted: it is counted as starved */
  uint64_t listed, entered,
      since; /* when it was listed, entered its level, and from when its wait in the level counts */
} level_strand;

typedef struct level_list {
  SD_ALIGNED(2 * SD_LINE) sd_a32 queues; /* a bit for each queue that has strands */
  sd_a64 due;                            /* when the next strand is due to rise; UINT64_MAX: never */
  sd_a64 entered;                        /* when the first strand of its highest level entered it */
  sd_a32 first[QUEUES], last[QUEUES];
  sd_a64 promoted[SD_LEVEL_COUNT], starved[SD_LEVEL_COUNT];
} level_list;

typedef struct level_state {
  SD_ALIGNED(2 * SD_LINE) uint64_t timeout[SD_LEVEL_COUNT]; /* in clock counts */
  uint64_t slack;                                           /* likewise */
  int since_listed;
} level_state;

static inline level_state *state_of(const sd_ready *ready) { return (level_state *)(void *)ready->state; }

static inline level_list *level_list_of(const sd_ready *ready, uint32_t list) {
  return (level_list *)(void *)(state_of(ready) + 1) + list;
}

static inline level_strand *level_strand_of(const sd_ready *ready, uint32_t strand) {
  return (level_strand *)(void *)level_list_of(ready, ready->n_lists) + strand;
}

static uint64_t levels_state_bytes(uint32_t n_lists, uint32_t n_strands) {
  return sizeof(level_state) + (uint64_t)n_lists * sizeof(level_list) + (uint64_t)n_strands * sizeof(level_strand);
}

/* A span in clock counts; of a very long one as many as can be added to a time and doubled. */
static uint64_t counts_of(uint64_t ns) {
  const uint64_t longest = UINT64_C(1) << 61;
  return (double)ns / sd_the_clock.ns_per_count < (double)longest ? sd_clock_counts(ns) : longest;
}

static void levels_start(const sd_ready *ready, const sd_policy_config *config) {
  level_state *state = state_of(ready);
  for (uint32_t level = 0; level < SD_LEVEL_COUNT; level++)
    state->timeout[level] = counts_of(config->levels.timeout_ns[level]);
  state->slack = counts_of(config->slack_ns);
  state->since_listed = config->levels.since_listed;
  for (uint32_t list = 0; list < ready->n_lists; list++) sd_init(&level_list_of(ready, list)->due, UINT64_MAX);
}

/* ---- a list, under its lock */

/* When the strand is due to rise from the level. UINT64_MAX: never. */
static inline uint64_t due_at(const level_state *state, const level_strand *s, uint32_t level) {
  const uint64_t due = s->since + state->timeout[level];
  return level == SD_IMMEDIATE || due < s->since ? UINT64_MAX : due;
}

/* The strand of a level that entered it first, of the two queues' heads, among those that are due to rise at `now`; UINT64_MAX: among all.
 * One more than its index; 0: there is none. */
static inline uint32_t first_due(const sd_ready *ready, level_list *l, uint32_t level, uint64_t now) {
  const level_strand *found = NULL;
  uint32_t place = 0;
  for (uint32_t queue = 2 * level; queue < 2 * level + 2; queue++) {
    const uint32_t first = sd_load(&l->first[queue], relaxed, R1);
    if (!first) continue;
    const level_strand *s = level_strand_of(ready, first - 1);
    if (due_at(state_of(ready), s, level) > now || (found && found->entered <= s->entered)) continue;
    found = s;
    place = first;
  }
  return place;
}

/* Publishes what has changed, for those who look without the lock. */
static void say_hints(const sd_ready *ready, level_list *l) {
  const uint32_t queues = sd_load(&l->queues, relaxed, R1);
  uint64_t due = UINT64_MAX;
  for (uint32_t left = queues & ~3u; left; left &= left - 1) {
    const uint32_t queue = (uint32_t)__builtin_ctz(left);
    const level_strand *first = level_strand_of(ready, sd_load(&l->first[queue], relaxed, R1) - 1);
    const uint64_t at = due_at(state_of(ready), first, queue / 2);
    if (at < due) due = at;
  }
  sd_store(&l->due, due, relaxed, R1);
  if (!queues) return;
  const uint32_t first = first_due(ready, l, (uint32_t)__builtin_ctz(queues) / 2, UINT64_MAX);
  sd_store(&l->entered, level_strand_of(ready, first - 1)->entered, relaxed, R1);
}

static void append(const sd_ready *ready, level_list *l, uint32_t strand, uint32_t queue) {
  level_strand *s = level_strand_of(ready, strand);
  const uint32_t last = sd_load(&l->last[queue], relaxed, R1);
  s->queue = queue;
  sd_store(&s->next, 0, relaxed, R1);
  sd_store(&s->previous, last, relaxed, R1);
  sd_store(&l->last[queue], strand + 1, relaxed, R1);
  if (last) {
    level_strand *before = level_strand_of(ready, last - 1);
    /* A queue is in order whatever threads' clocks say. */
    if (s->entered < before->entered) s->entered = before->entered;
    if (s->since < before->since) s->since = before->since;
    sd_store(&before->next, strand + 1, relaxed, R1);
  } else {
    sd_store(&l->first[queue], strand + 1, relaxed, R1);
    sd_store(&l->queues, sd_load(&l->queues, relaxed, R1) | 1u << queue, relaxed, R1);
  }
}

static void unlink_strand(const sd_ready *ready, level_list *l, uint32_t strand) {
  level_strand *s = level_strand_of(ready, strand);
  const uint32_t next = sd_load(&s->next, relaxed, R1), previous = sd_load(&s->previous, relaxed, R1);
  if (next) sd_store(&level_strand_of(ready, next - 1)->previous, previous, relaxed, R1);
  else sd_store(&l->last[s->queue], previous, relaxed, R1);
  if (previous) sd_store(&level_strand_of(ready, previous - 1)->next, next, relaxed, R1);
  else sd_store(&l->first[s->queue], next, relaxed, R1);
  if (!next && !previous) sd_store(&l->queues, sd_load(&l->queues, relaxed, R1) & ~(1u << s->queue), relaxed, R1);
}

/* Lets strands rise that are due. */
static void let_rise(const sd_ready *ready, level_list *l, uint64_t now) {
  for (uint32_t level = SD_HIGH; level < SD_LEVEL_COUNT; level++) {
    for (uint32_t n = 0; n < RISING; n++) {
      const uint32_t place = first_due(ready, l, level, now);
      if (!place) break;
      level_strand *s = level_strand_of(ready, place - 1);
      unlink_strand(ready, l, place - 1);
      s->entered = now;
      if (!state_of(ready)->since_listed) s->since = now;
      append(ready, l, place - 1, 2 * (level - 1) + 1);
      sd_store(&l->promoted[level], sd_load(&l->promoted[level], relaxed, R1) + 1, relaxed, R1);
    }
  }
  say_hints(ready, l);
}

/* ---- the table */

enum { RAISED_BITS = 3 };

static uint32_t level_of(level_strand *s) {
  const uint32_t own = sd_load(&s->level, relaxed, R3);
  const uint32_t raised = (uint32_t)sd_load(&s->raised, relaxed, R3) & ((1u << RAISED_BITS) - 1);
  const uint32_t level = own ? own - 1 : SD_NORMAL;
  return raised && raised - 1 < level ? raised - 1 : level;
}

/* A strand with nothing pending is raised no longer. But its publisher has added records before it lists them at `now`, and a raise that
 * comes in between is meant for them. */
static void end_raise(level_strand *s, uint64_t now) {
  uint64_t raised = sd_load(&s->raised, relaxed, R3);
  if (raised && raised >> RAISED_BITS <= now) (void)sd_cas(&s->raised, &raised, 0, relaxed, R3);
}

/* Puts a strand back where it was: near the front, as it was taken from there. */
static void put_back(const sd_ready *ready, level_list *l, uint32_t strand) {
  level_strand *s = level_strand_of(ready, strand);
  const uint32_t queue = s->queue;
  uint32_t before = 0, behind = sd_load(&l->first[queue], relaxed, R1);
  while (behind && level_strand_of(ready, behind - 1)->entered < s->entered) {
    before = behind;
    behind = sd_load(&level_strand_of(ready, behind - 1)->next, relaxed, R1);
  }
  if (!behind) {
    append(ready, l, strand, queue);
    return;
  }
  sd_store(&s->next, behind, relaxed, R1);
  sd_store(&s->previous, before, relaxed, R1);
  sd_store(&level_strand_of(ready, behind - 1)->previous, strand + 1, relaxed, R1);
  if (before) sd_store(&level_strand_of(ready, before - 1)->next, strand + 1, relaxed, R1);
  else sd_store(&l->first[queue], strand + 1, relaxed, R1);
}

static void levels_ready(const sd_ready *ready, uint32_t list, const uint32_t *strands, uint32_t n, int why,
                         uint64_t now) {
  level_list *l = level_list_of(ready, list);
  sd_lock(&ready->lists[list].lock);
  for (uint32_t i = 0; i < n; i++) {
    level_strand *s = level_strand_of(ready, strands[i]);
    if (why == SD_WAS_EMPTY) end_raise(s, now);
    sd_store(&s->list, list + 1, relaxed, R1);
    const uint32_t level = level_of(s);
    if (why == SD_NOT_VISITED && level >= s->queue / 2) {
      put_back(ready, l, strands[i]);
      continue;
    }
    s->entered = s->since = now;
    if (why != SD_NOT_VISITED) {
      s->began = level;
      s->listed = now;
      s->counted = 0;
    }
    append(ready, l, strands[i], 2 * level);
  }
  say_hints(ready, l);
  sd_list_count_listed(&ready->lists[list], n);
  sd_unlock(&ready->lists[list].lock);
}

/* The list whose highest level is the highest of all; *level says which. SD_NONE: nothing is ready. */
static uint32_t choose(const sd_ready *ready, uint32_t own, uint64_t now, uint32_t *level) {
  const uint64_t slack = state_of(ready)->slack;
  uint32_t best = SD_NONE;
  uint64_t best_entered = 0;
  *level = SD_LEVEL_COUNT;
  for (uint32_t i = 0; i < ready->n_lists; i++) {
    const uint32_t list = own + i < ready->n_lists ? own + i : own + i - ready->n_lists;
    level_list *l = level_list_of(ready, list);
    /* R2 */
    if (sd_load(&l->due, relaxed, R2) <= now) {
      sd_lock(&ready->lists[list].lock);
      let_rise(ready, l, now);
      sd_unlock(&ready->lists[list].lock);
    }
    const uint32_t queues = sd_load(&l->queues, relaxed, R2);
    if (!queues) continue;
    const uint32_t found = (uint32_t)__builtin_ctz(queues) / 2;
    const uint64_t entered = sd_load(&l->entered, relaxed, R2);
    if (found > *level || (found == *level && entered + slack >= best_entered)) continue;
    *level = found;
    best = list;
    best_entered = entered;
  }
  return best;
}

/* Takes the first strand of a list. SD_NONE: it has none of this level or a higher one. */
static uint32_t take(const sd_ready *ready, uint32_t list, uint32_t level, uint64_t now) {
  level_list *l = level_list_of(ready, list);
  uint32_t strand = SD_NONE;
  sd_lock(&ready->lists[list].lock);
  const uint32_t queues = sd_load(&l->queues, relaxed, R1);
  const uint32_t found = queues ? (uint32_t)__builtin_ctz(queues) / 2 : SD_LEVEL_COUNT;
  if (found <= level && found < SD_LEVEL_COUNT) {
    strand = first_due(ready, l, found, UINT64_MAX) - 1;
    level_strand *s = level_strand_of(ready, strand);
    unlink_strand(ready, l, strand);
    sd_store(&s->list, 0, relaxed, R1);
    say_hints(ready, l);
    const uint64_t timeout = state_of(ready)->timeout[s->began];
    if (s->began != SD_IMMEDIATE && !s->counted && now > s->listed && now - s->listed > 2 * timeout) {
      s->counted = 1;
      sd_store(&l->starved[s->began], sd_load(&l->starved[s->began], relaxed, R1) + 1, relaxed, R1);
    }
    sd_list_count_taken(&ready->lists[list], 1);
  }
  sd_unlock(&ready->lists[list].lock);
  return strand;
}

static uint32_t levels_next(const sd_ready *ready, uint32_t own, uint64_t now) {
  for (;;) {
    uint32_t level;
    const uint32_t list = choose(ready, own, now, &level);
    if (list == SD_NONE) return SD_NONE;
    const uint32_t strand = take(ready, list, level, now);
    if (strand != SD_NONE) return strand;
    /* Another worker took it. Which list comes first has to be looked up again. */
  }
}

static uint32_t levels_peek(const sd_ready *ready, uint32_t list, uint32_t i) {
  level_list *l = level_list_of(ready, list);
  /* R2 */
  const uint32_t queues = sd_load(&l->queues, relaxed, R2);
  if (!queues) return SD_NONE;
  uint32_t place = sd_load(&l->first[__builtin_ctz(queues)], relaxed, R2);
  while (place && i--) place = sd_load(&level_strand_of(ready, place - 1)->next, relaxed, R2);
  return place ? place - 1 : SD_NONE;
}

static int levels_count(const sd_ready *ready, uint32_t list, uint32_t *times) {
  level_list *l = level_list_of(ready, list);
  uint32_t n = 0, good = 1;
  sd_lock(&ready->lists[list].lock);
  const uint32_t length = sd_list_length(&ready->lists[list]);
  for (uint32_t queue = 0; queue < QUEUES; queue++) {
    uint32_t place = sd_load(&l->first[queue], relaxed, R1);
    for (; place && n <= length; n++) {
      good = good && place <= ready->n_strands;
      if (!good) break;
      times[place - 1]++;
      place = sd_load(&level_strand_of(ready, place - 1)->next, relaxed, R1);
    }
  }
  sd_unlock(&ready->lists[list].lock);
  return good && n == length;
}

static int levels_prioritise(const sd_ready *ready, uint32_t strand, uint32_t level, int for_backlog, uint64_t now) {
  if (level >= SD_LEVEL_COUNT) return 0;
  level_strand *s = level_strand_of(ready, strand);
  const uint32_t before = level_of(s);
  /* R3: relaxed; a list that is locked after this sees it, whoever lists the strand there. */
  if (for_backlog) sd_store(&s->raised, now << RAISED_BITS | (level + 1), relaxed, R3);
  else sd_store(&s->level, level + 1, relaxed, R3);
  /* Whoever lists the strand reads its level under the list's lock. So if it is not found on a list here, and is listed there afterwards,
   * its new level has been seen. */
  for (uint32_t list = 0; list < ready->n_lists; list++) {
    level_list *l = level_list_of(ready, list);
    sd_lock(&ready->lists[list].lock);
    if (sd_load(&s->list, relaxed, R1) == list + 1) {
      const uint32_t to = level_of(s);
      /* It keeps what it has risen, unless its level is lowered. */
      if (to < s->queue / 2 || to > before) {
        unlink_strand(ready, l, strand);
        s->entered = s->since = now;
        append(ready, l, strand, 2 * to);
        say_hints(ready, l);
      }
    }
    sd_unlock(&ready->lists[list].lock);
  }
  return 1;
}

static void levels_counts(const sd_ready *ready, sd_policy_counts *counts) {
  for (uint32_t list = 0; list < ready->n_lists; list++) {
    level_list *l = level_list_of(ready, list);
    for (uint32_t level = 0; level < SD_LEVEL_COUNT; level++) {
      /* C2 */
      counts->promoted[level] += sd_load(&l->promoted[level], relaxed, C2);
      counts->starved[level] += sd_load(&l->starved[level], relaxed, C2);
    }
  }
}

const sd_policy sd_policy_levels = {
    .name = "levels",
    .state_bytes = levels_state_bytes,
    .start = levels_start,
    .ready = levels_ready,
    .next = levels_next,
    .peek = levels_peek,
    .count = levels_count,
    .prioritise = levels_prioritise,
    .counts = levels_counts,
};
