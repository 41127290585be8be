/* Fair: of the groups that have ready strands, the one whose slice started earliest comes next, and in a group the strand that became
 * ready first. A cap holds all of them back while the pool has used up its on-CPU time.
 *
 * A group's clock runs by the on-CPU time of its strands, divided by its weight. `start` is what it showed when the group's slice began,
 * and `used` is what was charged since. When `used` reaches a slice, the next slice starts there: at start + used, with all that the group
 * used beyond its slice. So nothing is forgotten, and the earliest start is the least weighted share. The starts of slices are not in the
 * order in which they are set, because groups overrun their slices by different stretches. So the groups stand in a heap.
 *
 * `present` is the start of the last slice from which a strand was taken. No group in the heap starts earlier: one that comes back starts
 * at the present, or where its own clock stands if that is later. So a group that was idle has saved up nothing, and one that ran ahead
 * does not shed its debt by being idle for a moment.
 *
 * A cap is a bucket (schedule/bucket.h). The order is kept: while the first group may not run, nobody runs.
 *
 * All of it stands on list 0, under that list's lock. Deferred strands (policy.h) stand in chains of their groups of their own, and so
 * groups in two heaps, one for each side. A group has one clock. One that has only deferred strands is as one that is idle: its start may be
 * before the present. */
#include "schedule/policy.h"

#include <string.h>

#include "schedule/bucket.h"
#include "schedule/stretches.h"

/* The sides: what any worker may take, and what is deferred. */
enum { OPEN = 0, DEFERRED, SIDES };

/* Groups besides one per strand: those that are named, and have no symbol at the start. */
enum { MORE_GROUPS = SD_FAIR_MORE_GROUPS, UNIT_WEIGHT = SD_FAIR_UNIT_WEIGHT };

/* A group's clock, in ns divided by the weight: with the smallest weight, 64 bits would last for days. */
__extension__ typedef unsigned __int128 fair_time;

typedef struct fair_group {
  fair_time start;
  uint64_t used;                    /* since then, by the group's clock; below a slice */
  uint64_t order;                   /* of two that start together, which one came first */
  uint32_t remainder;               /* of what was charged, what did not make a whole ns of the group's clock */
  uint32_t weight;                  /* in thousandths; 0: one */
  sd_a32 first[SIDES], last[SIDES]; /* its ready strands, each one more than the index; 0: none */
  uint32_t place[SIDES];            /* in the side's heap, one more; 0: it has no ready strands there */
  uint32_t in_slice;                /* a strand was taken since its slice started */
  uint32_t tasks;                   /* of the group, that are not over */
  uint32_t closed;                  /* no task is submitted to it any more */
  uint32_t next;                    /* behind it in the queue of those that are to be returned, one more; 0: none */
  sd_group_counts counts;
} fair_group;

/* A strand. Memory of zeros is one of group 0 that is not listed. */
typedef struct fair_strand {
  uint32_t group;        /* to which it belongs */
  uint32_t of;           /* that of its visit, to which the visit is charged; while it is listed, `group` */
  sd_a32 next, previous; /* in its chain, one more than the index */
  uint32_t listed;       /* one more than the side; 0: it is not listed */
} fair_strand;

typedef struct fair_state {
  SD_ALIGNED(2 * SD_LINE) sd_a32 hint; /* the strand that comes next, one more; 0: none is ready */
  uint32_t capped;                     /* never changes */
  fair_time present;
  uint64_t slice_ns, turn;
  uint32_t n_groups, n_ready[SIDES]; /* n_ready: groups in the heaps */
  uint32_t first_over, last_over;    /* the queue of groups that were closed and have no task, each one more; 0: none */
  sd_bucket bucket;
  uint64_t long_stretches;
  sd_long_stretch longest[SD_LONG_STRETCHES];
} fair_state;

static inline fair_state *fair_of(const sd_ready *ready) { return (fair_state *)(void *)ready->state; }

