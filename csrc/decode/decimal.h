/* Columns of text, as a CSV parser leaves them, into numbers: exactly or not at all.
 *
 * A column is Arrow's layout of variable-size binary: count + 1 offsets of 32 bits into one run of bytes. Each function
 * takes a whole column in one call and writes a field of each tick (any stride), so that nothing is done twice and no
 * floating point comes near a price.
 *
 * A field that cannot be taken leaves its output alone and notes in `faults`, one word a row, its column and why: the
 * first fault of a row stays. Spaces around a field do not count. Called by one thread at a time; touches nothing but
 * its arguments, and never a byte outside those between the first and the last offset.
 */
#ifndef SD_DECODE_DECIMAL_H
#define SD_DECODE_DECIMAL_H

#include <stdint.h>

/* A column, and which of its rows are meant. */
typedef struct sd_cells {
  const int32_t *offsets; /* one more than there are rows, ascending */
  const uint8_t *bytes;
  const uint32_t *rows; /* those meant, `count` of them; NULL: the first `count` */
  uint64_t count;
} sd_cells;

/* Where one number a row goes: `width` bytes (1, 2, 4 or 8), `stride` bytes apart. */
typedef struct sd_target {
  uint8_t *out;
  uint64_t stride;
  uint32_t width;
} sd_target;

enum {
  SD_FORM_DECIMAL = 1, /* [+-]digits[.digits][e[+-]digits], times 10^scale */
  SD_FORM_ID = 2,      /* digits of a u64, a negative number is 0; other text, if `hash`: 64-bit FNV-1a, top bit set */
  SD_FORM_EPOCH =
      3, /* a whole number since 1970-01-01: s below 10^11, ms below 10^14, us below 10^17, else ns; to ns */
  SD_FORM_CLOCK = 4, /* H:MM:SS[.digits] or HHMMSS and `scale` digits (leading zeros may be gone): ns since midnight */
  SD_FORM_STAMP = 5, /* a date, then [T ]HH:MM:SS[.digits][Z] or at once HHMMSS and `scale` digits: ns since 1970 */
  SD_FORM_DATE = 6   /* YYYYMMDD or YYYY-MM-DD (/ and . too): ns since 1970 */
};

typedef struct sd_number_rule {
  int64_t lowest; /* of the result; not looked at for SD_FORM_ID */
  int64_t highest;
  int64_t empty; /* the result of an empty field, where those are allowed */
  int64_t zero;  /* the result where it is 0 */
  int32_t form;
  int32_t scale; /* SD_FORM_DECIMAL: the power of ten, -18 to 18; else digits of a fraction, 0 to 9 */
  uint8_t allow_empty;
  uint8_t hash;
} sd_number_rule;

/* The low byte of a word of `faults`; the high byte is the column. */
enum {
  SD_FAULT_EMPTY = 1,     /* a field that is needed */
  SD_FAULT_TEXT = 2,      /* not of the form */
  SD_FAULT_PRECISION = 3, /* more decimals than the result holds */
  SD_FAULT_RANGE = 4,     /* outside lowest to highest, or more than 19 digits */
  SD_FAULT_UNKNOWN = 5,   /* not in the table of letters */
  SD_FAULT_NAMES = 6      /* a name too many, or longer than SD_NAME_BYTES */
};

/* Returns how many fields had a fault. */
uint64_t sd_numbers(const sd_cells *cells, const sd_number_rule *rule, uint32_t column, const sd_target *target,
                    uint16_t *faults);

/* One number, for tests: 0, or why not. */
int sd_number(const uint8_t *text, uint64_t length, const sd_number_rule *rule, int64_t *value);

/* Text of at most eight bytes that stands for a number. */
typedef struct sd_letter {
  uint8_t text[8]; /* padded with zeros */
  uint32_t length;
  uint32_t value;
} sd_letter;

/* Each field through a table of up to 64 entries. `otherwise`: the number for what is not in it, -1: that is a fault. */
uint64_t sd_letters(const sd_cells *cells, const sd_letter *table, uint32_t entries, int64_t otherwise, uint32_t column,
                    const sd_target *target, uint16_t *faults);

/* Whole amounts to 32-bit sizes: divided by `unit`, rounded down, at most 2^32-1; where that loses anything, `flag` is
 * set in the row's flags. `sizes` and `flags` are `stride` apart. Negative amounts count as 0. Returns how many rows
 * lost something. */
uint64_t sd_fit_sizes(const int64_t *amounts, uint64_t count, int64_t unit, uint8_t *sizes, uint8_t *flags,
                      uint64_t stride, uint8_t flag);

/* How many of the bytes are this one. */
uint64_t sd_count_byte(const uint8_t *bytes, uint64_t count, uint8_t byte);

#endif
