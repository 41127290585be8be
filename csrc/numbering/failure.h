/* Failures of handlers, and the stop that they may ask for. */
#pragma once

#include "state/state.h"

/* cffi: begin */
void sd_dispatcher_stop(sd_dispatcher *d);
int sd_dispatcher_stopping(sd_dispatcher *d);

/* Before the start: a failure under SD_ON_ERROR_STOP holds its strand, as in a quarantine, and its caller stops the run.
 * Every first failure of a strand is kept. SD_E_NO_MEMORY: there is no memory for them. */
int sd_failures_go_on(sd_dispatcher *d);
/* cffi: end */

/* Records a failure on a record (NULL: on none) and acts on it as configured. By the strand's owner, before it books the
 * visit. `unbooked`: records of the strand that the visit handled before, and did not book. */
void sd_fail(sd_dispatcher *d, uint32_t participant, uint32_t strand, const unsigned char *record, int64_t unbooked,
             int32_t code, const char *message);

/* The same of a symbol's timer or end. */
void sd_fail_symbol(sd_dispatcher *d, uint32_t participant, uint32_t strand, uint32_t key, uint64_t time, int at_end,
                    int32_t code, const char *message);
/* cffi: begin */
int sd_failure_get(sd_dispatcher *d, uint32_t index, sd_failure *out);
/* The same of the only one, which is forgotten then: for a caller that runs all handlers itself. */
int sd_failure_take(sd_dispatcher *d, sd_failure *out);
/* cffi: end */
