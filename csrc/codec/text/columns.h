/* Columns of text, as a CSV parser leaves them, into fields of ticks. Here is what a column is, and what becomes of one
 * whose fields are no numbers; those are decimal.h's, and names are names.h's.
 *
 * A column is Arrow's layout of variable-size binary, with offsets of 32 bits into one run of bytes, or lies in the lines
 * that sd_split splits. Each function takes a whole column in one call and writes a field of each tick (any stride), so that
 * nothing is done twice.
 *
 * A field that cannot be taken leaves its output alone and notes in `faults`, one word a row, its column and why: the
 * first fault of a row stays. Spaces around a field do not count. Called by one thread at a time; touches nothing but
 * its arguments, and never a byte outside those between the first and the last offset.
 */
#pragma once

#include "codec/text/column.h"

/* cffi: begin */
enum {
  SD_LETTERS = 64,       /* the most texts in a table */
  SD_LETTER_BYTES = 64,  /* the most bytes of one */
  SD_LETTER_TARGETS = 4, /* the most numbers that one text stands for */
};

/* A text, and the number it stands for in each target; -1: none, which is a fault. */
typedef struct sd_letter {
  uint8_t text[SD_LETTER_BYTES]; /* padded with zeros */
  uint32_t length;
  int32_t values[SD_LETTER_TARGETS];
} sd_letter;

/* Looks each field up in a table, and writes to 1 to SD_LETTER_TARGETS targets. `otherwise`: the numbers for a text that the table does
 * not have. */
uint64_t sd_letters(const sd_cells *cells, const sd_letter *table, uint32_t entries, const int32_t *otherwise,
                    uint32_t column, const sd_target *targets, uint32_t count, uint16_t *faults);

/* Splits lines into fields. Writes where each field ends, the fields of a line one behind the other, from ends[1] on;
 * ends[0] is -1. The last line needs no end. Returns how many lines there are, each with so many columns, 2 or more. 0: lines
 * have other numbers of fields, or a byte is '"' or '\r', or there are more than `room` - 1 fields. `spaced`: whether a byte is ' '. */
uint64_t sd_split(const uint8_t *text, uint64_t bytes, uint8_t delimiter, uint32_t columns, int32_t *ends,
                  uint64_t room, int *spaced);

/* How many of the bytes equal this one. */
uint64_t sd_count_byte(const uint8_t *bytes, uint64_t count, uint8_t byte);

/* How many of the bytes are '\n'. `odd`: whether one is '"' or '\r', in which case lines are more complicated. */
uint64_t sd_line_ends(const uint8_t *bytes, uint64_t count, int *odd);
/* cffi: end */
