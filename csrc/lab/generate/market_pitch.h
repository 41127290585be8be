/* Writes a generated market as Cboe PITCH text, a message a line, as Cboe's "US Equities TCP Depth of Book (PITCH)"
 * specification has it: milliseconds since midnight in eight digits, a type, fixed fields. Order and execution ids are
 * in base 36, prices have six digits and four decimals.
 *
 *   event   lines
 *   A       A add, short
 *   F       d add, long, with its participant
 *   E C     E executed: PITCH knows no price but the order's
 *   X D     X cancelled: a delete takes all that is left
 *   U       X of what is left, then A of the new order
 *   P       P trade of a hidden order, whose id is not told: 0
 *   Q I     J auction summary, I auction update
 *   H       H trading status; PITCH has one for halts and pauses
 */
#pragma once

#include "lab/generate/market.h"

/* cffi: begin */
enum {
  SD_PITCH_EVENT_BYTES = 96, /* the most bytes of an event */
  SD_PITCH_STATUS_BYTES = 22
};

/* The trading states at the day's start (sd_itch_opening_ticks()), SD_PITCH_STATUS_BYTES each. Returns the bytes. */
int64_t sd_pitch_write_states(const sd_tick *ticks, int64_t n, uint64_t midnight_ns, uint8_t *out);

/* Writes n events of sd_market_next_batch(); `out` holds n * SD_PITCH_EVENT_BYTES. Adds the lines to `lines`. Returns
 * the bytes written, or SD_E_ARGUMENT for a type that a market does not make. */
int64_t sd_pitch_write_events(const sd_tick *ticks, const char *types, const sd_market_order *orders, int64_t n,
                              uint64_t midnight_ns, uint8_t *out, uint64_t *lines);
/* cffi: end */
