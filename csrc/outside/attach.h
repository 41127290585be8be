/* Looking at a dispatcher of another process, through the file that its space lies over.
 *
 * The mapping is read-only. Nothing here takes a lock, and nothing that is read is trusted: what is torn, or damaged, leads to an
 * answer that is not believed, never beyond the mapping.
 */
#ifndef SD_OUTSIDE_ATTACH_H
#define SD_OUTSIDE_ATTACH_H

#include "engine/inspect.h"

enum { SD_WHY_BYTES = 160 };

typedef struct sd_outside {
  sd_space space;
  sd_dispatcher d; /* what of it lies in the arena; the rest is zero */
} sd_outside;

/* How long a look waits for a strand's owner. */
typedef struct sd_patience {
  uint64_t until; /* of CLOCK_MONOTONIC */
  uint32_t turns;
} sd_patience;

sd_patience sd_patience_of(uint64_t ns);
/* Waits a little; nonzero: it is at its end. */
int sd_patience_ends(sd_patience *p);

/* Maps the space of an open file. SD_E_FORMAT: it is none of a dispatcher that may be looked at; `why` says so. SD_AGAIN: its dispatcher
 * is not made yet, or has stopped. */
int sd_outside_open(int fd, sd_outside **out, char *why);
void sd_outside_close(sd_outside *o);

/* Its configuration, the ns of a count of its clock, and the text that it describes itself by. */
const sd_config *sd_outside_config(const sd_outside *o);
double sd_outside_ns_per_count(const sd_outside *o);
const char *sd_outside_description(const sd_outside *o, uint64_t *bytes);
/* A symbol's name; NULL: it has none yet. */
const char *sd_outside_name(sd_outside *o, uint32_t key, uint32_t *bytes);
/* The strand of each symbol. */
const uint32_t *sd_outside_map(const sd_outside *o);
uint32_t sd_outside_row_bytes(const sd_outside *o);
/* The watermark, as its last round left it. */
uint64_t sd_outside_watermark(const sd_outside *o);
/* How many records a strand has accepted. */
uint64_t sd_outside_accepted(const sd_outside *o, uint32_t strand);
/* The number of a strand's handler. */
uint32_t sd_outside_handler(const sd_outside *o, uint32_t strand);
/* For the functions of engine/inspect.h that only read, and sd_failure_get. */
sd_dispatcher *sd_outside_dispatcher(sd_outside *o);

/* A strand's counts, and the rows of n of its symbols, one after the other, as they are together. SD_AGAIN: its owner did not let go of it
 * for patience_ns; then they may be of different moments. */
int sd_outside_rows(sd_outside *o, uint32_t strand, const uint32_t *keys, uint32_t n, unsigned char *rows,
                    sd_inspection *counts, uint64_t patience_ns);

#endif
