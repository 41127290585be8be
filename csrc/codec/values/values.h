/* Columns of numbers, as Arrow and numpy have them, into fields of ticks.
 *
 * Each column says which numbers are allowed. A tick is made as a whole, and the first row with a number that is not allowed ends the
 * call; the caller then finds out what is wrong. Called by one thread at a time; touches nothing but its arguments. */
#pragma once

#include "sd_tick.h"

#include <stdint.h>

/* cffi: begin */
/* What the numbers of a column are. */
enum {
  SD_VALUES_I8 = 0,
  SD_VALUES_I16 = 1,
  SD_VALUES_I32 = 2,
  SD_VALUES_I64 = 3,
  SD_VALUES_U8 = 4,
  SD_VALUES_U16 = 5,
  SD_VALUES_U32 = 6,
  SD_VALUES_U64 = 7,
  SD_VALUES_F64 = 8
};

/* Used in place of a width: the sequence, which lies in two fields, the lower one at `at`. */
enum { SD_VALUES_SEQUENCE = 5 };

/* An entry of a table that stands for nothing. */
#define SD_VALUES_NONE 4294967295U

/* A column, with one number per row next to each other, and the field that it becomes. A float becomes the whole number of units of
 * 1/scale to which it is the nearest double. It is not allowed if there is none, or at 2^51 units or more. */
typedef struct sd_values {
  const void *values;
  uint32_t kind;
  uint32_t at, width; /* the field: where it begins in a tick, and its 1, 2, 4 or 8 bytes; or SD_VALUES_SEQUENCE */
  uint64_t lowest;    /* the lowest number allowed, as an int64_t's bits if the kind has a sign */
  uint64_t more;      /* how far above it a number may be; for floats, in units */
  uint64_t factor;    /* what it is then multiplied by */
  double scale;
  const uint32_t *table; /* NULL, or by an allowed number what it stands for; one of SD_VALUES_NONE is not allowed */
} sd_values;

/* Ticks like `blank`, numbered from `first` up, with n fields of columns. Returns how many are made: up to the first row with a
 * number that is not allowed. */
uint64_t sd_value_ticks(sd_tick *out, uint64_t count, const sd_tick *blank, uint64_t first, const sd_values *values,
                        uint32_t n);

/* Looks integers up in a table. An integer beyond it stands for nothing. `rows` has space for `count` rows: those whose
 * integers stand for nothing are written there. Returns how many these are. */
uint64_t sd_look_up(const void *from, uint32_t kind, uint64_t count, const uint32_t *table, uint64_t entries,
                    uint32_t *out, uint32_t *rows);
/* cffi: end */
