/* Tasks: what the owner of a strand has to run between two of its records.
 *
 * A task waits in a chain of its strand, beside the queue, and knows how many records come before it. So a bound that drops or conflates
 * records never drops a task, and records lie in their segments as if there were no tasks.
 *
 * `pending` counts tasks too: a task alone makes its strand ready, and whoever waits until pending is 0 waits for tasks too. The chain
 * grows under the publish lock, before the add (P2). Only the owner shortens it, under the lock, before the subtraction (W4). So an owner
 * that has read pending (W2) and then finds no chain (K2) knows that it counted only records, all of them published before any task. A
 * strand without tasks therefore costs its owner one load, of a line that it already has. A task that is given up stays in the chain and
 * does nothing, until it is reached or the next task of the same strand uses it again. */
#ifndef SD_STRAND_TASKS_H
#define SD_STRAND_TASKS_H

#include "strand/strand.h"

enum { SD_TASK_WAITS = 0, SD_TASK_RUNS = 1, SD_TASK_CANCELLED = 2 };

/* Under the publish lock of its strand; while it is free, under the table's lock. */
typedef struct sd_task {
  SD_PLAIN(uint64_t) tag; /* the caller's name for it */
  SD_PLAIN(uint64_t)
  at; /* records before it: how many had come in when it came; on lossy strands how many still wait */
  SD_PLAIN(uint32_t) next; /* the one behind it, as index + 1; 0: none */
  SD_PLAIN(uint32_t) state;
} sd_task;

/* Shared; in the arena. */
typedef struct sd_task_list {
  sd_a32 lock;
  SD_PLAIN(uint32_t) free; /* a chain of tasks, as index + 1 */
  sd_a32 unused;           /* tasks from here to n were never used */
  sd_a32 live;             /* tasks on strands */
  uint32_t n;
} sd_task_list;

/* One process's way to the tasks. */
typedef struct sd_task_pool {
  sd_task_list *list;
  sd_task *tasks;
} sd_task_pool;

/* A task as index + 1; 0: all are in use. */
static inline uint32_t sd_task_new(const sd_task_pool *pool) {
  sd_task_list *list = pool->list;
  sd_lock(&list->lock);
  uint32_t task = list->free;
  /* K3: relaxed; under the lock. */
  uint32_t unused = sd_load(&list->unused, relaxed, K3);
  if (task) {
    list->free = pool->tasks[task - 1].next;
  } else if (unused < list->n) {
    task = unused + 1;
    sd_store(&list->unused, task, relaxed, K3);
  }
  if (task) sd_store(&list->live, sd_load(&list->live, relaxed, K3) + 1, relaxed, K3);
  sd_unlock(&list->lock);
  return task;
}

static inline void sd_task_free(const sd_task_pool *pool, uint32_t task) {
  sd_task_list *list = pool->list;
  sd_lock(&list->lock);
  pool->tasks[task - 1].next = list->free;
  list->free = task;
  sd_store(&list->live, sd_load(&list->live, relaxed, K3) - 1, relaxed, K3);
  sd_unlock(&list->lock);
}

/* Tasks on strands, and whether there ever was one: a hint for callers that only ask. */
static inline uint32_t sd_tasks_live(const sd_task_pool *pool) { return sd_load(&pool->list->live, relaxed, K3); }
static inline int sd_tasks_used(const sd_task_pool *pool) { return sd_load(&pool->list->unused, relaxed, K3) != 0; }

/* Whether the strand has tasks. If the owner finds 0 after sd_strand_pending(), it knows that it counted only records. */
static inline uint32_t sd_strand_tasks(sd_strand *s) {
  /* K2: relaxed; what pending counts was linked before (P2, W2), and only the owner takes it out again. */
  return sd_load(&s->tasks, relaxed, K2);
}

/* How many records came in, and how many of them the owners have finished. */
static inline uint64_t sd_strand_in(sd_strand *s) {
  return sd_load(&s->accepted, relaxed, C2) - sd_load(&s->dropped[SD_DROPPED_NEWEST], relaxed, C2) -
         sd_load(&s->dropped[SD_DROPPED_QUARANTINED], relaxed, C2);
}
static inline uint64_t sd_strand_out(sd_strand *s) {
  return sd_load(&s->handled, relaxed, C2) + sd_load(&s->failed, relaxed, C2);
}

