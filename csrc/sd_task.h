/* Tasks in C: functions that the dispatcher's workers run once each. A free task stands among the ready strands of the policy; a task of a
 * symbol runs on its strand, behind all ticks that were published there before. This header stands alone; sd_handler.h includes it. */
#pragma once

#include <stdint.h>

/* cffi: begin */
/* The layout of ticks, contexts and tasks that an object is built for. Each shared object of handlers or tasks exports it, so that loading
 * an object that was built for another layout is refused. */
#define SD_HANDLER_LAYOUT 4
/* cffi: end */
#if !defined(SD_HANDLER_IN_CORE)
#if defined(__cplusplus)
extern "C"
#endif
    __attribute__((weak, used, visibility("default"))) const uint32_t sd_handler_layout = SD_HANDLER_LAYOUT;
#endif

struct sd_task_context;

/* cffi: begin */
/* Why a task's function is called. Each task has exactly one last call: with SD_TASK_RUN, without asking for another turn, or with one of
 * the others. */
enum {
  SD_TASK_RUN = 0,   /* it is its turn: do the work */
  SD_TASK_CANCELLED, /* somebody cancelled it while it waited, for its first turn or another one */
  SD_TASK_EXPIRED,   /* its first turn came too late */
  SD_TASK_STOPPED    /* the dispatcher stopped before its turn */
};

/* `argument`: the task's own copy, which is valid during the call, or the pointer that was submitted. */
typedef void (*sd_task_fn)(struct sd_task_context *ctx, void *argument, int why);

enum { SD_TASK_BYTES = 32 };         /* the most bytes that a task copies */
#define SD_NO_KEY UINT32_MAX         /* no symbol: a free task */
#define SD_USUAL_PRIORITY UINT32_MAX /* the priority of a strand that was given none */

/* A task to submit. */
typedef struct sd_task_spec {
  sd_task_fn fn;           /* NULL: a task of Python's, which a worker hands out by its tag */
  uint64_t tag;            /* of a task of Python's: its name, not 0 */
  const void *argument;    /* for fn */
  uint32_t argument_bytes; /* so many bytes are copied, at most SD_TASK_BYTES; 0: fn gets the pointer itself */
  uint32_t key;            /* the symbol on whose strand it runs; SD_NO_KEY: a free task */
  uint32_t priority;       /* of a free task: a priority, level or group of the policy, or SD_USUAL_PRIORITY */
  uint32_t marks;          /* of a free task: SD_MARK_IO and so on, for a policy that holds strands back */
  uint64_t within_ns;      /* of a task in C: it has to begin within so many ns; 0: at any time */
  uint64_t handle;         /* filled in: names the task to sd_task_cancel and sd_task_prioritise; never 0 */
} sd_task_spec;

/* What a task's function is called with. */
typedef struct sd_task_context {
  void *engine; /* the dispatcher's own */
  void *rows;   /* for a task of a symbol: its row is at rows + key * row_stride; other rows are other threads' */
  uint64_t row_stride;  /* bytes from one symbol's row to the next */
  uint32_t participant; /* the worker, or publisher, that calls */
  uint32_t entry;       /* the dispatcher's own */
  /* Set by a function that was called with SD_TASK_RUN: it is called once more, when the policy comes to it again. Whatever it needs then
   * it keeps in its argument. A task of a symbol keeps its place: later ticks wait for its last turn. */
  int32_t again;
  /* Submits n tasks, as sd_tasks_submit. Never waits. A worker's free tasks go onto its own list. */
  int64_t (*submit)(struct sd_task_context *ctx, sd_task_spec *specs, uint32_t n);
  /* Nonzero: others wait that the policy would take first now, so the function should set `again` and return. Cheap enough to ask every few
   * microseconds. What the task used so far is charged to its group. */
  int (*should_yield)(struct sd_task_context *ctx);
} sd_task_context;
/* cffi: end */
