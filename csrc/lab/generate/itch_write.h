/* Writes a generated market as NASDAQ TotalView-ITCH 5.0: each message after its length, both big-endian.
 *
 * A file is what sd_itch_write_opening() gives (start events, a directory entry, a trading state and a market maker for
 * each symbol, the levels of the market-wide circuit breaker), the day's events with the start and the end of market
 * hours among them, and what sd_itch_write_closing() gives.
 */
#pragma once

#include "codec/itch/state.h"

/* cffi: begin */
enum {
  SD_ITCH_MAX_SYMBOLS = SD_ITCH_LOCATES - 1, /* no symbol has locate 0 */
  SD_ITCH_NAME_LETTERS = 5,
  SD_ITCH_EVENT_BYTES = 52,     /* the longest event, with its length */
  SD_ITCH_HOURS_BYTES = 28,     /* the start and the end of market hours, which come with the events */
  SD_ITCH_OPENING_MESSAGES = 3, /* and three more per symbol */
  SD_ITCH_HOURS_MESSAGES = 2,
  SD_ITCH_CLOSING_MESSAGES = 2
};

/* The state of a file. Starts as {midnight_ns}. */
typedef struct sd_itch_writer {
  uint64_t midnight_ns;
  uint64_t hours; /* 0 before market hours, 1 in them, 2 after them */
} sd_itch_writer;
/* cffi: end */

/* The name of symbol `index`: AAAAA, AAAAB, ... Made up; five letters are enough for SD_MARKET_MAX_SYMBOLS. */
void sd_itch_symbol_name(uint32_t index, char name[SD_ITCH_NAME_LETTERS]);

/* cffi: begin */
/* Bytes that sd_itch_write_opening() writes for so many symbols; 0 when they are more than SD_ITCH_MAX_SYMBOLS. */
int64_t sd_itch_opening_bytes(uint32_t symbols);
int64_t sd_itch_write_opening(uint32_t symbols, uint8_t *out);

/* The ticks the opening decodes to, one trading state a symbol: those of symbols first .. first + n - 1, from 0. Of so
 * many symbols as a market can have: more than a file can. */
void sd_itch_opening_ticks(uint32_t symbols, uint32_t first, int64_t n, uint64_t midnight_ns, sd_tick *out);

/* Writes n events of sd_market_next_batch() with their types. Before the first one in market hours, and the first one after them, it
 * writes the message that says so. `out` holds n * SD_ITCH_EVENT_BYTES + SD_ITCH_HOURS_BYTES. Returns the bytes written, or SD_E_ARGUMENT
 * for a type that a market does not make. */
int64_t sd_itch_write_events(sd_itch_writer *writer, const sd_tick *ticks, const char *types, int64_t n, uint8_t *out);

/* Ends the day. `out` holds SD_ITCH_HOURS_BYTES and 14 for each of SD_ITCH_CLOSING_MESSAGES. */
int64_t sd_itch_write_closing(sd_itch_writer *writer, uint8_t *out);
/* cffi: end */