static inline uint32_t groups_for(const sd_fair_config *fair, uint32_t n_strands) {
  return fair->n_groups ? fair->n_groups : n_strands + MORE_GROUPS;
}

static inline fair_group *group_of(const sd_ready *ready, uint32_t group) {
  return (fair_group *)(void *)(fair_of(ready) + 1) + group;
}

static inline uint32_t *heap_of(const sd_ready *ready, int side) {
  const uint32_t groups = fair_of(ready)->n_groups;
  return (uint32_t *)(void *)group_of(ready, groups) + (uint64_t)side * groups;
}

static inline fair_strand *fair_strand_of(const sd_ready *ready, uint32_t strand) {
  return (fair_strand *)(void *)heap_of(ready, SIDES) + strand;
}

static uint64_t fair_state_bytes(const sd_policy_config *config, uint32_t n_lists, uint32_t n_strands,
                                 uint32_t n_entries) {
  (void)n_lists;
  return sizeof(fair_state) + groups_for(&config->fair, n_strands) * (sizeof(fair_group) + SIDES * sizeof(uint32_t)) +
         (uint64_t)n_entries * sizeof(fair_strand);
}

static void fair_start(const sd_ready *ready, const sd_policy_config *config) {
  fair_state *state = fair_of(ready);
  const sd_fair_config *fair = &config->fair;
  state->slice_ns = fair->slice_ns ? fair->slice_ns : 1;
  state->n_groups = groups_for(fair, ready->n_strands);
  state->capped = fair->cpu_share > 0;
  sd_bucket_start(&state->bucket, fair->cpu_share * ready->n_workers, fair->burst_ns, state->slice_ns);
}

/* ---- the heaps of groups that have ready strands, by the starts of their slices */

static inline int starts_before(const fair_group *a, const fair_group *b) {
  return a->start < b->start || (a->start == b->start && a->order < b->order);
}

static void put_group(const sd_ready *ready, int side, uint32_t place, uint32_t group) {
  heap_of(ready, side)[place] = group;
  group_of(ready, group)->place[side] = place + 1;
}

static void rise_in_heap(const sd_ready *ready, int side, uint32_t place, uint32_t group) {
  const uint32_t *heap = heap_of(ready, side);
  for (uint32_t above; place; place = above) {
    above = (place - 1) / 2;
    if (!starts_before(group_of(ready, group), group_of(ready, heap[above]))) break;
    put_group(ready, side, place, heap[above]);
  }
  put_group(ready, side, place, group);
}

static void sink_in_heap(const sd_ready *ready, int side, uint32_t place, uint32_t group) {
  const uint32_t *heap = heap_of(ready, side), n = fair_of(ready)->n_ready[side];
  for (uint32_t below; (below = 2 * place + 1) < n; place = below) {
    if (below + 1 < n && starts_before(group_of(ready, heap[below + 1]), group_of(ready, heap[below]))) below++;
    if (!starts_before(group_of(ready, heap[below]), group_of(ready, group))) break;
    put_group(ready, side, place, heap[below]);
  }
  put_group(ready, side, place, group);
}

static void leave_heap(const sd_ready *ready, int side, uint32_t group) {
  fair_state *state = fair_of(ready);
  const uint32_t place = group_of(ready, group)->place[side] - 1, other = heap_of(ready, side)[--state->n_ready[side]];
  group_of(ready, group)->place[side] = 0;
  if (other == group) return;
  sink_in_heap(ready, side, place, other);
  rise_in_heap(ready, side, group_of(ready, other)->place[side] - 1, other);
}

/* The group that comes first of a side. NULL: it has none. */
static fair_group *first_group(const sd_ready *ready, int side) {
  return fair_of(ready)->n_ready[side] ? group_of(ready, heap_of(ready, side)[0]) : NULL;
}

