/* The end of a run. */
#ifndef SD_ENGINE_FINISH_H
#define SD_ENGINE_FINISH_H

#include "state/state.h"

/* Calls sd_finish_fn of all symbols that have had records, in order of keys. At rest, after the workers' end. */
int sd_dispatcher_finish(sd_dispatcher *d);
/* Whether a symbol is to be finished. Nonzero: its strand has an owner, for whoever looks, until sd_dispatcher_finish_end. */
int sd_dispatcher_finish_begin(sd_dispatcher *d, uint32_t key);
/* Python has finished a symbol, or (code nonzero) failed on it. SD_E_HANDLER: then nothing more is to be finished. */
int sd_dispatcher_finished(sd_dispatcher *d, uint32_t key, int32_t code, const char *message);
void sd_dispatcher_finish_end(sd_dispatcher *d, uint32_t key);

#endif
