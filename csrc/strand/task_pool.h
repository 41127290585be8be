/* The pool of tasks: a table, a stack of free entries under one lock, and a cache for each participant, as segments have (memory/segment.h).
 *
 * A worker takes entries from its cache, which gets and gives back SD_TASK_RUN_OF at a time. All other threads are guests: they take what
 * they need off the stack under the lock, and are counted there while they submit. So whoever closes the pool when no worker runs any more
 * can wait for those that took entries before. */
#pragma once

#include "strand/tasks.h"

#if defined(SD_MODEL_SCHEDULER) || defined(SD_MODEL_STRANDS)
enum { SD_TASK_RUN_OF = 2, SD_TASKS_MORE = 4 };
#else
enum { SD_TASK_RUN_OF = 64, SD_TASKS_MORE = 4096 /* entries to allocate at once, if the space is attachable */ };
#endif

/* Free tasks and those on strands are counted apart, since drain() waits for the first kind only where strands are held. */
enum { SD_FREE_TASKS = 0, SD_STRAND_TASKS, SD_TASK_KINDS };

/* Written by one participant, or by guests under the pool's lock. Neither ever goes down. */
typedef struct sd_task_counts {
  sd_a64 submitted[SD_TASK_KINDS], ended[SD_TASK_KINDS];
  sd_a64 cancelled, expired; /* of those that ended */
  sd_a64 suspended;          /* times that a task of Python's gave its participant back */
} sd_task_counts;

typedef struct sd_task_cache {
  SD_PLAIN(uint32_t) count;
  SD_PLAIN(uint32_t) index[2 * SD_TASK_RUN_OF]; /* a LIFO */
} sd_task_cache;

/* Shared; in the arena. */
typedef struct sd_task_list {
  sd_a32 lock;
  SD_PLAIN(uint32_t) free;   /* entries on the stack */
  SD_PLAIN(uint32_t) unused; /* entries from here to n have never been handed out */
  SD_PLAIN(uint32_t) filled; /* entries below this have memory */
  uint32_t n;
  SD_PLAIN(uint32_t) closed; /* nobody gets entries any more */
  SD_PLAIN(int32_t) kept;    /* entries that only turns for overdue alarms get: one for each strand that has no turn */
  sd_a32 guests;             /* guests that submit */
  sd_a32 turn;               /* which list gets what guests submit next */
  sd_task_counts counts;     /* the guests' */
} sd_task_list;

/* One process's access to the pool. */
typedef struct sd_task_pool {
  sd_task_list *list;
  SD_PLAIN(uint32_t) * stack;
  sd_task *tasks;
  sd_space *space;
  /* What a policy keeps of each task, and grows with the table: where it begins, and bytes per task. */
  uint64_t policy_at;
  uint32_t policy_bytes;
} sd_task_pool;

#if defined(SD_MODEL_STRANDS)
static inline void sd_tasks_grow(sd_task_pool *pool) {}
#else
/* Gives more entries memory. If the system has none, `filled` stays as it is. Under the lock. */
static inline void sd_tasks_grow(sd_task_pool *pool) {
  sd_task_list *list = pool->list;
  const uint64_t from = list->filled, left = list->n - list->filled, n = left < SD_TASKS_MORE ? left : SD_TASKS_MORE;
  const uint64_t tasks = sd_space_offset(pool->space, pool->tasks), stack = sd_space_offset(pool->space, pool->stack);
  if (!n || sd_space_fill(pool->space, tasks + from * sizeof(sd_task), n * sizeof(sd_task)) ||
      sd_space_fill(pool->space, stack + from * sizeof(uint32_t), n * sizeof(uint32_t)) ||
      (pool->policy_bytes &&
       sd_space_fill(pool->space, pool->policy_at + from * pool->policy_bytes, n * pool->policy_bytes)))
    return;
  list->filled = list->filled + (uint32_t)n;
}
#endif

/* How many of n entries there are for other tasks than turns for overdue alarms. So tasks on strands that are held cannot keep timers of
 * other strands from firing. Under the lock. */
static inline uint32_t sd_tasks_allowed(sd_task_list *list, uint32_t n) {
  const int64_t there = (int64_t)(uint32_t)list->free + list->n - (uint32_t)list->unused - (int32_t)list->kept;
  return there <= 0 ? 0 : there < n ? (uint32_t)there : n;
}

/* Takes up to n entries; returns how many. Under the lock. */
static inline uint32_t sd_tasks_pop(sd_task_pool *pool, uint32_t *to, uint32_t n) {
  sd_task_list *list = pool->list;
  uint32_t got = 0;
  for (; got < n && list->free; got++) {
    list->free = list->free - 1;
    to[got] = (uint32_t)pool->stack[list->free];
  }
  for (; got < n; got++) {
    if (SD_UNLIKELY(list->unused == list->filled)) sd_tasks_grow(pool);
    if (list->unused == list->filled) break;
    to[got] = (uint32_t)list->unused;
    list->unused = list->unused + 1;
  }
  return got;
}

/* By the participant whose cache it is: takes up to n entries; returns how many. */
static inline uint32_t sd_tasks_take(sd_task_pool *pool, sd_task_cache *cache, uint32_t *to, uint32_t n) {
  uint32_t got = 0, run[SD_TASK_RUN_OF];
  while (got < n) {
    if (cache->count == 0) {
      sd_lock(&pool->list->lock);
      const uint32_t more = sd_tasks_pop(pool, run, sd_tasks_allowed(pool->list, SD_TASK_RUN_OF));
      sd_unlock(&pool->list->lock);
      if (!more) break;
      for (uint32_t i = 0; i < more; i++) cache->index[i] = run[i];
      cache->count = more;
    }
    cache->count = cache->count - 1;
    to[got++] = (uint32_t)cache->index[cache->count];
  }
  return got;
}

