/* Creating a dispatcher, draining it, and pausing its strands. */
#pragma once

#include "state/state.h"

/* cffi: begin */
/* Creates a dispatcher in the caller's space, which must not have one yet. sd_dispatcher_destroy does not touch the space. */
int sd_dispatcher_create(sd_space *space, const sd_config *config, sd_dispatcher **out);
void sd_dispatcher_destroy(sd_dispatcher *d);
/* cffi: end */
/* Sets the bound of each strand, and what happens there. */
void sd_dispatcher_settle(sd_dispatcher *d);
/* Finds the parts of the arena. d->space and d->arena must be set. */
void sd_dispatcher_view(sd_dispatcher *d);
/* cffi: begin */
/* Before workers start: set the strand of each symbol, the handler of each strand, and the handlers. */
int sd_dispatcher_route(sd_dispatcher *d, const uint32_t *strand_of_symbol, const uint16_t *handler_of_strand);
int sd_dispatcher_handlers(sd_dispatcher *d, const sd_handler *handlers, uint32_t n);
void *sd_dispatcher_rows(sd_dispatcher *d, uint64_t *stride);
/* Returns SD_OK when nothing is left except on paused and quarantined strands. Until then it helps or waits, for up to slice_ns, and then
 * returns SD_AGAIN. SD_E_STOPPED: the dispatcher is stopping. */
int sd_dispatcher_drain(sd_dispatcher *d, uint32_t participant, uint64_t slice_ns);
int sd_dispatcher_hold(sd_dispatcher *d, uint32_t strand, uint32_t why);
/* Only the first n workers take strands from here on; the others end their visits, and sleep. SD_E_ARGUMENT: n is not from 1 to all. */
int sd_dispatcher_activate(sd_dispatcher *d, uint32_t n);
/* Gives a strand another priority of the policy; `for_backlog`: until nothing of it is pending. SD_E_ARGUMENT: there is no such strand or
 * priority, or the policy has no priorities. */
int sd_dispatcher_prioritise(sd_dispatcher *d, uint32_t strand, uint32_t priority, int for_backlog);
/* Gives the levels of the policy other timeouts, of which there are SD_LEVEL_COUNT. SD_E_ARGUMENT: the policy has none. */
int sd_dispatcher_retime(sd_dispatcher *d, const uint64_t *timeout_ns);
/* Gives a group of the policy a weight, in thousandths. SD_E_ARGUMENT: there is no such group, or there are none. */
int sd_dispatcher_weigh(sd_dispatcher *d, uint32_t group, uint32_t weight);
int sd_dispatcher_resume(sd_dispatcher *d, uint32_t strand, uint32_t why);
/* Marks a strand (SD_MARK_IO and so on), before anything is published to it. SD_E_ARGUMENT: there is no such strand or mark, or the policy
 * holds no strands back. */
int sd_dispatcher_mark(sd_dispatcher *d, uint32_t strand, uint32_t marks);
/* Holds strands back while a set of resources is short, and lets the others go. *waiting gets those of the other resources for which
 * strands still wait that were let go last. One thread at a time; while a resource is short, again and again, as strands rise that no push
 * wakes a worker for. SD_E_ARGUMENT: there is no such resource, or the policy holds no strands back. */
int sd_dispatcher_hold_back(sd_dispatcher *d, uint32_t resources, uint32_t *waiting);
/* cffi: end */
