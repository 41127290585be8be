/* Finding a strand to drain. */
#pragma once

#include "state/state.h"

/* Runs native handlers until Python has to act: SD_PY_RECORDS (*batch is filled), SD_PY_TASK (*batch says where, and which task),
 * SD_PY_RESUME (likewise, of a task that is suspended: see suspend.h), SD_PY_WAKE (a timer of a Python handler), or SD_E_STOPPED (the
 * end). */
int sd_worker_next(sd_dispatcher *d, uint32_t participant, sd_py_batch *batch);
/* cffi: begin */
/* Ends the task in *batch, if there is one, and takes what comes next if that is a free task of Python's: SD_PY_TASK. 0: nothing is ready.
 * SD_PY_OTHER: something else comes next, and the next sd_worker_next begins with it. Never waits but for short locks, whose holders never
 * wait for the GIL. */
int sd_worker_task_next(sd_dispatcher *d, uint32_t participant, sd_py_batch *batch);
/* cffi: end */
/* Makes the caller the owner of a strand that it took off a list. Zero: the strand is paused or quarantined, or the protocol is broken. */
int sd_own(sd_dispatcher *d, uint32_t participant, uint32_t index);
/* Makes one visit to one ready strand, with native handlers only. Zero: no strand was ready. */
int sd_help(sd_dispatcher *d, uint32_t participant);
/* Whether the policy holds back all strands for a while. A publisher that waits must not spin then. */
int sd_held_back(sd_dispatcher *d);
