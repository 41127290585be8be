/* Databento Binary Encoding, versions 1 to 3: the records behind a file's metadata, bytes in, ticks out.
 *
 * A record is a header of 16 bytes (length in words of 4 bytes, record type, publisher u16, instrument u32, venue time
 * u64), then its fields, all little-endian. Layouts follow Databento's "DBN" documentation of standards and schemas.
 * With `ts_out` every record ends with the 8 bytes of the time it was sent at, which are passed over.
 *
 * Called by one thread at a time; touches nothing but its arguments, and never a byte outside [buf, buf + len).
 *
 * What each record becomes; `bid` and `ask` are those of the record's best level:
 *
 *   record            ticks  kind    action  side    price    size       order_id   ref_id
 *   MBO A C M R F     1      ORDER   its own its own price    size       order      0
 *   MBO T             1      TRADE   T       its own price    size       order      0
 *   MBO N             1      NONE    N       its own price    size       order      0
 *   trades            1      TRADE   T       its own price    size       0          0
 *   MBP-1, CMBP-1,    1      QUOTE   its own N       bid      bid size   ask price  ask size
 *   TBBO, TCBBO       and, where the action is T, a TRADE like that of a trades record behind it
 *   BBO, CBBO         1      QUOTE   N       N       bid      bid size   ask price  ask size
 *   MBP-10            as MBP-1, a QUOTE for each of the first `levels` levels that either side has, the first always,
 *                     with the level as depth; of these only the last one has the record's flag 0x80 for the end of an event
 *   OHLCV             4      TRADE   T       N       open, high, low, close; the volume is the size of the close, 0 in
 *                     the others; depth 0 to 3
 *   status            1      STATUS  N       N       none     0          0          action | reason << 16 | event << 32
 *   imbalance         1      STATUS  N       its own ref      paired     0          total imbalance
 *   statistics        1      STATUS  N       N       price    quantity   0          statistic's type
 *
 * `sequence` is the record's own where it has one, else its position among the records, from 1. `flags` are the
 * record's; for status they are SD_DBN_TRADING and the like, for imbalance SD_DBN_IMBALANCE and the auction's letter,
 * for statistics SD_DBN_STATISTIC. Undefined prices stay undefined. If one of
 * ts_event and ts_recv is missing or undefined, the other one replaces it; if both are, they are 0. A bar's ts_recv is its end, because
 * nobody knows the bar sooner. An undefined quantity is 0; a negative one stays negative.
 *
 * Before a record whose name belonged to another instrument, there is a STATUS tick with action R, as before a new day: at the record's
 * receive time, without price and size. A name that belongs to two instruments at one time has none.
 *
 * Definitions, errors and system messages are checked for their length, counted, and make no tick. A symbol mapping
 * ends the call right after it, so that the caller can look at it.
 */
#pragma once

#include "codec/dbn/state.h"

/* cffi: begin */
/* Prepares for the first record of a stream. Borrows `instruments`. */
void sd_dbn_init(sd_dbn *dbn, uint32_t version, sd_dbn_instruments *instruments);

/* The decoder: `self` is an sd_dbn, and a record makes at most SD_DBN_MAX_TICKS ticks. SD_AGAIN: the caller has to answer SD_DBN_STOP_*.
 * That and a fault fill dbn->fault_*. */
sd_decode sd_dbn_decode;
/* cffi: end */