/* The side that comes first. In a group deferred strands do, as they were taken before. */
static int first_side(const sd_ready *ready, int deferred) {
  const fair_group *open = first_group(ready, OPEN), *other = first_group(ready, DEFERRED);
  return deferred == SD_TAKE_DEFERRED && other && (!open || !starts_before(open, other)) ? DEFERRED : OPEN;
}

/* The group starts later than it did. */
static void sink(const sd_ready *ready, const fair_group *g) {
  for (int side = OPEN; side < SIDES; side++)
    if (g->place[side]) sink_in_heap(ready, side, g->place[side] - 1, heap_of(ready, side)[g->place[side] - 1]);
}

/* The group begins its next slice, from where its clock stands. */
static void end_slice(const sd_ready *ready, fair_group *g) {
  g->start += g->used;
  g->used = 0;
  g->in_slice = 0;
  g->order = fair_of(ready)->turn++;
  sink(ready, g);
}

/* The group was idle, or had only deferred strands. It has saved up nothing. */
static void catch_up(const sd_ready *ready, fair_group *g) {
  fair_state *state = fair_of(ready);
  if (g->start < state->present) {
    end_slice(ready, g);
    if (g->start < state->present) g->start = state->present;
  } else if (!g->in_slice) {
    g->order = state->turn++;
  }
  sink(ready, g);
}

/* ---- a group's strands */

/* R1: relaxed; under the lock. Atomic so that the seeded scheduler has points between the steps of a change. */
static inline uint32_t link_at(sd_a32 *link) { return sd_load(link, relaxed, R1); }
static inline void set_link(sd_a32 *link, uint32_t to) { sd_store(link, to, relaxed, R1); }

static void enter_group(const sd_ready *ready, int side, uint32_t strand, int in_front) {
  fair_strand *s = fair_strand_of(ready, strand);
  const uint32_t group = s->group;
  fair_group *g = group_of(ready, group);
  s->of = group;
  s->listed = (uint32_t)side + 1;
  const uint32_t next = in_front ? link_at(&g->first[side]) : 0, previous = in_front ? 0 : link_at(&g->last[side]);
  set_link(&s->next, next);
  set_link(&s->previous, previous);
  set_link(next ? &fair_strand_of(ready, next - 1)->previous : &g->last[side], strand + 1);
  set_link(previous ? &fair_strand_of(ready, previous - 1)->next : &g->first[side], strand + 1);
  if (g->place[side]) return;
  if (side == OPEN || !g->place[OPEN]) catch_up(ready, g);
  rise_in_heap(ready, side, fair_of(ready)->n_ready[side]++, group);
}

static void leave_group(const sd_ready *ready, uint32_t strand) {
  fair_strand *s = fair_strand_of(ready, strand);
  fair_group *g = group_of(ready, s->of);
  const int side = (int)s->listed - 1;
  const uint32_t next = link_at(&s->next), previous = link_at(&s->previous);
  set_link(next ? &fair_strand_of(ready, next - 1)->previous : &g->last[side], previous);
  set_link(previous ? &fair_strand_of(ready, previous - 1)->next : &g->first[side], next);
  s->listed = 0;
  if (!next && !previous) leave_heap(ready, side, s->of);
}

static void say_hint(const sd_ready *ready) {
  fair_group *g = first_group(ready, OPEN);
  sd_store(&fair_of(ready)->hint, g ? link_at(&g->first[OPEN]) : 0, relaxed, R1);
}

/* ---- the table */

/* The list that counts the strands of a side. Both change under the lock of list 0. */
static inline sd_list *list_of(const sd_ready *ready, int side) {
  return &ready->lists[side == DEFERRED ? ready->n_workers : 0];
}

static void fair_ready(const sd_ready *ready, uint32_t list, const uint32_t *strands, uint32_t n, int why,
                       uint64_t now) {
  (void)now;
  const int side = list < ready->n_workers ? OPEN : DEFERRED;
  sd_lock(&ready->lists[0].lock);
  for (uint32_t i = 0; i < n; i++) enter_group(ready, side, strands[i], why == SD_NOT_VISITED);
  say_hint(ready);
  sd_list_count_listed(list_of(ready, side), n);
  sd_unlock(&ready->lists[0].lock);
}

