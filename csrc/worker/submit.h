/* Submitting tasks, and changing those that wait. From any thread, and none of it waits for anything but short locks. */
#pragma once

#include "state/state.h"

/* cffi: begin */
/* Submits up to n tasks and fills in their handles. Returns how many it submitted, the first ones of `specs`: fewer than n if the table of
 * tasks is full. Free tasks go onto one list together, those of a symbol behind all that is published there. SD_E_ARGUMENT: a spec names no
 * symbol or priority that there is, or copies too much; none is submitted then. SD_E_STOPPED: the dispatcher stops. */
int64_t sd_tasks_submit(sd_dispatcher *d, sd_task_spec *specs, uint32_t n);
/* cffi: end */
/* The same from a handler and from a task. SD_E_WOULD_DEADLOCK: a task of a symbol, from a handler that may run under the locks of strands. */
int64_t sd_submit_from_handler(sd_context *ctx, sd_task_spec *specs, uint32_t n);
int64_t sd_submit_from_task(sd_task_context *ctx, sd_task_spec *specs, uint32_t n);

/* cffi: begin */
/* Puts a task of Python's on a strand, by the strand's index. A worker gets it from sd_worker_next when all that was published there is
 * finished, and before anything published later. SD_AGAIN: the table of tasks is full. SD_E_STOPPED: the dispatcher has stopped. */
int sd_task_enqueue(sd_dispatcher *d, uint32_t strand, uint64_t tag, uint64_t *handle);
/* cffi: end */
/* The same for a turn of overdue alarms up to `time`. */
int sd_enqueue_overdue(sd_dispatcher *d, uint32_t strand, uint64_t time);

/* cffi: begin */
/* Gives up a task that waits. A free one of Python's leaves its list, and is over, if the policy can do that. Another one keeps its place,
 * and when it is reached a function in C is told. SD_AGAIN: it runs, is over, or was given up before. */
int sd_task_give_up(sd_dispatcher *d, uint64_t handle);
/* Gives a free task that waits another priority of the policy. SD_AGAIN: as above. SD_E_ARGUMENT: there is no such priority, or the task is
 * on a strand. */
int sd_task_prioritise(sd_dispatcher *d, uint64_t handle, uint32_t priority);
/* One more than the level to which a free task that waits has risen. 0: it has not risen, or does not wait. */
uint32_t sd_task_rose(sd_dispatcher *d, uint64_t handle);
/* See `risen` of sd_policy. */
void sd_tasks_risen(sd_dispatcher *d, int64_t *more);
/* cffi: end */
