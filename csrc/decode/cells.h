/* What the files that read columns share (columns.c, decimal.c, names.c): a field of a column, where its number goes,
 * where its fault is noted. Once a row each, so it is all inlined.
 */
#ifndef SD_DECODE_CELLS_H
#define SD_DECODE_CELLS_H

#include "decode/columns.h"

#include <string.h>

#define LIKELY(x) __builtin_expect(!!(x), 1)
#define UNLIKELY(x) __builtin_expect(!!(x), 0)

_Static_assert(__BYTE_ORDER__ == __ORDER_LITTLE_ENDIAN__, "ticks are packed little-endian");

typedef struct field {
  const uint8_t *at;
  const uint8_t *end;
} field;

/* The field of the i-th row that is meant, without the spaces around it. */
static inline field cell(const sd_cells *cells, uint64_t i) {
  uint64_t row = cells->rows ? cells->rows[i] : i;
  field f = {cells->bytes + cells->offsets[row], cells->bytes + cells->offsets[row + 1]};
  while (UNLIKELY(f.at < f.end && *f.at == ' ')) f.at++;
  while (UNLIKELY(f.at < f.end && f.end[-1] == ' ')) f.end--;
  return f;
}

/* The first fault of a row stays. */
static inline void note(uint16_t *fault, uint32_t column, int why) {
  if (*fault == 0) *fault = (uint16_t)(column << 8 | (uint32_t)why);
}

/* Little-endian: a narrower field is the value's first bytes. */
static inline void put(const sd_target *target, uint64_t i, const void *value) {
  uint8_t *out = target->out + i * target->stride;
  switch (target->width) {
  case 8:
    memcpy(out, value, 8);
    break;
  case 4:
    memcpy(out, value, 4);
    break;
  case 2:
    memcpy(out, value, 2);
    break;
  default:
    memcpy(out, value, 1);
    break;
  }
}

#endif
