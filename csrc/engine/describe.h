/* What a dispatcher says of itself to whoever looks at its space: a text, symbols' names, and that it is there. */
#ifndef SD_ENGINE_DESCRIBE_H
#define SD_ENGINE_DESCRIBE_H

#include "state/state.h"

/* Before sd_dispatcher_show. SD_E_NO_MEMORY. */
int sd_dispatcher_describe(sd_dispatcher *d, const char *text, uint64_t bytes);
/* Names of n symbols, by key, whose texts lie one after the other; lengths in bytes. One thread at a time. */
int sd_dispatcher_name(sd_dispatcher *d, const uint32_t *keys, const uint32_t *lengths, uint32_t n, const char *text);
/* From now on others may look. */
void sd_dispatcher_show(sd_dispatcher *d);
/* Another process can no longer attach. One that has attached reads on. */
void sd_dispatcher_hide(sd_dispatcher *d);

#endif
