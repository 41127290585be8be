/* The question of a task that may give its participant back: whether it should. */
#pragma once

#include "state/state.h"

/* Whether the participant should let others go, which has taken `entry` and runs: the policy would take another entry first now. Charges
 * what the participant used so far. */
int sd_should_yield(sd_dispatcher *d, uint32_t participant, uint32_t entry);
/* The same, for tasks in C. */
int sd_should_yield_in_task(sd_task_context *ctx);
