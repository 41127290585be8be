/* Levels: of the ready strands one of the highest level comes next, and in a level the one that entered it first. A strand that waits
 * longer than its level's timeout rises to the next level.
 *
 * Each list publishes hints: which of its queues have strands, which are held back, when the first strand of its highest level entered it,
 * and when the next one is due to rise. A worker that looks for a strand reads the hints of all lists, lets strands rise that are due, and
 * takes one of the highest level found. So it starts no level while it sees a higher one on any list. In a level it keeps to its own list,
 * because it drained the strands there last, unless a strand on another list entered the level longer than a visit before. Without that a
 * strand whose worker is in a visit without end would wait for ever while the others never run out.
 *
 * Strands may be held back for a resource that is short. They stay where they are, are not taken, and rise as ever. One that rises out of
 * a queue that is held back may be taken, but no push wakes a worker for it: whoever holds strands back has to look again and again. */
#include "schedule/policy.h"

#include <stddef.h>

#include "base/clock.h"
#include "schedule/level_list.h"

static uint64_t levels_state_bytes(const sd_policy_config *config, uint32_t n_lists, uint32_t n_strands,
                                   uint32_t n_entries) {
  (void)config;
  (void)n_strands;
  return sizeof(sd_level_state) + (uint64_t)n_lists * sizeof(sd_level_list) +
         (uint64_t)n_entries * sizeof(sd_level_strand);
}

static void set_timeouts(sd_level_list *l, const uint64_t *timeout_ns) {
  for (uint32_t level = 0; level < SD_LEVEL_COUNT; level++) l->timeout[level] = sd_clock_span(timeout_ns[level]);
}

static void levels_start(const sd_ready *ready, const sd_policy_config *config) {
  sd_level_state *state = sd_level_state_of(ready);
  state->slack = sd_clock_span(config->slack_ns);
  state->since_listed = config->levels.since_listed;
  for (uint32_t list = 0; list < ready->n_lists; list++) {
    sd_init(&sd_level_list_of(ready, list)->due, UINT64_MAX);
    set_timeouts(sd_level_list_of(ready, list), config->levels.timeout_ns);
  }
}

/* Queues stay in the order in which their strands are due: a level has one timeout. Strands that are due now rise at the next look. */
static void levels_retime(const sd_ready *ready, const uint64_t *timeout_ns) {
  for (uint32_t list = 0; list < ready->n_lists; list++) {
    sd_lock(&ready->lists[list].lock);
    set_timeouts(sd_level_list_of(ready, list), timeout_ns);
    sd_level_say_hints(ready, sd_level_list_of(ready, list));
    sd_unlock(&ready->lists[list].lock);
  }
}

/* ---- the table */

enum { RAISED_BITS = 3 };

/* The queue of a strand that is listed in a level. */
static uint32_t queue_of(const sd_level_strand *s, uint32_t level) { return level * SD_QUEUES_OF_LEVEL + s->marks; }

static uint32_t own_level(sd_level_strand *s) {
  const uint32_t own = sd_load(&s->level, relaxed, R3);
  return own ? own - 1 : SD_NORMAL;
}

static uint32_t level_of(sd_level_strand *s) {
  const uint32_t level = own_level(s);
  const uint32_t raised = (uint32_t)sd_load(&s->raised, relaxed, R3) & ((1u << RAISED_BITS) - 1);
  return raised && raised - 1 < level ? raised - 1 : level;
}

/* A strand with nothing pending is raised no longer. But its publisher has added records before it lists them at `now`, and a raise that
 * comes in between is meant for them. */
static void end_raise(sd_level_strand *s, uint64_t now) {
  uint64_t raised = sd_load(&s->raised, relaxed, R3);
  if (raised && raised >> RAISED_BITS <= now) (void)sd_cas(&s->raised, &raised, 0, relaxed, R3);
}

