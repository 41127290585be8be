/* Workers that find nothing to do. */
#pragma once

#include "state/state.h"

/* Whether there is something that a worker may take, as a sleeper has to see it before it sleeps (schedule/idle.h). */
int sd_anything_ready(sd_dispatcher *d);
/* One turn of waiting, the `turn`-th in a row. Nonzero: a wake-up may have counted on this worker. */
int sd_be_idle(sd_dispatcher *d, uint32_t participant, uint32_t turn);
/* Sleeps while the worker is not active. What stands on its list is left to the others, and so is a wake-up that counted on it: one of them
 * is woken for what is ready. */
void sd_rest(sd_dispatcher *d, uint32_t participant);
