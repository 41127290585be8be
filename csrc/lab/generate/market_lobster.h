/* Writes one symbol of a generated market as LOBSTER's pair of CSV files: a row a message, and beside it a row with the
 * best levels of the book after it.
 *
 * A message is: seconds since midnight, type, order id, shares, price in units of 1e-4, direction of the order (1 a buy,
 * -1 a sale). A row of the book is, from the best level on: ask price, ask shares, bid price, bid shares; where a side
 * has no such level, 9999999999 or -9999999999, and 0.
 *
 *   event   rows
 *   A F     1 new
 *   X       2 cancelled in part
 *   D       3 deleted
 *   E C     4 executed, at the order's price
 *   U       3 of the old order, then 1 of the new one
 *   P       5 execution of a hidden order, id 0
 *   Q       6 cross, id 0, direction -1
 *   H       7 with price -1 halted, 0 quotation only, 1 trading; id and shares 0, direction -1
 *   I       none
 */
#pragma once

#include "lab/generate/market.h"

/* cffi: begin */
enum {
  SD_LOBSTER_MAX_LEVELS = 200,
  SD_LOBSTER_MESSAGE_BYTES = 160, /* the most bytes of an event's rows */
  SD_LOBSTER_LEVEL_BYTES = 160    /* and of each level in its row of the book, line ends included */
};

typedef struct sd_lobster sd_lobster;

typedef struct sd_lobster_text {
  int64_t message_bytes, book_bytes;
  uint64_t rows;
} sd_lobster_text;

/* SD_OK, SD_E_ARGUMENT for no levels or more than SD_LOBSTER_MAX_LEVELS, or SD_E_NO_MEMORY. */
int sd_lobster_create(uint32_t instrument_id, uint32_t levels, uint64_t midnight_ns, sd_lobster **out);
void sd_lobster_destroy(sd_lobster *writer);

/* Writes the symbol's rows of up to n events of sd_market_next_batch(), and says in `text` how much. `messages` holds
 * events * SD_LOBSTER_MESSAGE_BYTES and `book` events * levels * SD_LOBSTER_LEVEL_BYTES: it stops after so many events
 * of the symbol. Returns the events passed, those of other symbols included; SD_E_ARGUMENT when they do not fit the book;
 * SD_E_NO_MEMORY. */
int64_t sd_lobster_write(sd_lobster *writer, const sd_tick *ticks, const char *types, const sd_market_order *orders,
                         int64_t n, int64_t events, uint8_t *messages, uint8_t *book, sd_lobster_text *text);
/* cffi: end */
