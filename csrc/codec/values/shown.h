/* Ticks as columns of a table, in Arrow's layout: what strand.feeds.base says of each column, for many ticks at once.
 *
 * Called by one thread at a time; touches nothing but its arguments. */
#pragma once

#include "sd_tick.h"

#include <stdint.h>

/* cffi: begin */
/* What a column shows. A quote's sides, and its ids, are as sd_tick.h has them; other ticks have no sides. */
enum {
  SD_SHOWN_NUMBER = 0, /* the place among all ticks, from 0 */
  SD_SHOWN_SEQUENCE,
  SD_SHOWN_TS_EVENT,
  SD_SHOWN_TS_RECV, /* below 0: undefined */
  SD_SHOWN_INSTRUMENT_ID,
  SD_SHOWN_KIND,
  SD_SHOWN_PRICE,
  SD_SHOWN_SIZE,
  SD_SHOWN_BID_PRICE,
  SD_SHOWN_BID_SIZE,
  SD_SHOWN_ASK_PRICE,
  SD_SHOWN_ASK_SIZE,
  SD_SHOWN_ORDER_ID, /* 0: undefined, as for the next two */
  SD_SHOWN_REF_ID,
  SD_SHOWN_PUBLISHER_ID,
  SD_SHOWN_FLAGS,
  SD_SHOWN_DEPTH,
  SD_SHOWN_ACTION, /* texts, from here on */
  SD_SHOWN_SIDE,
  SD_SHOWN_SYMBOL
};

enum { SD_SHOWN_REAL = 0, SD_SHOWN_DECIMAL = 16, SD_SHOWN_VIEW = 16 };

/* `width`: the bytes of a number; SD_SHOWN_REAL: a double, times `factor` and divided by `divisor`; SD_SHOWN_DECIMAL: 128 bits; of
 * texts SD_SHOWN_VIEW: Arrow's views, 16 bytes each, of which long ones point into the names' bytes.
 * `out`: the numbers, views, or texts one behind the other, a letter as up to four bytes. `valid`: a bit for each tick, set where the
 * column is defined. `ends`: of texts that are no views, one more than there are ticks. */
typedef struct sd_shown {
  uint32_t what, width;
  double factor, divisor;
  uint8_t *out;
  uint8_t *valid;
  int32_t *ends;
  uint64_t undefined; /* written: how many ticks have no value */
} sd_shown;

/* The names of symbols by key: `count` + 1 ends, the first of them 0, in `bytes`, behind which 16 bytes may be read. In `out` of symbols
 * 16 bytes behind the texts may be written. */
typedef struct sd_shown_names {
  const int32_t *ends;
  const uint8_t *bytes;
  const uint8_t *views; /* 16 bytes each */
  uint64_t count;
} sd_shown_names;

/* Writes columns of n ticks, the first of which is number `first`. Returns 0, or a count of names that suffices, where a symbol has none:
 * what was written of symbols is of no use then. */
uint64_t sd_show(const sd_tick *ticks, uint64_t n, uint64_t first, sd_shown *columns, uint32_t count,
                 const sd_shown_names *names);
/* cffi: end */