static uint32_t fair_next(const sd_ready *ready, uint32_t own, int deferred, uint64_t now, sd_can_use can,
                          const void *who) {
  (void)own;
  fair_state *state = fair_of(ready);
  uint32_t strand = SD_NONE;
  /* R2: relaxed; a hint, so that idle workers do not take the lock from those who list strands. */
  if (deferred != SD_TAKE_DEFERRED && !sd_load(&state->hint, relaxed, R2)) return SD_NONE;
  sd_lock(&ready->lists[0].lock);
  const int side = first_side(ready, deferred);
  fair_group *g = first_group(ready, side);
  if (g && SD_UNLIKELY(can != NULL) && !can(who, link_at(&g->first[side]) - 1)) g = NULL;
  if (g && !(state->capped && sd_bucket_holds(&state->bucket, g->in_slice, now))) {
    if (g->start < state->present) catch_up(ready, g);
    state->present = g->start;
    g->in_slice = 1;
    strand = link_at(&g->first[side]) - 1;
    leave_group(ready, strand);
    say_hint(ready);
    sd_list_count_taken(list_of(ready, side), 1);
  }
  sd_unlock(&ready->lists[0].lock);
  return strand;
}

/* While the cap holds the pool, a participant gives way although nobody else may run either. */
static int fair_gives_way(const sd_ready *ready, uint32_t own, uint32_t strand, int deferred, uint64_t now) {
  (void)own;
  fair_state *state = fair_of(ready);
  /* R2 */
  if (!state->capped && deferred != SD_TAKE_DEFERRED && !sd_load(&state->hint, relaxed, R2)) return 0;
  sd_lock(&ready->lists[0].lock);
  const fair_group *its = group_of(ready, fair_strand_of(ready, strand)->of);
  int yes = state->capped && sd_bucket_holds(&state->bucket, 1, now);
  if (!yes) {
    const fair_group *first = first_group(ready, first_side(ready, deferred));
    yes = first && first != its && starts_before(first, its);
  }
  sd_unlock(&ready->lists[0].lock);
  return yes;
}

static uint32_t fair_peek(const sd_ready *ready, uint32_t list, uint32_t i) {
  if (list || i) return SD_NONE;
  /* R2 */
  const uint32_t first = sd_load(&fair_of(ready)->hint, relaxed, R2);
  return first ? first - 1 : SD_NONE;
}

static int fair_count(const sd_ready *ready, uint32_t list, uint32_t *times) {
  const int side = list < ready->n_workers ? OPEN : DEFERRED;
  if (list && side == OPEN) return sd_list_length_locked(&ready->lists[list]) == 0;
  uint32_t n = 0, good = 1;
  sd_lock(&ready->lists[0].lock);
  const fair_state *state = fair_of(ready);
  const uint32_t length = sd_list_length(list_of(ready, side));
  for (uint32_t i = 0; good && i < state->n_ready[side]; i++) {
    const uint32_t group = heap_of(ready, side)[i];
    good = group < state->n_groups && group_of(ready, group)->place[side] == i + 1;
    if (!good) break;
    for (uint32_t at = link_at(&group_of(ready, group)->first[side]); at && n <= length; n++) {
      good = good && at <= ready->n_entries;
      if (!good) break;
      times[at - 1]++;
      at = link_at(&fair_strand_of(ready, at - 1)->next);
    }
  }
  sd_unlock(&ready->lists[0].lock);
  return good && n == length;
}

static int fair_accepts(const sd_ready *ready, uint32_t group) { return group < fair_of(ready)->n_groups; }

