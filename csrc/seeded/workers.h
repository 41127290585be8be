/* A dispatcher whose workers are fibers of the seeded scheduler, for a caller in Python.
 *
 * The caller is a fiber too. Workers run while the caller is inside a call of the engine, at its points. A worker that has something for
 * Python waits until the caller asks for it. So Python runs on the caller's own stack, and only between calls. One dispatcher at a time,
 * and all calls from one thread. */
#pragma once

#include "engine/api.h"

/* cffi: begin */
enum { SD_SEEDED_WORKERS = 16 };

/* Used instead of starting threads. At most SD_SEEDED_WORKERS workers; sd_seeded_stop ends it. Same seed and calls, same run. */
void sd_seeded_start(sd_dispatcher *d, uint64_t seed);
/* Lets the workers run for a while. Returns how many have not ended. */
uint32_t sd_seeded_pause(void);
/* Draws one of the workers that wait for Python; -1: none waits. */
int64_t sd_seeded_waiting(void);
/* Python has run the batch of that worker. `ended`: the worker ends, and what Python has not finished stays pending. */
void sd_seeded_go_on(uint32_t participant, int ended);
/* The time, in ns; for a handler in Python, as if its worker had been busy for as long as it took. */
uint64_t sd_seeded_now(void);
/* From a handler in Python: its worker is busy for so much longer before the batch is done, and the others go on. 0: no handler runs. */
int sd_seeded_take(uint64_t ns);
/* From no handler: workers go on until that time, or until one has something for Python. */
void sd_seeded_pass(uint64_t until);
/* To be called when all workers have ended, which sd_seeded_pause tells. */
void sd_seeded_stop(void);
/* cffi: end */

/* As sd_py_worker_next and sd_py_worker_go_on, for one piece of work: gives what the waiting worker has, and then SD_E_STOPPED. The
 * worker's own fiber ends the batch, when it is no longer busy. */
int64_t sd_seeded_next(sd_py_worker *hand);
int64_t sd_seeded_done(sd_py_worker *hand);
/* As sd_dispatcher_destroy and sd_space_destroy. The collector of garbage may call them in the middle of another dispatcher's run: they
 * take no step of it. */
void sd_seeded_destroy(sd_dispatcher *d);
void sd_seeded_space_destroy(sd_space *space);
