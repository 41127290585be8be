#include "schedule/level_list.h"

#include <stddef.h>

#if defined(SD_MODEL_SCHEDULER)
enum { RISING = 2 };
#else
enum { RISING = 64 };
#endif

/* When the strand is due to rise from the level. UINT64_MAX: never. */
static inline uint64_t due_at(const sd_level_list *l, const sd_level_strand *s, uint32_t level) {
  const uint64_t due = s->since + l->timeout[level];
  return level == SD_IMMEDIATE || due < s->since ? UINT64_MAX : due;
}

uint32_t sd_level_first(const sd_ready *ready, sd_level_list *l, uint64_t queues, uint32_t level, uint64_t now) {
  const sd_level_strand *found = NULL;
  uint32_t place = 0;
  for (uint64_t left = queues & SD_QUEUES_OF(level); left; left &= left - 1) {
    const uint32_t first = sd_load(&l->first[__builtin_ctzll(left)], relaxed, R1);
    const sd_level_strand *s = sd_level_strand_of(ready, first - 1);
    if (due_at(l, s, level) > now || (found && found->entered <= s->entered)) continue;
    found = s;
    place = first;
  }
  return place;
}

void sd_level_say_hints(const sd_ready *ready, sd_level_list *l) {
  const uint64_t queues = sd_load(&l->queues, relaxed, R1), free = queues & ~sd_load(&l->held, relaxed, R1);
  uint64_t due = UINT64_MAX;
  for (uint64_t left = queues & ~SD_QUEUES_OF(SD_IMMEDIATE); left; left &= left - 1) {
    const uint32_t queue = (uint32_t)__builtin_ctzll(left);
    const sd_level_strand *first = sd_level_strand_of(ready, sd_load(&l->first[queue], relaxed, R1) - 1);
    const uint64_t at = due_at(l, first, queue / SD_QUEUES_OF_LEVEL);
    if (at < due) due = at;
  }
  sd_store(&l->due, due, relaxed, R1);
  if (!free) return;
  const uint32_t first = sd_level_first(ready, l, free, sd_highest_level(free), UINT64_MAX);
  sd_store(&l->entered, sd_level_strand_of(ready, first - 1)->entered, relaxed, R1);
}

static void count_risen(sd_level_list *l, sd_level_strand *s) {
  const uint32_t own = sd_load(&s->own, relaxed, R3);
  if (!own || !sd_level_rose(s->queue)) return;
  s->risen_from = own;
  l->risen[s->queue / SD_QUEUES_OF_LEVEL]++;
  l->risen[own - 1]--;
}

static void uncount_risen(sd_level_list *l, sd_level_strand *s) {
  if (!s->risen_from) return;
  l->risen[s->queue / SD_QUEUES_OF_LEVEL]--;
  l->risen[s->risen_from - 1]++;
  s->risen_from = 0;
}

void sd_level_recount(const sd_ready *ready, uint32_t list, uint32_t strand) {
  uncount_risen(sd_level_list_of(ready, list), sd_level_strand_of(ready, strand));
  count_risen(sd_level_list_of(ready, list), sd_level_strand_of(ready, strand));
}

/* A strand comes into its queue. The length counts it if it may be taken. */
static void count_in(const sd_ready *ready, uint32_t list, sd_level_strand *s) {
  sd_level_list *l = sd_level_list_of(ready, list);
  const uint32_t queue = s->queue;
  count_risen(l, s);
  sd_store(&l->strands[queue], sd_load(&l->strands[queue], relaxed, R1) + 1, relaxed, R1);
  sd_store(&l->queues, sd_load(&l->queues, relaxed, R1) | UINT64_C(1) << queue, relaxed, R1);
  if (!(sd_load(&l->held, relaxed, R1) >> queue & 1)) sd_list_count_listed(&ready->lists[list], 1);
}

static void count_out(const sd_ready *ready, uint32_t list, sd_level_strand *s) {
  sd_level_list *l = sd_level_list_of(ready, list);
  const uint32_t queue = s->queue;
  uncount_risen(l, s);
  const uint32_t left = sd_load(&l->strands[queue], relaxed, R1) - 1;
  sd_store(&l->strands[queue], left, relaxed, R1);
  if (left == 0) sd_store(&l->queues, sd_load(&l->queues, relaxed, R1) & ~(UINT64_C(1) << queue), relaxed, R1);
  if (!(sd_load(&l->held, relaxed, R1) >> queue & 1)) sd_list_count_taken(&ready->lists[list], 1);
}

