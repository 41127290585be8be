/* Turns names into dense indices, in the order in which they first appear: for the symbol column of a table of text.
 *
 * Open addressing over 32-bit indices; a search compares the stored hash before the name. Called by one thread at a time. */
#pragma once

#include "codec/text/column.h"

/* cffi: begin */
enum { SD_NAME_BYTES = 255 };

typedef struct sd_names sd_names;

/* `maximum`: the most names, up to 2^30. NULL: no memory. */
sd_names *sd_names_new(uint32_t maximum);
void sd_names_free(sd_names *names);
uint32_t sd_names_count(const sd_names *names);
/* A name and its length in bytes, without a zero at its end, until the next one is added. `index` is below the count. */
const uint8_t *sd_names_get(const sd_names *names, uint32_t index, uint32_t *length);

/* Writes each field's index to `target` (width 4). `adds`: new names are added. Returns how many fields had a fault:
 * SD_FAULT_EMPTY; SD_FAULT_NAME: the name is too long; SD_FAULT_NAMES: it is new and not added, for there are `maximum` names, or no
 * memory, or `adds` is 0. */
uint64_t sd_names_find(sd_names *names, const sd_cells *cells, int adds, uint32_t column, const sd_target *target,
                       uint16_t *faults);
/* cffi: end */