static void levels_ready(const sd_ready *ready, uint32_t list, const uint32_t *strands, uint32_t n, int why,
                         uint64_t now) {
  sd_level_list *l = sd_level_list_of(ready, list);
  sd_lock(&ready->lists[list].lock);
  for (uint32_t i = 0; i < n; i++) {
    sd_level_strand *s = sd_level_strand_of(ready, strands[i]);
    if (why == SD_WAS_EMPTY) end_raise(s, now);
    if (why == SD_VISITED) sd_store(&s->own, 0, relaxed, R3); /* it has begun, and is none of those that wait */
    sd_store(&s->list, list + 1, relaxed, R1);
    const uint32_t level = level_of(s);
    /* Strands are deferred in about the order in which they entered the level. */
    if (why == SD_DEFERRED) s->was_last = 1;
    if (why >= SD_NOT_VISITED && level >= s->queue / SD_QUEUES_OF_LEVEL) {
      sd_level_put_back(ready, list, strands[i]);
      continue;
    }
    s->entered = s->since = now;
    if (why < SD_NOT_VISITED) {
      s->began = level;
      s->listed = now;
      s->counted = 0;
    }
    sd_level_append(ready, list, strands[i], queue_of(s, level));
  }
  sd_level_say_hints(ready, l);
  sd_unlock(&ready->lists[list].lock);
}

/* Lets strands of a list rise that are due. */
static inline void rise(const sd_ready *ready, uint32_t list, uint64_t now) {
  /* R2 */
  if (sd_load(&sd_level_list_of(ready, list)->due, relaxed, R2) > now) return;
  sd_lock(&ready->lists[list].lock);
  sd_level_rise(ready, list, now);
  sd_unlock(&ready->lists[list].lock);
}

/* The list whose highest level is the highest of all; *level says which. SD_NONE: nothing is ready. */
static uint32_t choose(const sd_ready *ready, uint32_t own, int deferred, uint64_t now, uint32_t *level) {
  const uint64_t slack = sd_level_state_of(ready)->slack;
  const uint32_t n = deferred == SD_TAKE_DEFERRED ? ready->n_lists : ready->n_workers;
  uint32_t best = SD_NONE;
  uint64_t best_entered = 0;
  *level = SD_LEVEL_COUNT;
  if (deferred == SD_LEAVE_DEFERRED) rise(ready, ready->n_workers, now);
  for (uint32_t i = 0; i < n; i++) {
    const uint32_t list = sd_list_in_turn(ready, own, i, deferred);
    sd_level_list *l = sd_level_list_of(ready, list);
    rise(ready, list, now);
    const uint64_t queues = sd_load(&l->queues, relaxed, R2) & ~sd_load(&l->held, relaxed, R2);
    if (!queues) continue;
    const uint32_t found = sd_highest_level(queues);
    const uint64_t entered = sd_load(&l->entered, relaxed, R2);
    if (found > *level || (found == *level && entered + slack >= best_entered)) continue;
    *level = found;
    best = list;
    best_entered = entered;
  }
  return best;
}

/* Takes the first strand of a list. SD_NONE: it has none of this level or a higher one, or the caller has no use for that. */
static uint32_t take(const sd_ready *ready, uint32_t list, uint32_t level, uint64_t now, sd_can_use can,
                     const void *who) {
  sd_level_list *l = sd_level_list_of(ready, list);
  uint32_t strand = SD_NONE;
  sd_lock(&ready->lists[list].lock);
  const uint64_t queues = sd_load(&l->queues, relaxed, R1) & ~sd_load(&l->held, relaxed, R1);
  const uint32_t found = queues ? sd_highest_level(queues) : SD_LEVEL_COUNT;
  if (found <= level && found < SD_LEVEL_COUNT) strand = sd_level_first(ready, l, queues, found, UINT64_MAX) - 1;
  if (SD_UNLIKELY(can != NULL) && strand != SD_NONE && !can(who, strand)) strand = SD_NONE;
  if (strand != SD_NONE) {
    sd_level_strand *s = sd_level_strand_of(ready, strand);
    sd_level_remove(ready, list, strand);
    s->was_last = 0;
    sd_store(&s->list, 0, relaxed, R1);
    sd_level_say_hints(ready, l);
    const uint64_t timeout = l->timeout[s->began];
    if (s->began != SD_IMMEDIATE && !s->counted && now > s->listed && now - s->listed > 2 * timeout) {
      s->counted = 1;
      sd_store(&l->starved[s->began], sd_load(&l->starved[s->began], relaxed, R1) + 1, relaxed, R1);
    }
  }
  sd_unlock(&ready->lists[list].lock);
  return strand;
}

