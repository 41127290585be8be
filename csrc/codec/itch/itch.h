/* NASDAQ TotalView-ITCH 5.0: bytes in, ticks out.
 *
 * A stream is a row of frames: a big-endian u16 length, then the message. Some tools write 0 as the length of every
 * frame; the type then gives it. Field offsets follow Nasdaq's "TotalView-ITCH 5.0" specification.
 *
 * Called by one thread at a time; touches nothing but its arguments, and never a byte outside [buf, buf + len).
 *
 * What each message becomes (`locate` is the stock locate, `match` the match number):
 *
 *   type   action side       order_id size             price            ref_id  kind
 *   A F    A      B or A     order    shares           price            0       ORDER
 *   E      F      N          order    executed         none             match   ORDER
 *   C      F      N          order    executed         execution price  match   ORDER
 *   X      C      N          order    cancelled        none             0       ORDER
 *   X of 0 N      N          order    0                none             0       ORDER: nothing is cancelled
 *   D      C      N          order    0: all that is left  none         0       ORDER
 *   U      M      N          old      shares           price            new id  ORDER
 *   P      T      B or A     order    shares           price            match   TRADE
 *   Q      T      N          0        shares           cross price      match   TRADE
 *   H      N      N          0        0                none             reason  STATUS
 *   I      N      imbalance  0        paired shares    reference price  imbalance shares   STATUS
 *   B      N      N          0        0                none             match   STATUS
 *   J      N      N          lower    extensions       reference price  upper   STATUS, collars in 1e-9
 *   K      N      N          0        0                IPO price        release second     STATUS
 *   Y      N      N          0        0                none             action  STATUS
 *   h      N      N          0        0                none             market and action  STATUS
 *   N      N      B or A     0        0                none             interest           STATUS, side N: both or none
 *   O      N      N          lower    0                near price       upper   STATUS, collars in 1e-9
 *
 * `instrument_id` is the stock locate. `sequence` is the message's position in the stream, counted from 1; messages that make no tick
 * count too. `ts_event` and `ts_recv` are both midnight_ns + the message's nanoseconds. R names a locate and describes it. S, V and W
 * concern the whole market and are kept as they came. These and L (a market maker's standing; each symbol has dozens before the open) are
 * checked and counted, and make no tick.
 *
 * There is one exception: S with the code O, start of messages, may begin a new day. It does if at least as many messages came since the
 * last one as locates have names, because a day names them all. Then it makes a clear record for each of these locates, in their order:
 * action R, side N, no price, kind STATUS, the message's time and sequence.
 *
 * Skipping. If a frame is sound and its message is not, only that message is skipped. The frames themselves may be out of step: a length
 * that is not the type's, an unknown type without a length, a frame that the end cuts. Then the decoder searches for the next place from
 * which SD_ITCH_SYNC_FRAMES frames in a row are plausible, or fewer that reach the very end. A plausible frame has a known type, its own
 * length (0 only if the stream has not shown true ones), a time within a day, and a locate of the directory, once there is one. What lies
 * before that place counts as one message.
 */
#pragma once

#include "codec/itch/state.h"

/* cffi: begin */
/* Prepares for the first byte of a stream. itch->symbols has to be zeros, as calloc() gives them: it has half a megabyte, most of which
 * is never touched. */
void sd_itch_init(sd_itch *itch, uint64_t midnight_ns, uint32_t skip);

/* The decoder: `self` is an sd_itch, and a message makes at most one tick. SD_AGAIN: a message's locate is SD_ITCH_UNDECIDED; decide all
 * such locates. A fault fills itch->fault_*, unless faults are skipped. */
sd_decode sd_itch_decode;

/* Length of a message of this type in bytes, its length field apart; 0 for a type that ITCH 5.0 does not have. */
uint32_t sd_itch_length(uint8_t type);
/* cffi: end */