void sd_level_append(const sd_ready *ready, uint32_t list, uint32_t strand, uint32_t queue) {
  sd_level_list *l = sd_level_list_of(ready, list);
  sd_level_strand *s = sd_level_strand_of(ready, strand);
  const uint32_t last = sd_load(&l->last[queue], relaxed, R1);
  s->queue = queue;
  sd_store(&s->next, 0, relaxed, R1);
  sd_store(&s->previous, last, relaxed, R1);
  sd_store(&l->last[queue], strand + 1, relaxed, R1);
  if (last) {
    sd_level_strand *before = sd_level_strand_of(ready, last - 1);
    /* A queue is in order whatever threads' clocks say. */
    if (s->entered < before->entered) s->entered = before->entered;
    if (s->since < before->since) s->since = before->since;
    sd_store(&before->next, strand + 1, relaxed, R1);
  } else {
    sd_store(&l->first[queue], strand + 1, relaxed, R1);
  }
  count_in(ready, list, s);
}

void sd_level_put_back(const sd_ready *ready, uint32_t list, uint32_t strand) {
  sd_level_list *l = sd_level_list_of(ready, list);
  sd_level_strand *s = sd_level_strand_of(ready, strand);
  const uint32_t queue = s->queue;
  uint32_t before = 0, behind = 0;
  if (s->was_last) {
    before = sd_load(&l->last[queue], relaxed, R1);
    while (before && sd_level_strand_of(ready, before - 1)->entered > s->entered) {
      behind = before;
      before = sd_load(&sd_level_strand_of(ready, before - 1)->previous, relaxed, R1);
    }
  } else {
    behind = sd_load(&l->first[queue], relaxed, R1);
    while (behind && sd_level_strand_of(ready, behind - 1)->entered < s->entered) {
      before = behind;
      behind = sd_load(&sd_level_strand_of(ready, behind - 1)->next, relaxed, R1);
    }
  }
  if (!behind) {
    sd_level_append(ready, list, strand, queue);
    return;
  }
  sd_store(&s->next, behind, relaxed, R1);
  sd_store(&s->previous, before, relaxed, R1);
  sd_store(&sd_level_strand_of(ready, behind - 1)->previous, strand + 1, relaxed, R1);
  if (before) sd_store(&sd_level_strand_of(ready, before - 1)->next, strand + 1, relaxed, R1);
  else sd_store(&l->first[queue], strand + 1, relaxed, R1);
  count_in(ready, list, s);
}

void sd_level_remove(const sd_ready *ready, uint32_t list, uint32_t strand) {
  sd_level_list *l = sd_level_list_of(ready, list);
  sd_level_strand *s = sd_level_strand_of(ready, strand);
  const uint32_t next = sd_load(&s->next, relaxed, R1), previous = sd_load(&s->previous, relaxed, R1);
  if (next) sd_store(&sd_level_strand_of(ready, next - 1)->previous, previous, relaxed, R1);
  else sd_store(&l->last[s->queue], previous, relaxed, R1);
  if (previous) sd_store(&sd_level_strand_of(ready, previous - 1)->next, next, relaxed, R1);
  else sd_store(&l->first[s->queue], next, relaxed, R1);
  count_out(ready, list, s);
}

/* A look lets a strand rise by one level, because it goes through the levels from the highest to the lowest. It lets at most RISING strands
 * of a level rise, so that the lock is held for a short time. The others are due at the next look. */
void sd_level_rise(const sd_ready *ready, uint32_t list, uint64_t now) {
  sd_level_list *l = sd_level_list_of(ready, list);
  for (uint32_t level = SD_HIGH; level < SD_LEVEL_COUNT; level++) {
    for (uint32_t n = 0; n < RISING; n++) {
      const uint32_t place = sd_level_first(ready, l, sd_load(&l->queues, relaxed, R1), level, now);
      if (!place) break;
      sd_level_strand *s = sd_level_strand_of(ready, place - 1);
      sd_level_remove(ready, list, place - 1);
      s->entered = now;
      if (!sd_level_state_of(ready)->since_listed) s->since = now;
      sd_level_append(ready, list, place - 1, (2 * (level - 1) + 1) * SD_MARK_SETS + s->marks);
      sd_store(&l->promoted[level], sd_load(&l->promoted[level], relaxed, R1) + 1, relaxed, R1);
    }
  }
  sd_level_say_hints(ready, l);
}

void sd_level_hold(const sd_ready *ready, uint32_t list, uint64_t held) {
  sd_level_list *l = sd_level_list_of(ready, list);
  const uint64_t before = sd_load(&l->held, relaxed, R1);
  for (uint64_t left = before ^ held; left; left &= left - 1) {
    const uint32_t queue = (uint32_t)__builtin_ctzll(left);
    const uint32_t n = sd_load(&l->strands[queue], relaxed, R1);
    if (held >> queue & 1) sd_list_count_taken(&ready->lists[list], n);
    else sd_list_count_listed(&ready->lists[list], n);
  }
  sd_store(&l->held, held, relaxed, R1);
}