static uint32_t levels_next(const sd_ready *ready, uint32_t own, int deferred, uint64_t now, sd_can_use can,
                            const void *who) {
  for (;;) {
    uint32_t level;
    const uint32_t list = choose(ready, own, deferred, now, &level);
    if (list == SD_NONE) return SD_NONE;
    const uint32_t strand = take(ready, list, level, now, can, who);
    if (strand != SD_NONE || can) return strand;
    /* Another worker took it. Which list comes first has to be looked up again. */
  }
}

static int levels_gives_way(const sd_ready *ready, uint32_t own, uint32_t strand, int deferred, uint64_t now) {
  uint32_t level;
  choose(ready, own, deferred, now, &level);
  return level < sd_level_strand_of(ready, strand)->queue / SD_QUEUES_OF_LEVEL;
}

/* The lowest level in a set of queues; SD_IMMEDIATE: it is empty, or there is no lower one. */
static inline uint32_t lowest_level(uint64_t queues) {
  return (63u - (uint32_t)__builtin_clzll(queues | 1)) / SD_QUEUES_OF_LEVEL;
}

/* The strand of a level that entered it last, of those that were listed in it, or else of those that rose into it. */
static uint32_t last_of(const sd_ready *ready, sd_level_list *l, uint32_t level) {
  const uint64_t queues = sd_load(&l->queues, relaxed, R1);
  const uint64_t listed = ((UINT64_C(1) << SD_MARK_SETS) - 1) << level * SD_QUEUES_OF_LEVEL;
  uint32_t strand = SD_NONE;
  for (uint64_t left = queues & listed ? queues & listed : queues & SD_QUEUES_OF(level); left; left &= left - 1) {
    const uint32_t last = sd_load(&l->last[__builtin_ctzll(left)], relaxed, R1) - 1;
    if (strand == SD_NONE || sd_level_strand_of(ready, last)->entered > sd_level_strand_of(ready, strand)->entered)
      strand = last;
  }
  return strand;
}

/* The list that has the lowest level of all, if that is lower than *level, which then says it. SD_NONE: there is none. */
static uint32_t lowest_list(const sd_ready *ready, uint32_t *level) {
  uint32_t best = SD_NONE;
  for (uint32_t list = 0; list < ready->n_lists; list++) {
    /* R2 */
    const uint32_t found = lowest_level(sd_load(&sd_level_list_of(ready, list)->queues, relaxed, R2));
    if (found > *level) best = list, *level = found;
  }
  return best;
}

/* Takes the last strand of a list, if that is of this level. SD_NONE: it is not. */
static uint32_t take_last(const sd_ready *ready, uint32_t list, uint32_t level) {
  uint32_t strand = SD_NONE;
  sd_level_list *l = sd_level_list_of(ready, list);
  sd_lock(&ready->lists[list].lock);
  if (lowest_level(sd_load(&l->queues, relaxed, R1)) == level) {
    strand = last_of(ready, l, level);
    sd_level_strand *s = sd_level_strand_of(ready, strand);
    sd_level_remove(ready, list, strand);
    s->was_last = 1;
    sd_store(&s->list, 0, relaxed, R1);
    sd_level_say_hints(ready, l);
  }
  sd_unlock(&ready->lists[list].lock);
  return strand;
}

