/* What a dispatcher shows to those who attach to its space: a text, symbols' names, and whether they may attach. */
#ifndef SD_ENGINE_DESCRIBE_H
#define SD_ENGINE_DESCRIBE_H

#include "state/state.h"

/* cffi: begin */
/* Sets the text. Before sd_dispatcher_show. SD_E_NO_MEMORY. */
int sd_dispatcher_describe(sd_dispatcher *d, const char *text, uint64_t bytes);
/* Sets the names of n symbols, given by key. Their texts lie one after another in `text`, with lengths in bytes. One thread at a time. */
int sd_dispatcher_name(sd_dispatcher *d, const uint32_t *keys, const uint32_t *lengths, uint32_t n, const char *text);
/* From now on other processes may attach. */
void sd_dispatcher_show(sd_dispatcher *d);
/* From now on no process can attach. Those that have attached can still read. */
void sd_dispatcher_hide(sd_dispatcher *d);
/* cffi: end */

#endif
