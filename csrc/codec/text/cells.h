/* What the files that read columns share (columns.c, decimal.c, names.c): a field of a column, where its number goes, where its fault is
 * noted. It runs once per row, so everything is inlined. */
#pragma once

#include "codec/text/column.h"

#include <string.h>

#define LIKELY(x) __builtin_expect(!!(x), 1)
#define UNLIKELY(x) __builtin_expect(!!(x), 0)

_Static_assert(__BYTE_ORDER__ == __ORDER_LITTLE_ENDIAN__, "ticks are packed little-endian");

typedef struct field {
  const uint8_t *at;
  const uint8_t *end;
} field;

/* A column as its reader holds it. It is a copy: the compiler would otherwise have to assume that the bytes being written belong to it,
 * and would read it again for each row. */
typedef struct text_column {
  sd_cells cells;
  const uint8_t *end; /* no byte from here on may be read; every byte between a field and this may */
  int spaced;         /* fields may have spaces around them */
} text_column;

static inline text_column text_column_of(const sd_cells *cells) {
  text_column c = {*cells, cells->bytes, !cells->unspaced};
  if (cells->count == 0) return c;
  uint64_t last = cells->rows ? cells->rows[cells->count - 1] : cells->count - 1;
  c.end = cells->bytes + cells->ends[last * cells->stride];
  if (!cells->rows && !cells->unspaced) {
    const uint8_t *first = cells->bytes + cells->begins[0] + cells->skip;
    c.spaced = memchr(first, ' ', (size_t)(c.end - first)) != NULL;
  }
  return c;
}

/* The field of the i-th wanted row, without the spaces around it. */
static inline field cell(const text_column *c, uint64_t i) {
  uint64_t row = c->cells.rows ? c->cells.rows[i] : i;
  const sd_cells *of = &c->cells;
  field f = {of->bytes + of->begins[row * of->stride] + of->skip, of->bytes + of->ends[row * of->stride]};
  if (UNLIKELY(c->spaced)) {
    while (f.at < f.end && *f.at == ' ') f.at++;
    while (f.at < f.end && f.end[-1] == ' ') f.end--;
  }
  return f;
}

/* Up to eight bytes as a number, the first one lowest. */
static inline uint64_t word_of(field f, const uint8_t *end) {
  uint64_t word = 0;
  uint64_t length = (uint64_t)(f.end - f.at);
  if (LIKELY(length - 1 < 8 && end - f.at >= 8)) {
    memcpy(&word, f.at, 8);
    return word & ~UINT64_C(0) >> (64 - 8 * length);
  }
  memcpy(&word, f.at, length < 8 ? length : 8);
  return word;
}

/* Keeps the first fault of a row. */
static inline void note(uint16_t *fault, uint32_t column, int why) {
  if (*fault == 0) *fault = (uint16_t)(column << 8 | (uint32_t)why);
}

/* Little-endian: a narrower field has the value's first bytes. */
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