/* ---- groups of tasks, which end

 * A group that was closed is returned when its tasks are over, and so nothing is charged to it any more, and when its debt is past: where
 * its clock stands is then not after the present, from which a new group starts too; or no group waits, to which it could owe. */

static void end_if_over(const sd_ready *ready, uint32_t group) {
  fair_state *state = fair_of(ready);
  fair_group *g = group_of(ready, group);
  if (!g->closed || g->tasks) return;
  g->next = 0;
  if (state->last_over) group_of(ready, state->last_over - 1)->next = group + 1;
  else state->first_over = group + 1;
  state->last_over = group + 1;
}

static void fair_renew(const sd_ready *ready, uint32_t task, uint32_t group, uint32_t marks) {
  (void)marks;
  fair_strand *s = fair_strand_of(ready, task);
  s->group = group == UINT32_MAX ? 0 : group;
  sd_lock(&ready->lists[0].lock);
  group_of(ready, s->group)->tasks++;
  sd_unlock(&ready->lists[0].lock);
}

static void leave_tasks(const sd_ready *ready, uint32_t group) {
  group_of(ready, group)->tasks--;
  end_if_over(ready, group);
}

static void fair_over(const sd_ready *ready, uint32_t task) {
  sd_lock(&ready->lists[0].lock);
  leave_tasks(ready, fair_strand_of(ready, task)->group);
  sd_unlock(&ready->lists[0].lock);
}

static int fair_close(const sd_ready *ready, uint32_t group) {
  if (group >= fair_of(ready)->n_groups) return 0;
  sd_lock(&ready->lists[0].lock);
  const int open = !group_of(ready, group)->closed;
  if (open) {
    group_of(ready, group)->closed = 1;
    end_if_over(ready, group);
  }
  sd_unlock(&ready->lists[0].lock);
  return open;
}

/* Looks at twice as many groups as it may return, those that have waited longest first: one with a debt waits for another turn. */
static uint32_t fair_returned(const sd_ready *ready, uint32_t n, int all, uint32_t *groups, sd_group_counts *counts) {
  fair_state *state = fair_of(ready);
  uint32_t found = 0;
  sd_lock(&ready->lists[0].lock);
  for (uint64_t looks = 2 * (uint64_t)n; state->first_over && found < n && looks; looks--) {
    const uint32_t group = state->first_over - 1;
    fair_group *g = group_of(ready, group);
    state->first_over = g->next;
    if (!g->next) state->last_over = 0;
    const int nobody_waits = !state->n_ready[OPEN] && !state->n_ready[DEFERRED];
    if (!all && !nobody_waits && g->start + g->used > state->present) {
      end_if_over(ready, group);
      continue;
    }
    groups[found] = group;
    counts[found++] = g->counts;
    memset(g, 0, sizeof *g);
  }
  sd_unlock(&ready->lists[0].lock);
  return found;
}

static int fair_leave(const sd_ready *ready, uint32_t strand) {
  const fair_strand *s = fair_strand_of(ready, strand);
  sd_lock(&ready->lists[0].lock);
  const int side = (int)s->listed - 1;
  if (side >= OPEN) {
    leave_group(ready, strand);
    say_hint(ready);
    sd_list_count_taken(list_of(ready, side), 1);
  }
  sd_unlock(&ready->lists[0].lock);
  return side >= OPEN;
}

/* Moves a strand into another group, at once if it is listed. What is charged for a visit under way stays with the old group. A task is not
 * moved while it runs, so its next turn is charged to the new group: the old one may be returned when its last task has left it. */
static int fair_prioritise(const sd_ready *ready, uint32_t strand, uint32_t group, int for_backlog, uint64_t now) {
  (void)now;
  if (for_backlog || !fair_accepts(ready, group)) return 0;
  fair_strand *s = fair_strand_of(ready, strand);
  sd_lock(&ready->lists[0].lock);
  const int moves = s->listed && s->group != group, side = (int)s->listed - 1;
  if (moves) leave_group(ready, strand);
  if (strand >= ready->n_strands) {
    group_of(ready, group)->tasks++;
    leave_tasks(ready, s->group);
    s->of = group;
  }
  s->group = group;
  if (moves) {
    enter_group(ready, side, strand, 0);
    say_hint(ready);
  }
  sd_unlock(&ready->lists[0].lock);
  return 1;
}

