/* The end of a run: symbols are finished. */
#pragma once

#include "state/state.h"

/* cffi: begin */
/* Calls sd_finish_fn for all symbols that have had records, in the order of their keys. While quiescent, after the workers have ended.
 * SD_E_HANDLER: a handler failed, and the rest was not finished. */
int sd_dispatcher_finish(sd_dispatcher *d);
/* Nonzero: the symbol is to be finished. Its strand then has an owner until sd_dispatcher_finish_end, so that a look from outside knows
 * that rows may change. */
int sd_dispatcher_finish_begin(sd_dispatcher *d, uint32_t key);
/* Python has finished a symbol, or failed on it if `code` is not 0. SD_E_HANDLER: no further symbol is to be finished. */
int sd_dispatcher_finished(sd_dispatcher *d, uint32_t key, int32_t code, const char *message);
void sd_dispatcher_finish_end(sd_dispatcher *d, uint32_t key);
/* cffi: end */
