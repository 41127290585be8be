/* What a dispatcher shows to those who attach to its space: a text, symbols' names, and whether they may attach. */
#pragma once

#include "state/state.h"

/* cffi: begin */
/* Sets the text. Before sd_dispatcher_show. SD_E_NO_MEMORY. */
int sd_dispatcher_describe(sd_dispatcher *d, const char *text, uint64_t bytes);
/* Sets the names of n symbols, given by key. Their texts lie one after another in `text`, with lengths in bytes. One thread at a time. */
int sd_dispatcher_name(sd_dispatcher *d, const uint32_t *keys, const uint32_t *lengths, uint32_t n, const char *text);
/* Makes one of SD_SAMPLE_RINGS rings of samples (memory/samples.h), of so many slots of `words` u64 each. Before sd_dispatcher_show.
 * SD_E_NO_MEMORY. */
int sd_dispatcher_keep_samples(sd_dispatcher *d, uint32_t ring, uint32_t slots, uint32_t words);
/* Puts a sample of so many words into a ring. One thread at a time. SD_E_ARGUMENT: the ring has other ones, or is not there. */
int sd_dispatcher_put_sample(sd_dispatcher *d, uint32_t ring, const uint64_t *from, uint32_t words);
/* From now on other processes may attach. */
void sd_dispatcher_show(sd_dispatcher *d);
/* From now on no process can attach. Those that have attached can still read. */
void sd_dispatcher_hide(sd_dispatcher *d);
/* cffi: end */
