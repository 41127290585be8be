/* Names to dense indices, in the order in which they first appear: the symbol column of a table of text.
 *
 * Open addressing over 32-bit indices; a slot is compared by the stored hash before the name. Called by one thread at a
 * time.
 */
#ifndef SD_CODEC_TEXT_NAMES_H
#define SD_CODEC_TEXT_NAMES_H

#include "codec/text/column.h"

enum { SD_NAME_BYTES = 255 };

typedef struct sd_names sd_names;

/* `maximum`: the most names, up to 2^30. NULL where there is no memory. */
sd_names *sd_names_new(uint32_t maximum);
void sd_names_free(sd_names *names);
uint32_t sd_names_count(const sd_names *names);
/* A name and its length in bytes; not ended by a zero. `index` is below the count. */
const uint8_t *sd_names_get(const sd_names *names, uint32_t index, uint32_t *length);

/* Each field's index to `target` (width 4), new names added. Returns how many had a fault: SD_FAULT_EMPTY, or
 * SD_FAULT_NAME where a name is too long, or SD_FAULT_NAMES where it does not fit the capacity (or memory). */
uint64_t sd_names_find(sd_names *names, const sd_cells *cells, uint32_t column, const sd_target *target,
                       uint16_t *faults);

#endif