/* Strands that are held back are taken too. */
static uint32_t levels_take_last(const sd_ready *ready, uint32_t level) {
  for (;;) {
    uint32_t lowest = level;
    const uint32_t list = lowest_list(ready, &lowest);
    if (list == SD_NONE) return SD_NONE;
    const uint32_t strand = take_last(ready, list, lowest);
    if (strand != SD_NONE) return strand;
    /* It was taken, or has risen. Which list has the lowest level now has to be looked up again. */
  }
}

static uint32_t levels_taken_at(const sd_ready *ready, uint32_t strand) {
  return sd_level_strand_of(ready, strand)->queue / SD_QUEUES_OF_LEVEL;
}

static void levels_listed(const sd_ready *ready, uint64_t *by_level) {
  for (uint32_t list = 0; list < ready->n_lists; list++) {
    for (uint32_t queue = 0; queue < SD_QUEUES; queue++)
      by_level[queue / SD_QUEUES_OF_LEVEL] += sd_load(&sd_level_list_of(ready, list)->strands[queue], relaxed, R2);
  }
}

static uint32_t levels_level(const sd_ready *ready, uint32_t i) { return own_level(sd_level_strand_of(ready, i)); }

static uint32_t levels_peek(const sd_ready *ready, uint32_t list, uint32_t i) {
  sd_level_list *l = sd_level_list_of(ready, list);
  /* R2 */
  const uint64_t queues = sd_load(&l->queues, relaxed, R2) & ~sd_load(&l->held, relaxed, R2);
  if (!queues) return SD_NONE;
  uint32_t place = sd_load(&l->first[__builtin_ctzll(queues)], relaxed, R2);
  while (place && i--) place = sd_load(&sd_level_strand_of(ready, place - 1)->next, relaxed, R2);
  return place ? place - 1 : SD_NONE;
}

static int levels_count(const sd_ready *ready, uint32_t list, uint32_t *times) {
  sd_level_list *l = sd_level_list_of(ready, list);
  uint32_t free = 0, good = 1;
  sd_lock(&ready->lists[list].lock);
  for (uint32_t queue = 0; queue < SD_QUEUES && good; queue++) {
    uint32_t place = sd_load(&l->first[queue], relaxed, R1), n = 0;
    const uint32_t length = sd_load(&l->strands[queue], relaxed, R1);
    for (; place && n <= length; n++) {
      good = good && place <= ready->n_entries;
      if (!good) break;
      times[place - 1]++;
      place = sd_load(&sd_level_strand_of(ready, place - 1)->next, relaxed, R1);
    }
    good = good && n == length && (n != 0) == (sd_load(&l->queues, relaxed, R1) >> queue & 1);
    if (!(sd_load(&l->held, relaxed, R1) >> queue & 1)) free += n;
  }
  good = good && free == sd_list_length(&ready->lists[list]);
  sd_unlock(&ready->lists[list].lock);
  return (int)good;
}

/* The parts of a priority. */
static inline uint32_t level_in(uint32_t priority) { return priority & ((1u << SD_OWN_LEVEL) - 1); }
static inline uint32_t own_in(uint32_t priority) { return priority >> SD_OWN_LEVEL; }

static int levels_accepts(const sd_ready *ready, uint32_t priority) {
  (void)ready;
  return level_in(priority) < SD_LEVEL_COUNT && own_in(priority) <= SD_LEVEL_COUNT;
}

static void levels_renew(const sd_ready *ready, uint32_t task, uint32_t priority, uint32_t marks) {
  sd_level_strand *s = sd_level_strand_of(ready, task);
  const int usual = priority == UINT32_MAX;
  /* R3 */
  sd_store(&s->level, usual ? 0 : level_in(priority) + 1, relaxed, R3);
  sd_store(&s->own, usual ? 0 : own_in(priority), relaxed, R3);
  sd_store(&s->raised, 0, relaxed, R3);
  s->marks = marks;
}