/* Gives an entry back, whose task has ended. */
static inline void sd_tasks_put(sd_task_pool *pool, sd_task_cache *cache, uint32_t index) {
  sd_task_list *list = pool->list;
  cache->index[cache->count] = index;
  cache->count = cache->count + 1;
  if (cache->count < 2 * SD_TASK_RUN_OF) return;
  /* The older half goes, and the newer one is in this core's cache. */
  sd_lock(&list->lock);
  for (uint32_t i = 0; i < SD_TASK_RUN_OF; i++) pool->stack[list->free + i] = (uint32_t)cache->index[i];
  list->free = list->free + SD_TASK_RUN_OF;
  sd_unlock(&list->lock);
  for (uint32_t i = 0; i < SD_TASK_RUN_OF; i++) cache->index[i] = (uint32_t)cache->index[SD_TASK_RUN_OF + i];
  cache->count = SD_TASK_RUN_OF;
}

/* ---- counts ---------------------------------------------------------------------------------------------------- */

/* By the writer of the counts, before the tasks are listed. */
static inline void sd_tasks_count_submitted(sd_task_counts *c, int kind, uint64_t n) {
  /* J4: relaxed; whoever reads that one of them has ended sees it (J5). */
  sd_store(&c->submitted[kind], sd_load(&c->submitted[kind], relaxed, J4) + n, relaxed, J4);
}

/* By the writer of the counts, when the task has run. */
static inline void sd_tasks_count_ended(sd_task_counts *c, int kind) {
  /* J5: release; whoever sees that it has ended sees what it did, and what it submitted. */
  sd_store(&c->ended[kind], sd_load(&c->ended[kind], relaxed, J4) + 1, release, J5);
}

/* ---- guests ---------------------------------------------------------------------------------------------------- */

/* Takes up to n entries and counts them as submitted; returns how many. SD_NONE: the pool is closed. sd_guest_leaves has to follow, once
 * the tasks are listed. `overdue`: they are turns for overdue alarms, as for sd_guest_gives. */
static inline uint32_t sd_guest_takes(sd_task_pool *pool, uint32_t *to, uint32_t n, int kind, int overdue) {
  sd_task_list *list = pool->list;
  uint32_t got = SD_NONE;
  sd_lock(&list->lock);
  if (!list->closed) {
    got = sd_tasks_pop(pool, to, overdue ? n : sd_tasks_allowed(list, n));
    if (overdue) list->kept = list->kept - (int32_t)got;
    sd_tasks_count_submitted(&list->counts, kind, got);
    /* J6: relaxed; under the lock. */
    sd_fetch_add(&list->guests, 1u, relaxed, J6);
  }
  sd_unlock(&list->lock);
  return got;
}

static inline void sd_guest_leaves(sd_task_pool *pool) {
  /* J6: release; pairs with the acquire of sd_tasks_close: what the guest submitted is there. */
  sd_fetch_sub(&pool->list->guests, 1u, release, J6);
}

/* A guest gives the entry of a task that has ended back; any thread that of a turn for overdue alarms. */
static inline void sd_guest_gives(sd_task_pool *pool, uint32_t index, int kind, int overdue) {
  sd_task_list *list = pool->list;
  sd_lock(&list->lock);
  pool->stack[list->free] = index;
  list->free = list->free + 1;
  if (overdue) list->kept = list->kept + 1;
  sd_tasks_count_ended(&list->counts, kind);
  sd_unlock(&list->lock);
}

/* By any thread: a task was given up, and its entry, or one in its place, is free before a worker reached it. */
static inline void sd_guest_gives_up(sd_task_pool *pool, uint32_t index, int kind) {
  sd_task_list *list = pool->list;
  sd_lock(&list->lock);
  pool->stack[list->free] = index;
  list->free = list->free + 1;
  sd_store(&list->counts.cancelled, sd_load(&list->counts.cancelled, relaxed, J4) + 1, relaxed, J4);
  sd_tasks_count_ended(&list->counts, kind);
  sd_unlock(&list->lock);
}

/* By the thread of a task that is away: the task is over, and its entry free. Zero: the pool is closed, and the stop ends the task. */
static inline int sd_guest_ends(sd_task_pool *pool, uint32_t index, int kind) {
  sd_task_list *list = pool->list;
  sd_lock(&list->lock);
  const int open = !list->closed;
  if (open) {
    sd_task_end(&pool->tasks[index]);
    pool->stack[list->free] = index;
    list->free = list->free + 1;
    sd_tasks_count_ended(&list->counts, kind);
  }
  sd_unlock(&list->lock);
  return open;
}

/* From here on nobody gets entries from the pool. Returns how many were ever handed out; all that guests took are submitted. */
static inline uint32_t sd_tasks_close(sd_task_pool *pool) {
  sd_task_list *list = pool->list;
  sd_lock(&list->lock);
  list->closed = 1;
  const uint32_t used = list->unused;
  sd_unlock(&list->lock);
  /* J6: acquire; pairs with the release of sd_guest_leaves. */
  while (sd_load(&list->guests, acquire, J6)) sd_pause();
  return used;
}
