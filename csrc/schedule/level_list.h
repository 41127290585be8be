/* A list of Levels: its queues, and the strands in them. All of it is used under the list's lock, but for the hints.
 *
 * A list has a queue for each level, for strands that were listed in it and for those that rose into it, and for each combination of
 * marks. Each queue is in the order in which its strands entered the level, and in the order in which they are due to rise. Strands that
 * rose are apart for that: where waits count since the strand was listed, one that rose has waited longer than its new level allows, and
 * is due again at once. So a look at the heads of the queues finds all that are due. Marks have queues of their own, so that a set of
 * queues can be held back.
 *
 * The length of a list (list.h) counts the strands that may be taken: those in queues that are not held back. So workers and publishers
 * that go by the length wake for nothing that they may not take, and sleep although strands are held back. */
#pragma once

#include "schedule/policy.h"

enum { SD_MARK_SETS = 4 }; /* combinations of marks */
/* The number of a queue is (level * 2 + whether its strands rose) * SD_MARK_SETS + their marks. */
enum { SD_QUEUES_OF_LEVEL = 2 * SD_MARK_SETS, SD_QUEUES = SD_LEVEL_COUNT * SD_QUEUES_OF_LEVEL };

/* A set of queues has a bit for each of them. */
#define SD_QUEUES_OF(level) (((UINT64_C(1) << SD_QUEUES_OF_LEVEL) - 1) << ((level) * SD_QUEUES_OF_LEVEL))

/* A strand. Links and places are one more than an index, and so 0 for none: memory of zeros is a strand that is not listed. */
typedef struct sd_level_strand {
  SD_ALIGNED(SD_LINE) sd_a32 level; /* one more than its level; 0: SD_NORMAL */
  sd_a64 raised;         /* for its backlog: when, in the upper bits, and one more than the level; 0: not raised */
  sd_a32 list;           /* where it is listed. The rest is the list's, under its lock. */
  sd_a32 next, previous; /* in its queue */
  uint32_t queue, began, counted; /* began: the level in which the wait began; counted: it is counted as starved */
  uint32_t marks;                 /* SD_MARK_IO and so on; set before it is listed */
  sd_a32 own;                     /* of a task that is counted by its own level: one more than that; else 0 */
  uint32_t risen_from;            /* `own`, where it is counted as risen */
  uint32_t was_last;              /* it was taken as the last of its queue, not as the first */
  uint64_t listed, entered,
      since; /* when it was listed, entered its level, and from when its wait in the level counts */
} sd_level_strand;

typedef struct sd_level_list {
  SD_ALIGNED(2 * SD_LINE) sd_a64 queues; /* those that have strands */
  sd_a64 held;                           /* those that are held back */
  sd_a64 due;                            /* when the next strand is due to rise; UINT64_MAX: never */
  sd_a64 entered; /* when the first strand that may be taken entered its level, of those of the highest level */
  sd_a32 first[SD_QUEUES], last[SD_QUEUES];
  sd_a32 strands[SD_QUEUES];        /* how many there are in each */
  uint64_t timeout[SD_LEVEL_COUNT]; /* in clock counts; a copy of each list's own, so that its lock guards it */
  int64_t risen
      [SD_LEVEL_COUNT]; /* tasks that have risen to the level, less those that have risen from it: see `risen` of sd_policy */
  sd_a64 promoted[SD_LEVEL_COUNT], starved[SD_LEVEL_COUNT];
} sd_level_list;

typedef struct sd_level_state {
  SD_ALIGNED(2 * SD_LINE) uint64_t slack; /* in clock counts */
  int since_listed;
  uint32_t held_for; /* the resources that strands are held back for; this and `let_go` are hold's own */
  uint64_t let_go[SD_RESOURCE_COUNT]; /* when strands were last let go that had been held back for it; 0: never */
} sd_level_state;

static inline sd_level_state *sd_level_state_of(const sd_ready *ready) {
  return (sd_level_state *)(void *)ready->state;
}

static inline sd_level_list *sd_level_list_of(const sd_ready *ready, uint32_t list) {
  return (sd_level_list *)(void *)(sd_level_state_of(ready) + 1) + list;
}

static inline sd_level_strand *sd_level_strand_of(const sd_ready *ready, uint32_t strand) {
  return (sd_level_strand *)(void *)sd_level_list_of(ready, ready->n_lists) + strand;
}

/* The highest level in a set of queues that is not empty. */
static inline uint32_t sd_highest_level(uint64_t queues) {
  return (uint32_t)__builtin_ctzll(queues) / SD_QUEUES_OF_LEVEL;
}

/* The strand of a level that entered it first, of the heads of queues in a set, among those that are due to rise at `now`; UINT64_MAX:
 * among all. One more than its index; 0: there is none. */
uint32_t sd_level_first(const sd_ready *ready, sd_level_list *l, uint64_t queues, uint32_t level, uint64_t now);
/* Lists a strand at a queue's end. */
void sd_level_append(const sd_ready *ready, uint32_t list, uint32_t strand, uint32_t queue);
/* Puts a strand back into its queue where it was: near the end that it was taken from. */
void sd_level_put_back(const sd_ready *ready, uint32_t list, uint32_t strand);
void sd_level_remove(const sd_ready *ready, uint32_t list, uint32_t strand);
/* Whether the strands of a queue have risen into its level. */
static inline int sd_level_rose(uint32_t queue) { return queue / SD_MARK_SETS % 2; }
/* Counts a listed task anew, whose own level may have changed. */
void sd_level_recount(const sd_ready *ready, uint32_t list, uint32_t strand);
/* Lets strands rise that are due, and publishes the hints. */
void sd_level_rise(const sd_ready *ready, uint32_t list, uint64_t now);
/* Publishes what has changed, for those who look without the lock. */
void sd_level_say_hints(const sd_ready *ready, sd_level_list *l);
/* Exchanges the set of queues that are held back. The caller publishes the hints. */
void sd_level_hold(const sd_ready *ready, uint32_t list, uint64_t held);