static int levels_prioritise(const sd_ready *ready, uint32_t strand, uint32_t priority, int for_backlog, uint64_t now) {
  if (!levels_accepts(ready, priority)) return 0;
  sd_level_strand *s = sd_level_strand_of(ready, strand);
  const uint32_t level = level_in(priority), before = level_of(s);
  /* R3: relaxed; a list that is locked after this sees it, whoever lists the strand there. */
  if (for_backlog) sd_store(&s->raised, now << RAISED_BITS | (level + 1), relaxed, R3);
  else sd_store(&s->level, level + 1, relaxed, R3);
  if (own_in(priority)) sd_store(&s->own, own_in(priority), relaxed, R3);
  /* Whoever lists the strand reads its level under the list's lock. So if it is not found on a list here, and is listed there afterwards,
   * its new level has been seen. */
  for (uint32_t list = 0; list < ready->n_lists; list++) {
    sd_level_list *l = sd_level_list_of(ready, list);
    sd_lock(&ready->lists[list].lock);
    if (sd_load(&s->list, relaxed, R1) == list + 1) {
      const uint32_t to = level_of(s);
      /* It keeps what it has risen, unless its level is lowered. */
      if (to < s->queue / SD_QUEUES_OF_LEVEL || to > before) {
        sd_level_remove(ready, list, strand);
        s->entered = s->since = now;
        sd_level_append(ready, list, strand, queue_of(s, to));
        sd_level_say_hints(ready, l);
      } else {
        sd_level_recount(ready, list, strand);
      }
    }
    sd_unlock(&ready->lists[list].lock);
  }
  return 1;
}

static int levels_leave(const sd_ready *ready, uint32_t strand) {
  sd_level_strand *s = sd_level_strand_of(ready, strand);
  for (uint32_t list = 0; list < ready->n_lists; list++) {
    sd_lock(&ready->lists[list].lock);
    const int here = sd_load(&s->list, relaxed, R1) == list + 1;
    if (here) {
      sd_level_remove(ready, list, strand);
      sd_store(&s->list, 0, relaxed, R1);
      sd_level_say_hints(ready, sd_level_list_of(ready, list));
    }
    sd_unlock(&ready->lists[list].lock);
    if (here) return 1;
  }
  return 0;
}

static uint32_t risen_to(const sd_level_strand *s) {
  return sd_level_rose(s->queue) ? s->queue / SD_QUEUES_OF_LEVEL + 1 : 0;
}

static uint32_t levels_rose(const sd_ready *ready, uint32_t task, int taken) {
  sd_level_strand *s = sd_level_strand_of(ready, task);
  uint32_t level = 0;
  if (taken) return risen_to(s);
  for (uint32_t list = 0; !level && list < ready->n_lists; list++) {
    sd_lock(&ready->lists[list].lock);
    if (sd_load(&s->list, relaxed, R1) == list + 1) level = risen_to(s);
    sd_unlock(&ready->lists[list].lock);
  }
  return level;
}

static void levels_risen(const sd_ready *ready, int64_t *more) {
  for (uint32_t list = 0; list < ready->n_lists; list++) {
    sd_lock(&ready->lists[list].lock);
    for (uint32_t level = 0; level < SD_LEVEL_COUNT; level++)
      more[level] += sd_level_list_of(ready, list)->risen[level];
    sd_unlock(&ready->lists[list].lock);
  }
}

static void levels_counts(const sd_ready *ready, sd_policy_counts *counts) {
  for (uint32_t list = 0; list < ready->n_lists; list++) {
    sd_level_list *l = sd_level_list_of(ready, list);
    for (uint32_t level = 0; level < SD_LEVEL_COUNT; level++) {
      /* C2 */
      counts->promoted[level] += sd_load(&l->promoted[level], relaxed, C2);
      counts->starved[level] += sd_load(&l->starved[level], relaxed, C2);
    }
  }
}

