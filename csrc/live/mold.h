/* A MoldUDP64 receiver: two lines that carry the same messages become one ordered stream of ITCH frames.
 *
 * Arbitration goes by message, not by packet, so that lines and retransmissions may pack differently: the first copy of
 * a sequence number wins, later ones are counted by line. Messages ahead of the next one wait in a bounded window; what
 * is missing before them is asked for again where a re-request server is named, and is given up `gap_timeout_ns` after
 * a message behind it arrived or was heard of, or when the window or its packets are used up. What was given up is
 * listed exactly, as [from, to) ranges; a copy that comes after that is counted late and not used.
 *
 * What each attached line missed by itself is listed too: a sequence counts as missed on a line when it has not come on it by
 * the time the line is SD_MOLD_WINDOW messages further, or at sd_mold_finish() (up to the session's end where that was
 * heard of, else up to what the line itself has shown).
 *
 * Sessions: the first one heard is followed, to its end. Two packets of another one set `session_changed`: whoever
 * follows that one as well needs a new receiver and, as locates are given anew, a new decoder.
 *
 * One packet alone does not move the stream. A sequence more than `jump_window` beyond everything heard so far is
 * counted, and its packet is set aside. It is taken when a second packet agrees, of either line: another one whose
 * sequence is within `jump_window` of it. The last two set aside are kept, and dropped if none agrees. Without
 * `first_sequence` the first packet waits so, too, `gap_timeout_ns` at most, for it says where delivery begins.
 *
 * One thread at a time, sd_mold_wake() apart, which may be called from any. No other thread is started: every function
 * here is plain single-threaded C.
 */
#ifndef SD_LIVE_MOLD_H
#define SD_LIVE_MOLD_H

#include "live/mold_deliver.h"
#include "live/mold_look.h"
#include "live/mold_socket.h"
#include "live/mold_take.h"

#endif
