/* Tasks: an entry of the table, the states that it passes through, and the chain of a strand's tasks.
 *
 * A free task stands in the policy's lists by itself: it belongs to whoever takes it off its list. A task of a strand waits in a chain
 * beside the queue, and knows how many records come before it. So a bound that drops or conflates records never drops a task, and records
 * lie in their segments as if there were no tasks.
 *
 * An entry's word holds its state, its flags, and how often it was used. A handle names both entry and use, so a handle that is too old
 * matches nothing. Only a task that waits can be cancelled or changed, and only once at a time:
 *
 *   free -- sd_task_fill --> waits -- sd_task_start --> runs -- sd_task_end --> free, one use later
 *                            waits -- sd_task_cancel --> given up -- sd_task_start --> runs, to be told
 *                            waits -- sd_task_seize --> changes -- sd_task_let_go --> waits, or given up
 *                                                       changes -- sd_task_end --> free: it was given up, and taken off its list
 *
 * A task that has begun may give its participant back before it is over. A function in C asks for another turn. A task of Python's keeps
 * its thread, which sleeps: it is suspended, and listed at once, or is away in a block, and listed when that ends. A task of a strand stays
 * the first one of its chain meanwhile, so no record passes it.
 *
 *   runs -- sd_task_pause --> waits, suspended, or away
 *                             suspended -- sd_task_start --> runs
 *                             away -- sd_task_come_back --> suspended
 *
 * A stop ends what is in none of a participant's hands, and marks what runs (sd_task_stop), which is then not paused any more.
 *
 * `pending` counts a strand's tasks too: a task alone makes its strand ready, and whoever waits until pending is 0 waits for tasks too. The
 * chain grows under the publish lock, before the add (P2). Only the owner shortens it, under the lock, before the subtraction (W4). So an
 * owner that has read pending (W2) and then finds no chain (K2) knows that it counted only records, all of them published before any task.
 * A strand without tasks therefore costs its owner one load, of a line that it already has. */
#pragma once

#include "strand/strand.h"

enum {
  SD_TASK_FREE = 0,
  SD_TASK_WAITS = 1,
  SD_TASK_CHANGES = 2,
  SD_TASK_GIVEN_UP = 3,
  SD_TASK_RUNS = 4,
  SD_TASK_SUSPENDED = 5,  /* its thread sleeps, and the task is listed */
  SD_TASK_AWAY = 6,       /* in a block, or a coroutine, and not listed: it keeps the token of its strand */
  SD_TASK_STATES = 7,     /* the bits of the state */
  SD_TASK_IN_C = 8,       /* `call` is a function; else a tag */
  SD_TASK_COPIED = 16,    /* `argument` is what was copied, and not a pointer */
  SD_TASK_OVERDUE = 32,   /* a turn for overdue alarms; its tag is the time up to which they fire */
  SD_TASK_ON_STRAND = 64, /* it is in the chain of a strand */
  SD_TASK_LAST_TURN = 128 /* a stop came while it ran */
};
#define SD_TASK_USE (UINT64_C(1) << 32) /* one use, in a word and in a handle */

typedef struct sd_task {
  sd_a64 word;
  SD_PLAIN(uint64_t) call;     /* the function, or the tag */
  SD_PLAIN(uint64_t) deadline; /* a reading of the clock; UINT64_MAX: none */
  /* Of a strand's chain, under its publish lock. */
  SD_PLAIN(uint32_t)
  at; /* records before it, modulo 2^32: how many had come in; on lossy strands how many still wait */
  SD_PLAIN(uint32_t) next; /* the one behind it, as index + 1; behind the last one stands the first one */
  unsigned char argument[32];
} sd_task;

#if !defined(SD_MODEL_RELACY)
_Static_assert(sizeof(sd_task) == SD_LINE, "a task is a line");
#endif

/* ---- the word -------------------------------------------------------------------------------------------------- */

