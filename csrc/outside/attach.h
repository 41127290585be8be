/* Looking at a dispatcher of another process, through the file that is mapped as its space.
 *
 * The mapping is read-only. Nothing here takes a lock or trusts what it reads. Torn or damaged data may lead to a wrong answer,
 * never to an access beyond the mapping; sd_strand_unchanged() detects torn data. */
#pragma once

#include "engine/inspect.h"
#include "memory/samples.h"

/* cffi: begin */
enum { SD_WHY_BYTES = 160 };
typedef struct sd_outside sd_outside;
/* cffi: end */

/* A ring of samples, as it was checked. NULL: there is none. */
typedef struct sd_sample_ring {
  sd_samples *samples;
  uint32_t slots, words;
} sd_sample_ring;

struct sd_outside {
  sd_space space;
  sd_sample_ring rings[SD_SAMPLE_RINGS];
  sd_dispatcher d; /* only its parts in the arena are set; the rest is zero */
};

/* How long a look waits for a strand's owner. */
typedef struct sd_patience {
  uint64_t until; /* ns of CLOCK_MONOTONIC */
  uint32_t turns;
} sd_patience;

sd_patience sd_patience_of(uint64_t ns);
/* Waits a little. Nonzero: the time is over. */
int sd_patience_ends(sd_patience *p);

/* cffi: begin */
/* Maps the space of an open file. SD_E_FORMAT: it does not belong to a dispatcher that this build can read; `why` gives the reason.
 * SD_AGAIN: its dispatcher is still being created, or has stopped. */
int sd_outside_open(int fd, sd_outside **out, char *why);
void sd_outside_close(sd_outside *o);
/* Zero: the dispatcher has stopped since. A process that was killed has stopped nothing. */
int sd_outside_is_shown(const sd_outside *o);

/* Its configuration, the ns per count of its clock, and its description. */
const sd_config *sd_outside_config(const sd_outside *o);
double sd_outside_ns_per_count(const sd_outside *o);
const char *sd_outside_description(const sd_outside *o, uint64_t *bytes);
/* Returns a symbol's name; NULL: it has none yet. */
const char *sd_outside_name(sd_outside *o, uint32_t key, uint32_t *bytes);
/* The strand of each symbol. */
const uint32_t *sd_outside_map(const sd_outside *o);
uint32_t sd_outside_row_bytes(const sd_outside *o);
/* How many records each of n strands from `first` on has accepted. The caller checks that there are so many strands. */
void sd_outside_accepted(const sd_outside *o, uint32_t first, uint32_t n, uint64_t *counts);
/* The index of a strand's handler. */
uint32_t sd_outside_handler(const sd_outside *o, uint32_t strand);
/* For sd_failure_get, and for those functions of engine/inspect.h that only read. */
sd_dispatcher *sd_outside_dispatcher(sd_outside *o);

/* The words of a sample of a ring; 0: there is no such ring. */
uint32_t sd_outside_sample_words(const sd_outside *o, uint32_t ring);
/* Copies the sample that was put `back` samples before the last one, with *number, which counts samples from 0. SD_AGAIN: there was none
 * such, or it is gone. */
int sd_outside_sample(sd_outside *o, uint32_t ring, uint64_t back, uint64_t *to, uint64_t *number);
/* Reads a strand's counts and the rows of n of its symbols, one row after another, as of one moment. SD_AGAIN: the owner did not let the
 * strand go within patience_ns, so they may be of different moments. */
int sd_outside_rows(sd_outside *o, uint32_t strand, const uint32_t *keys, uint32_t n, unsigned char *rows,
                    sd_inspection *counts, uint64_t patience_ns);
/* cffi: end */
