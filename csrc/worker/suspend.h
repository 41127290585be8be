/* Tasks that give their participant back before they are over, and go on later.
 *
 * A task of Python's has a thread, and that thread has a participant while it runs. To suspend the task, the thread calls sd_task_suspend
 * as the participant. From then on the participant is free for another thread, and this one sleeps. When a worker takes the task, it gets
 * SD_PY_RESUME: it hands its own participant to the thread that sleeps, which calls sd_task_resumed as that participant and goes on. In the
 * end it calls sd_worker_task_done with the batch of SD_PY_RESUME.
 *
 * A coroutine has no participant while it runs, and is away. When it has ended, its thread calls sd_task_end_away if the task is free. One
 * on a strand holds the strand's token: its thread calls sd_task_return, and whoever gets SD_PY_RESUME ends the task at once. */
#pragma once

#include "state/state.h"

/* cffi: begin */
/* The task in the batch gives the participant back, and the batch is empty. It is listed, or if `away` it is not until sd_task_return. Any thread may be the
 * participant from here on. SD_E_STOPPED: the task keeps the participant, because a stop is ending the tasks. */
int sd_task_suspend(sd_dispatcher *d, uint32_t participant, sd_py_batch *batch, int away);
/* By the thread of a task that is away: lists the task, for any worker to take. `entry`: the batch's `strand` when the task went away, and
 * `participant` the one that it gave back. SD_E_STOPPED: a stop has ended the task. */
int sd_task_return(sd_dispatcher *d, uint32_t participant, uint32_t entry);
/* By the thread of a free task that is away: the task is over. SD_E_STOPPED: a stop has ended it, or does so. */
int sd_task_end_away(sd_dispatcher *d, uint32_t entry);
/* By the thread of a task that is away: charges what it has used of the processor, where the policy charges. */
void sd_task_charge(sd_dispatcher *d, uint32_t entry, uint64_t on_cpu_ns);
/* By the thread of a suspended task, which has got a participant: that one's batch is of SD_PY_RESUME. */
void sd_task_resumed(sd_dispatcher *d, uint32_t participant);
/* cffi: end */