static inline uint32_t sd_task_state(uint64_t word) { return (uint32_t)word & SD_TASK_STATES; }
static inline uint64_t sd_task_handle(uint64_t word, uint32_t index) {
  return (word & ~(SD_TASK_USE - 1)) | (index + 1);
}
static inline int sd_task_is_named(uint64_t word, uint64_t handle) { return (word ^ handle) < SD_TASK_USE; }

/* J1: relaxed; whoever acts on it has the entry by other means, or compares and swaps. */
static inline uint64_t sd_task_word(sd_task *t) { return sd_load(&t->word, relaxed, J1); }

/* By whoever took the entry from the pool: its fields are filled in, and what the policy keeps of it. */
static inline uint64_t sd_task_fill(sd_task *t, uint32_t flags) {
  const uint64_t word = sd_task_word(t) | SD_TASK_WAITS | flags;
  /* J3: release; pairs with J2 and J3: whoever starts or changes the task sees what was filled in, however it came by the handle. */
  sd_store(&t->word, word, release, J3);
  return word;
}

static inline int sd_task_may_start(uint32_t state) {
  return state == SD_TASK_WAITS || state == SD_TASK_GIVEN_UP || state == SD_TASK_SUSPENDED;
}

/* By whoever took the task. Returns the state that it was in: it waited, was given up, or was suspended. Any other one: a stop has ended it,
 * and the caller has nothing more to do with it. */
static inline uint32_t sd_task_start(sd_task *t) {
  uint64_t word = sd_task_word(t);
  for (;;) {
    const uint32_t state = sd_task_state(word);
    if (SD_UNLIKELY(state == SD_TASK_CHANGES)) {
      sd_pause();
      word = sd_task_word(t);
      continue;
    }
    if (SD_UNLIKELY(!sd_task_may_start(state))) return state;
    /* J2: acquire; pairs with J3: what was changed while it waited is over, and the entry may be used again. */
    if (sd_cas(&t->word, &word, (word & ~(uint64_t)SD_TASK_STATES) | SD_TASK_RUNS, acquire, J2)) return state;
  }
}

/* By the participant that runs a task, before it lists the task or lets its strand go: the task waits for another turn, is suspended, or
 * is away. Zero: the dispatcher has stopped, and the caller keeps the task and ends it. */
static inline int sd_task_pause(sd_task *t, uint32_t to) {
  uint64_t word = sd_task_word(t);
  while (!(word & SD_TASK_LAST_TURN)) {
    /* J3: acq_rel. Release pairs with J2 and J3: whoever runs the task next sees what it did so far. Acquire as in sd_task_leave_waiting. */
    if (sd_cas(&t->word, &word, (word & ~(uint64_t)SD_TASK_STATES) | to, acq_rel, J3)) return 1;
  }
  return 0;
}

/* By the thread of a task that is away, before it lists the task. Zero: a stop has ended the task. */
static inline int sd_task_come_back(sd_task *t) {
  uint64_t word = sd_task_word(t);
  while (sd_task_state(word) == SD_TASK_AWAY) {
    /* J3: acq_rel; as in sd_task_pause. */
    if (sd_cas(&t->word, &word, (word & ~(uint64_t)SD_TASK_STATES) | SD_TASK_SUSPENDED, acq_rel, J3)) return 1;
  }
  return 0;
}

/* By a stop. Returns the state that the task was in: one that runs is marked, and its participant ends it. One that is free is left alone.
 * Any other one is the caller's, which ends it. */
static inline uint32_t sd_task_stop(sd_task *t) {
  uint64_t word = sd_task_word(t);
  for (;;) {
    const uint32_t state = sd_task_state(word);
    if (state == SD_TASK_FREE) return state;
    if (state == SD_TASK_CHANGES) {
      sd_pause();
      word = sd_task_word(t);
      continue;
    }
    const uint64_t to =
        state == SD_TASK_RUNS ? word | SD_TASK_LAST_TURN : (word & ~(uint64_t)SD_TASK_STATES) | SD_TASK_RUNS;
    /* J3: acq_rel. Acquire pairs with the release of whoever let go of the task last; one that runs goes on alone. */
    if (sd_cas(&t->word, &word, to, acq_rel, J3)) return state;
  }
}