static void levels_mark(const sd_ready *ready, uint32_t strand, uint32_t marks) {
  sd_level_strand_of(ready, strand)->marks = marks;
}

/* Whether the strands of a queue wait while a resource is short. A marked strand that rose waits for SD_IO no longer. */
static int waits_for(uint32_t queue, uint32_t resource) {
  const uint32_t level = queue / SD_QUEUES_OF_LEVEL, marks = queue % SD_MARK_SETS;
  if (resource == SD_CPU) return level == SD_LOW;
  if (resource == SD_MEMORY) return level >= SD_RETRY && !(marks & SD_MARK_FREES_MEMORY);
  return (marks & SD_MARK_IO) && !sd_level_rose(queue);
}

/* The queues that wait while a set of resources is short. While memory is, what frees it waits for nothing. */
static uint64_t queues_for(uint32_t resources) {
  uint64_t found = 0;
  for (uint32_t queue = 0; queue < SD_QUEUES; queue++) {
    if ((resources >> SD_MEMORY & 1) && (queue % SD_MARK_SETS & SD_MARK_FREES_MEMORY)) continue;
    for (uint32_t resource = 0; resource < SD_RESOURCE_COUNT; resource++)
      if ((resources >> resource & 1) && waits_for(queue, resource)) found |= UINT64_C(1) << queue;
  }
  return found;
}

/* Whether a strand that was held back for the resource still waits, of those that were let go last. */
static int waits_since(const sd_ready *ready, sd_level_list *l, uint32_t resource) {
  const uint64_t let_go = sd_level_state_of(ready)->let_go[resource];
  if (!let_go) return 0;
  for (uint64_t left = sd_load(&l->queues, relaxed, R1) & queues_for(1u << resource); left; left &= left - 1) {
    const uint32_t first = sd_load(&l->first[__builtin_ctzll(left)], relaxed, R1);
    if (sd_level_strand_of(ready, first - 1)->entered <= let_go) return 1;
  }
  return 0;
}

static uint32_t levels_hold(const sd_ready *ready, uint32_t resources, uint64_t now) {
  sd_level_state *state = sd_level_state_of(ready);
  const uint64_t held = queues_for(resources);
  uint32_t waiting = 0;
  for (uint32_t resource = 0; resource < SD_RESOURCE_COUNT; resource++)
    if ((state->held_for & ~resources) >> resource & 1) state->let_go[resource] = now;
  state->held_for = resources;
  for (uint32_t list = 0; list < ready->n_lists; list++) {
    sd_lock(&ready->lists[list].lock);
    sd_level_hold(ready, list, held);
    sd_level_rise(ready, list, now);
    for (uint32_t resource = 0; resource < SD_RESOURCE_COUNT; resource++)
      if (!(resources >> resource & 1) && waits_since(ready, sd_level_list_of(ready, list), resource))
        waiting |= 1u << resource;
    sd_unlock(&ready->lists[list].lock);
  }
  return waiting;
}

const sd_policy sd_policy_levels = {
    .name = "levels",
    .state_bytes = levels_state_bytes,
    .entry_bytes = sizeof(sd_level_strand),
    .n_levels = SD_LEVEL_COUNT,
    .taken_at = levels_taken_at,
    .listed = levels_listed,
    .start = levels_start,
    .ready = levels_ready,
    .next = levels_next,
    .gives_way = levels_gives_way,
    .peek = levels_peek,
    .count = levels_count,
    .prioritise = levels_prioritise,
    .accepts = levels_accepts,
    .renew = levels_renew,
    .leave = levels_leave,
    .rose = levels_rose,
    .risen = levels_risen,
    .level = levels_level,
    .take_last = levels_take_last,
    .counts = levels_counts,
    .mark = levels_mark,
    .hold = levels_hold,
    .retime = levels_retime,
};
