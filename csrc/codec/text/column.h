/* A column of text, where its numbers go, and why a field could not be taken. */
#pragma once

#include "sd_tick.h"
#include <stdint.h>

/* cffi: begin */
/* A column, and which of its rows are wanted. A row's field begins in `bytes` at begins[row * stride] + skip, and ends at
 * ends[row * stride]. Both ascend. */
typedef struct sd_cells {
  const int32_t *begins, *ends;
  uint32_t stride, skip;
  const uint8_t *bytes;
  const uint32_t *rows; /* the wanted rows, `count` of them; NULL: the first `count` */
  uint64_t count;
  int unspaced; /* it is known that no field has spaces around it */
} sd_cells;

/* Where one number per row goes: `width` bytes (1, 2, 4 or 8), `stride` bytes apart. */
typedef struct sd_target {
  uint8_t *out;
  uint64_t stride;
  uint32_t width;
} sd_target;

/* The low byte of a word of `faults`; the high byte is the column. */
enum {
  SD_FAULT_EMPTY = 1,     /* a field that is needed */
  SD_FAULT_TEXT = 2,      /* not of the form */
  SD_FAULT_PRECISION = 3, /* more decimals than fit into the result */
  SD_FAULT_RANGE = 4,     /* outside lowest to highest, or more than 19 digits */
  SD_FAULT_UNKNOWN = 5,   /* not in the table of letters */
  SD_FAULT_NAMES = 6,     /* one name too many */
  SD_FAULT_NAME = 7,      /* not a symbol's name: longer than SD_NAME_BYTES; the caller checks the rest */
  SD_FAULT_TWICE = 8,     /* a local time that comes twice as clocks go back; the caller finds out */
  SD_FAULT_SKIPPED = 9,   /* a local time that clocks pass over; the caller finds out */
  SD_FAULT_FALLS = 10,    /* a running total below the one before it; the caller finds out */
  SD_FAULT_LACKS = 11     /* a level has less than is taken from it; the caller finds out */
};
/* cffi: end */