/* The task is over, and its handle names nothing any more. The entry goes back to the pool. */
static inline void sd_task_end(sd_task *t) {
  sd_store(&t->word, (sd_task_word(t) + SD_TASK_USE) & ~(SD_TASK_USE - 1), relaxed, J1);
}

/* From `waits` to another state. Zero: it runs, is over, or was given up. Waits for a change that is under way, which takes list locks. */
static inline int sd_task_leave_waiting(sd_task *t, uint64_t handle, uint32_t to) {
  uint64_t word = sd_task_word(t);
  for (;;) {
    if (!sd_task_is_named(word, handle)) return 0;
    const uint32_t state = sd_task_state(word);
    if (state == SD_TASK_CHANGES) {
      sd_pause();
      word = sd_task_word(t);
      continue;
    }
    if (state != SD_TASK_WAITS) return 0;
    /* J3: acq_rel. Release pairs with J2: a function that is told sees what its canceller wrote. Acquire pairs with the releases of
     * sd_task_fill and sd_task_let_go. */
    if (sd_cas(&t->word, &word, (word & ~(uint64_t)SD_TASK_STATES) | to, acq_rel, J3)) return 1;
  }
}

/* Gives a task up. It keeps its place, and ends as cancelled when it is reached. From any thread. */
static inline int sd_task_cancel(sd_task *t, uint64_t handle) {
  return sd_task_leave_waiting(t, handle, SD_TASK_GIVEN_UP);
}

/* Keeps a waiting task from being started and cancelled, for as long as a change takes. sd_task_let_go has to follow. */
static inline int sd_task_seize(sd_task *t, uint64_t handle) {
  return sd_task_leave_waiting(t, handle, SD_TASK_CHANGES);
}

/* `to`: SD_TASK_WAITS, or SD_TASK_GIVEN_UP. */
static inline void sd_task_let_go(sd_task *t, uint32_t to) {
  /* J3: release; pairs with J2. */
  sd_store(&t->word, (sd_task_word(t) & ~(uint64_t)SD_TASK_STATES) | to, release, J3);
}

/* ---- the chain of a strand ------------------------------------------------------------------------------------- */

/* The last task of the chain, as index + 1. If the owner finds 0 after sd_strand_pending(), it knows that it counted only records. */
static inline uint32_t sd_strand_tasks(sd_strand *s) {
  /* K2: relaxed; what pending counts was linked before (P2, W2), and only the owner takes it out again. */
  return sd_load(&s->tasks, relaxed, K2);
}

/* The strand's first task; it must have one. Under the publish lock, or by the owner. */
static inline uint32_t sd_first_task(const sd_task *tasks, sd_strand *s) { return tasks[sd_strand_tasks(s) - 1].next; }

/* How many records came in, and how many of them the owners have finished. */
static inline uint64_t sd_strand_in(sd_strand *s) {
  return sd_load(&s->accepted, relaxed, C2) - sd_load(&s->dropped[SD_DROPPED_NEWEST], relaxed, C2) -
         sd_load(&s->dropped[SD_DROPPED_QUARANTINED], relaxed, C2);
}
static inline uint64_t sd_strand_out(sd_strand *s) {
  return sd_load(&s->handled, relaxed, C2) + sd_load(&s->failed, relaxed, C2);
}

/* Records that are not finished, of a strand that is not lossy. Under the publish lock; never too few. */
static inline uint64_t sd_records_there(sd_strand *s) { return sd_strand_in(s) - sd_strand_out(s); }

/* Records before the next task to be linked. Under the publish lock. */
static inline uint32_t sd_task_place(sd_strand *s) {
  return s->lossy ? (uint32_t)s->queued : (uint32_t)sd_strand_in(s);
}

