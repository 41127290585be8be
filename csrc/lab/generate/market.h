/* An invented trading day: order events with consistent lifecycles, spread over symbols and time as on a real day, with auctions and
 * halts (agenda.h). The day's parts follow each other: imbalance notices before 9:30, then the opening crosses, the session up to 16:00,
 * and the closing crosses after it. The orders of a halted symbol are only cancelled. When it is back to quotation, orders come and go,
 * but nothing is executed before it trades again.
 *
 * One thread at a time may use a market. The stream depends only on the configuration: not on the machine, and not on how many events are
 * asked for at a time. */
#pragma once

#include "lab/generate/market_order.h"
#include "sd_tick.h"

/* cffi: begin */
enum { SD_MARKET_MAX_SYMBOLS = 1000000, SD_MARKET_MESSAGES_A_HALT = 100 };
/* cffi: end */

/* Times of day, ns since midnight. */
#define SD_MARKET_OPEN_NS (UINT64_C(34200) * 1000000000)
#define SD_MARKET_CLOSE_NS (UINT64_C(57600) * 1000000000)

/* cffi: begin */
typedef struct sd_market_config {
  uint64_t messages; /* events in all, below 2^40 */
  uint64_t seed;
  uint64_t midnight_ns;     /* at the exchange, on the trading date; ns since the UNIX epoch */
  uint64_t first_sequence;  /* of the first event: messages before it in the file, plus 1 */
  uint32_t symbols;         /* 1 to SD_MARKET_MAX_SYMBOLS */
  uint32_t halts;           /* symbols that are halted once, with SD_MARKET_MESSAGES_A_HALT messages each at least */
  uint32_t burst_q16;       /* 0: an even day; 65536: the peaks below; at most 131072 */
  uint32_t peak_second_q16; /* busiest second over the mean second, in units of 2^-16 */
  uint32_t peak_millisecond_q16;
} sd_market_config;

typedef struct sd_market_totals {
  uint64_t events; /* made so far */
  uint64_t live_orders;
  uint64_t order_bytes; /* memory held for live orders */
  uint64_t volume;      /* shares traded */
} sd_market_totals;

typedef struct sd_market sd_market;

/* `weights` and `run_lengths` are by rank (weights.h, picker.h) and copied. Which symbol has which rank is shuffled by
 * the seed. SD_OK, SD_E_ARGUMENT or SD_E_NO_MEMORY. */
int sd_market_create(const sd_market_config *config, const uint64_t *weights, const uint32_t *run_lengths,
                     sd_market **out);
void sd_market_destroy(sd_market *market);

/* Makes up to n events. `types`, when not NULL, receives the ITCH 5.0 message type of each, of A F E C X D U P Q H I;
 * `orders`, when not NULL, the order each E, C, X, D and U is about. Returns how many were made, 0 at the end of the
 * day, or SD_E_NO_MEMORY.
 *
 * The ticks are what codec/itch/itch.h makes of those messages, field by field; instrument_id is the symbol's index plus
 * 1, as an ITCH feed numbers its stocks. Sequences leave out one number at 9:30 and one at 16:00, for the system
 * events of an ITCH file. */
int64_t sd_market_next_batch(sd_market *market, sd_tick *ticks, char *types, sd_market_order *orders, int64_t n);

/* The symbol, from 0, with the greatest weight. */
uint32_t sd_market_busiest(const sd_market *market);

void sd_market_read_totals(const sd_market *market, sd_market_totals *out);

/* Checks every symbol's book: SD_OK or SD_E_CORRUPT. */
int sd_market_check(const sd_market *market);
/* cffi: end */
