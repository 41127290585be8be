/* Writes a generated market as market-by-order records with the layout and the meanings of DBN's MBO schema: what
 * changes the book are add, cancel and clear alone; an execution is a trade (of the side that came), a fill (of the order
 * that waited) and the cancel that takes the shares away. The last record of an event has SD_MBO_LAST.
 *
 *   event   records
 *   A F     A
 *   E C     T at the execution's price, F and C at the order's
 *   X D     C
 *   U       C of the old order, A of the new one
 *   P Q     T of no side
 *   I H     none: these belong to other schemas
 */
#pragma once

#include "lab/generate/market.h"

/* cffi: begin */
enum {
  SD_MBO_RTYPE = 0xA0,
  SD_MBO_LAST = 0x80,
  SD_MBO_EVENT_RECORDS = 3 /* the most records of an event */
};

typedef struct sd_mbo {
  uint8_t length; /* in units of 4 bytes */
  uint8_t rtype;
  uint16_t publisher_id; /* 0: no venue */
  uint32_t instrument_id;
  uint64_t ts_event; /* ns since the UNIX epoch */
  uint64_t order_id;
  int64_t price; /* units of 1e-9; SD_UNDEF_PRICE: none */
  uint32_t size;
  uint8_t flags;
  uint8_t channel_id;
  char action;
  char side;
  uint64_t ts_recv;
  int32_t ts_in_delta;
  uint32_t sequence; /* of the ITCH message, its low 32 bits */
} sd_mbo;
/* cffi: end */

_Static_assert(sizeof(sd_mbo) == 56, "the layout is DBN's");

/* cffi: begin */
/* Writes a clear of each symbol's book, made from the trading states at the day's start (sd_itch_opening_ticks()). */
void sd_mbo_write_clears(const sd_tick *ticks, int64_t n, sd_mbo *out);

/* Writes n events of sd_market_next_batch(); `out` holds n * SD_MBO_EVENT_RECORDS. Returns the records written. */
int64_t sd_mbo_write_events(const sd_tick *ticks, const char *types, const sd_market_order *orders, int64_t n,
                            sd_mbo *out);

/* How many records that would write. */
int64_t sd_mbo_count(const char *types, int64_t n);
/* cffi: end */