static uint32_t weight_of(const fair_group *g) { return g->weight ? g->weight : UNIT_WEIGHT; }

static int fair_weigh(const sd_ready *ready, uint32_t group, uint32_t weight) {
  if (group >= fair_of(ready)->n_groups || !weight) return 0;
  sd_lock(&ready->lists[0].lock);
  fair_group *g = group_of(ready, group);
  if (weight != weight_of(g)) g->remainder = 0; /* it is below a ns of the group's clock, and is of the other weight */
  g->weight = weight;
  sd_unlock(&ready->lists[0].lock);
  return 1;
}

static void fair_charge(const sd_ready *ready, uint32_t strand, uint64_t on_cpu_ns) {
  fair_state *state = fair_of(ready);
  sd_lock(&ready->lists[0].lock);
  fair_group *g = group_of(ready, fair_strand_of(ready, strand)->of);
  const uint32_t weight = weight_of(g);
  const fair_time charged = (fair_time)on_cpu_ns * UNIT_WEIGHT + g->remainder;
  g->counts.on_cpu_ns += on_cpu_ns;
  g->remainder = (uint32_t)(charged % weight);
  g->used += (uint64_t)(charged / weight);
  if (state->capped) sd_bucket_take(&state->bucket, on_cpu_ns);
  if ((fair_time)on_cpu_ns * UNIT_WEIGHT > (fair_time)state->slice_ns * weight) {
    state->long_stretches++;
    g->counts.long_stretches++;
    if (g->counts.longest_ns < on_cpu_ns) g->counts.longest_ns = on_cpu_ns;
    if (strand < ready->n_strands) sd_note_stretch(state->longest, strand, on_cpu_ns);
  }
  if (g->used >= state->slice_ns) {
    end_slice(ready, g);
    g->counts.slice_ends++;
    say_hint(ready);
  }
  sd_unlock(&ready->lists[0].lock);
}

static uint64_t fair_due(const sd_ready *ready, uint64_t now) {
  fair_state *state = fair_of(ready);
  if (!state->capped) return 0;
  sd_lock(&ready->lists[0].lock);
  const uint64_t due = sd_bucket_due(&state->bucket, now);
  sd_unlock(&ready->lists[0].lock);
  return due;
}

static void fair_group_counts(const sd_ready *ready, uint32_t n, sd_group_counts *groups, sd_fair_counts *all) {
  const fair_state *state = fair_of(ready);
  sd_lock(&ready->lists[0].lock);
  for (uint32_t i = 0; i < n && i < state->n_groups; i++) groups[i] = group_of(ready, i)->counts;
  all->holds = state->bucket.holds;
  all->long_stretches = state->long_stretches;
  memcpy(all->longest, state->longest, sizeof state->longest);
  sd_unlock(&ready->lists[0].lock);
}

const sd_policy sd_policy_fair = {
    .name = "fair",
    .one_list = 1,
    .state_bytes = fair_state_bytes,
    .entry_bytes = sizeof(fair_strand),
    .start = fair_start,
    .ready = fair_ready,
    .next = fair_next,
    .gives_way = fair_gives_way,
    .peek = fair_peek,
    .count = fair_count,
    .prioritise = fair_prioritise,
    .accepts = fair_accepts,
    .renew = fair_renew,
    .over = fair_over,
    .leave = fair_leave,
    .weigh = fair_weigh,
    .close = fair_close,
    .returned = fair_returned,
    .group_counts = fair_group_counts,
    .charge = fair_charge,
    .due = fair_due,
};