/* Records before the next task to be linked. Under the publish lock. */
static inline uint64_t sd_task_place(sd_strand *s) { return s->lossy ? (uint64_t)s->queued : sd_strand_in(s); }

/* Puts a task behind everything that the strand holds. Under the publish lock; sd_strand_add(s, 1) has to follow. */
static inline void sd_task_link(const sd_task_pool *pool, sd_strand *s, uint32_t task, uint64_t tag) {
  sd_task *t = &pool->tasks[task - 1];
  t->tag = tag;
  t->at = sd_task_place(s);
  t->next = 0;
  t->state = SD_TASK_WAITS;
  uint32_t first = sd_strand_tasks(s);
  if (!first) {
    /* K1: relaxed; published by the add that follows (P2). */
    sd_store(&s->tasks, task, relaxed, K1);
    return;
  }
  while (pool->tasks[first - 1].next) first = pool->tasks[first - 1].next;
  pool->tasks[first - 1].next = task;
}

/* Uses the strand's last task again if it was given up. So calls that time out on a paused strand do not pile up tasks. Under the publish
 * lock. Nonzero: done, and pending counts the task already. */
static inline int sd_task_revive(const sd_task_pool *pool, sd_strand *s, uint64_t tag) {
  uint32_t task = sd_strand_tasks(s);
  if (!task) return 0;
  while (pool->tasks[task - 1].next) task = pool->tasks[task - 1].next;
  sd_task *t = &pool->tasks[task - 1];
  if (t->state != SD_TASK_CANCELLED) return 0;
  t->tag = tag;
  t->at = sd_task_place(s);
  t->state = SD_TASK_WAITS;
  return 1;
}

/* Gives a task up. Under the publish lock. Zero: it runs, has run, or was never there. */
static inline int sd_task_cancel(const sd_task_pool *pool, sd_strand *s, uint64_t tag) {
  for (uint32_t task = sd_strand_tasks(s); task; task = pool->tasks[task - 1].next) {
    sd_task *t = &pool->tasks[task - 1];
    if (t->tag != tag || t->state != SD_TASK_WAITS) continue;
    t->state = SD_TASK_CANCELLED;
    return 1;
  }
  return 0;
}

static inline uint32_t sd_task_count(const sd_task_pool *pool, sd_strand *s) {
  uint32_t n = 0;
  for (uint32_t task = sd_strand_tasks(s); task; task = pool->tasks[task - 1].next) n++;
  return n;
}

/* How many records come before the strand's first task; the strand must have one. By the owner, with the publish lock. */
static inline uint64_t sd_task_ahead(const sd_task_pool *pool, sd_strand *s) {
  const sd_task *t = &pool->tasks[sd_strand_tasks(s) - 1];
  return s->lossy ? (uint64_t)t->at : t->at - sd_strand_out(s);
}

/* Takes the first task out, after it has run or was given up. By the owner, with the publish lock; sd_strand_release(s, 1) and
 * sd_task_free() have to follow. */
static inline uint32_t sd_task_unlink(const sd_task_pool *pool, sd_strand *s) {
  uint32_t task = sd_strand_tasks(s);
  sd_store(&s->tasks, pool->tasks[task - 1].next, relaxed, K1);
  return task;
}

/* The queue of a lossy strand lost its first n records. Under the publish lock. */
static inline void sd_task_pass(const sd_task_pool *pool, sd_strand *s, uint32_t n) {
  for (uint32_t task = sd_strand_tasks(s); SD_UNLIKELY(task); task = pool->tasks[task - 1].next) {
    sd_task *t = &pool->tasks[task - 1];
    t->at = t->at > n ? t->at - n : 0;
  }
}

/* Of the records of a lossy strand that waited or were linked behind those, n are kept: their places were kept[0] < kept[1] < ... Under
 * the publish lock. */
static inline void sd_task_keep(const sd_task_pool *pool, sd_strand *s, const uint32_t *kept, uint32_t n) {
  for (uint32_t task = sd_strand_tasks(s); SD_UNLIKELY(task); task = pool->tasks[task - 1].next) {
    sd_task *t = &pool->tasks[task - 1];
    uint32_t before = 0;
    while (before < n && kept[before] < t->at) before++;
    t->at = before;
  }
}

#endif
