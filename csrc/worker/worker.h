/* Finding a strand to drain. */
#ifndef SD_WORKER_WORKER_H
#define SD_WORKER_WORKER_H

#include "state/state.h"

/* Runs native handlers until there is a strand for Python (SD_PY_RECORDS, *batch is filled), a task has its turn
 * (SD_PY_TASK, *batch says where and which) or a timer of a Python handler (SD_PY_WAKE), or the end (SD_E_STOPPED). */
int sd_worker_next(sd_dispatcher *d, uint32_t participant, sd_py_batch *batch);
/* One visit to one ready strand, native handlers only. Zero: none was ready. */
int sd_help(sd_dispatcher *d, uint32_t participant);

#endif