/* Puts a task behind everything that the strand holds. Under the publish lock; sd_strand_add(s, 1) has to follow. */
static inline void sd_task_link(sd_task *tasks, sd_strand *s, uint32_t task) {
  const uint32_t last = sd_strand_tasks(s);
  sd_task *t = &tasks[task - 1];
  t->at = sd_task_place(s);
  t->next = last ? (uint32_t)tasks[last - 1].next : task;
  if (last) tasks[last - 1].next = task;
  /* K1: relaxed; published by the add that follows (P2). */
  sd_store(&s->tasks, task, relaxed, K1);
}

/* Uses the strand's last task again if it is Python's and was given up. So calls that time out on a paused strand do not pile up tasks.
 * Under the publish lock. Returns its handle, and pending counts the task already; 0: there is no such task. */
static inline uint64_t sd_task_revive(sd_task *tasks, sd_strand *s, uint64_t tag) {
  const uint32_t last = sd_strand_tasks(s);
  if (!last) return 0;
  sd_task *t = &tasks[last - 1];
  const uint64_t word = sd_task_word(t);
  if (sd_task_state(word) != SD_TASK_GIVEN_UP || (word & SD_TASK_IN_C)) return 0;
  t->call = tag;
  t->at = sd_task_place(s);
  const uint64_t again = (word & ~(uint64_t)SD_TASK_STATES) + SD_TASK_USE + SD_TASK_WAITS;
  sd_store(&t->word, again, relaxed, J1);
  return sd_task_handle(again, last - 1);
}

static inline uint32_t sd_task_count(const sd_task *tasks, sd_strand *s) {
  const uint32_t last = sd_strand_tasks(s);
  uint32_t n = 0;
  if (!last) return 0;
  for (uint32_t task = tasks[last - 1].next;; task = tasks[task - 1].next) {
    n++;
    if (task == last) return n;
  }
}

/* How many records come before the strand's first task; the strand must have one. By the owner, with the publish lock. */
static inline uint64_t sd_task_ahead(const sd_task *tasks, sd_strand *s) {
  const uint32_t at = tasks[sd_first_task(tasks, s) - 1].at;
  return s->lossy ? at : at - (uint32_t)sd_strand_out(s);
}

/* Takes the first task out, after it has run. By the owner, with the publish lock; sd_strand_release(s, 1) has to follow. Returns it, as
 * index + 1. */
static inline uint32_t sd_task_unlink(sd_task *tasks, sd_strand *s) {
  const uint32_t last = sd_strand_tasks(s), first = tasks[last - 1].next;
  if (first == last) sd_store(&s->tasks, 0u, relaxed, K1);
  else tasks[last - 1].next = tasks[first - 1].next;
  return first;
}

/* The queue of a lossy strand lost its first n records. Under the publish lock. */
static inline void sd_task_pass(sd_task *tasks, sd_strand *s, uint32_t n) {
  const uint32_t last = sd_strand_tasks(s);
  for (uint32_t task = last; SD_UNLIKELY(task); task = tasks[task - 1].next == last ? 0 : tasks[task - 1].next) {
    sd_task *t = &tasks[task - 1];
    t->at = t->at > n ? t->at - n : 0;
  }
}

/* Of the records of a lossy strand that waited or were linked behind those, n are kept: their places were kept[0] < kept[1] < ... Under
 * the publish lock. */
static inline void sd_task_keep(sd_task *tasks, sd_strand *s, const uint32_t *kept, uint32_t n) {
  const uint32_t last = sd_strand_tasks(s);
  for (uint32_t task = last; SD_UNLIKELY(task); task = tasks[task - 1].next == last ? 0 : tasks[task - 1].next) {
    sd_task *t = &tasks[task - 1];
    uint32_t before = 0;
    while (before < n && kept[before] < t->at) before++;
    t->at = before;
  }
}
