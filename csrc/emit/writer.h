/* Writers: handlers emit into them. merge/rounds.h explains what happens to the records then. */
#pragma once

#include "emit/buffer.h"
#include "state/state.h"

/* cffi: begin */
/* Before sd_dispatcher_handlers: sets up n outputs, with records of the given sizes. Publishers wait while more than soft_bytes are
 * collected. SD_E_ARGUMENT: soft_bytes is less than sd_outputs_minimum() of them. */
int sd_dispatcher_outputs(struct sd_dispatcher *d, const uint32_t *record_bytes, uint32_t n, uint64_t soft_bytes);
uint64_t sd_outputs_minimum(const struct sd_dispatcher *d, uint32_t n);
/* cffi: end */
void sd_outputs_destroy(struct sd_dispatcher *d);
/* After the handlers are set. */
int sd_outputs_connect(struct sd_dispatcher *d);

/* Nonzero: publishers have to wait for the merger. */
int sd_outputs_full(struct sd_dispatcher *d);

/* The writers of a handler that participant `participant` runs. */
sd_output_writer **sd_writers_of(struct sd_dispatcher *d, uint32_t participant, const struct sd_handler *handler);
/* After a handler returned: lets the merger have what it emitted. */
void sd_writers_commit(sd_context *ctx);
/* After a handler failed: marks as void what it emitted, since the last commit, for numbers from `number` on. */
void sd_writers_void(sd_context *ctx, uint64_t number);
