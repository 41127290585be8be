/* Making a dispatcher, draining it, and holding its strands back. */
#ifndef SD_ENGINE_DISPATCHER_H
#define SD_ENGINE_DISPATCHER_H

#include "state/state.h"

/* In a space of its caller's that has none yet. What destroys it does not touch the space. */
int sd_dispatcher_create(sd_space *space, const sd_config *config, sd_dispatcher **out);
void sd_dispatcher_destroy(sd_dispatcher *d);
/* Tells the strands how they are bounded. */
void sd_dispatcher_settle(sd_dispatcher *d);
/* Finds what lies in the arena: d->space and d->arena are set. */
void sd_dispatcher_view(sd_dispatcher *d);
/* Before workers start: strand of each symbol, handler of each strand, the handlers themselves. */
int sd_dispatcher_route(sd_dispatcher *d, const uint32_t *strand_of_symbol, const uint16_t *handler_of_strand);
int sd_dispatcher_handlers(sd_dispatcher *d, const sd_handler *handlers, uint32_t n);
void *sd_dispatcher_rows(sd_dispatcher *d, uint64_t *stride);
/* SD_OK when nothing is left but what is held back; else helps, or waits, for up to slice_ns and answers SD_AGAIN. */
int sd_dispatcher_drain(sd_dispatcher *d, uint32_t participant, uint64_t slice_ns);
int sd_dispatcher_hold(sd_dispatcher *d, uint32_t strand, uint32_t why);
int sd_dispatcher_resume(sd_dispatcher *d, uint32_t strand, uint32_t why);

#endif
