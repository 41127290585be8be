/* Numbers, identifiers and times in text, converted exactly or not at all: prices never become floating point. columns.h describes their
 * columns, and how faults are noted. */
#pragma once

#include "codec/text/column.h"

/* cffi: begin */
enum {
  SD_FORM_DECIMAL = 1, /* [+-]digits[.digits][e[+-]digits], times 10^scale */
  SD_FORM_ID = 2,      /* digits of a u64, a negative number is 0; other text, if `hash`: 64-bit FNV-1a, top bit set */
  SD_FORM_EPOCH =
      3, /* a whole number since 1970-01-01: s below 10^11, ms below 10^14, us below 10^17, else ns; to ns */
  SD_FORM_CLOCK =
      4, /* H:MM[:SS[.digits]] or HHMMSS and `scale` digits: ns since midnight. Leading zeros may be gone, but a field of
                      * fewer than five digits may as well be HHMM, and without a fraction is refused */
  SD_FORM_STAMP =
      5, /* a date, then [TD ] and a clock with colons, and a zone; or at once HHMMSS and `scale` digits: ns since 1970 */
  SD_FORM_DATE = 6,   /* YYYYMMDD or YYYY-MM-DD (/ and . too): ns since 1970 */
  SD_FORM_HEX = 7,    /* up to 16 hexadecimal digits of a u64 */
  SD_FORM_PATTERN = 8 /* as `pattern` says: ns since 1970, or since midnight where it has no date */
};

/* Whether a zone (Z, UTC, +HH:MM, +HHMM, +HH, or with -) follows a stamp; the result is then in UTC. */
enum { SD_ZONE_MAY = 0, SD_ZONE_NEVER = 1, SD_ZONE_ALWAYS = 2 };

typedef struct sd_number_rule {
  int64_t lowest; /* of the result; ignored for SD_FORM_ID and SD_FORM_HEX */
  int64_t highest;
  int64_t empty; /* the result of an empty field, if empty fields are allowed */
  int64_t zero;  /* the result if it is 0 */
  int32_t form;
  int32_t scale; /* SD_FORM_DECIMAL: the power of ten, -27 to 27; else digits of a fraction, 0 to 9 */
  /* SD_FORM_PATTERN: what strptime() calls a format, of `pattern_bytes` bytes. Directives: %Y %y %m %b %B %d %j %H %I %p %M %S %f %z %a
   * %A %%. One of digits has as many as it may, or exactly so many where another one follows at once. A mark before %f and its digits may
   * be missing. Where all are of digits and none is %f, the field's leading zeros may be gone. A space stands for several. */
  const uint8_t *pattern;
  uint32_t pattern_bytes;
  uint8_t allow_empty;
  uint8_t hash;
  uint8_t zone;  /* SD_FORM_STAMP, SD_FORM_PATTERN */
  uint8_t point; /* SD_FORM_DECIMAL: what stands before a fraction; 0: '.' */
  uint8_t group; /* SD_FORM_DECIMAL: what stands between groups of three digits; 0: nothing does */
} sd_number_rule;

/* Returns how many fields had a fault. */
uint64_t sd_numbers(const sd_cells *cells, const sd_number_rule *rule, uint32_t column, const sd_target *target,
                    uint16_t *faults);

/* One number, for tests: 0, or the fault. */
int sd_number(const uint8_t *text, uint64_t length, const sd_number_rule *rule, int64_t *value);
/* cffi: end */
