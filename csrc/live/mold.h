/* A MoldUDP64 receiver: it makes one ordered stream of ITCH frames out of two lines that carry the same messages.
 *
 * It arbitrates by message, not by packet, so that lines and retransmissions may pack messages differently. The first copy of a sequence
 * number wins, and later copies are counted by line. Messages ahead of the next one wait in a bounded window. If a re-request server is
 * named, the receiver asks it again for what is missing before them. It gives a gap up `gap_timeout_ns` after a message behind the gap
 * arrived or was heard of, or when the window or its packets are used up. It lists what it gave up exactly, as [from, to) ranges. A copy
 * that comes later is counted as late and not used.
 *
 * It also lists what each attached line missed by itself. A sequence counts as missed on a line if it has not come on that line by the
 * time the line is SD_MOLD_WINDOW messages further. sd_mold_finish() decides the rest, up to the session's end if that was heard of,
 * otherwise up to what the line itself has shown.
 *
 * Sessions: the receiver follows the first one that it hears, to its end. Two packets of another session set `session_changed`. To follow
 * that one too, make a new receiver and, because locates are assigned again, a new decoder.
 *
 * One packet alone does not move the stream. A packet whose sequence is more than `jump_window` beyond everything heard so far is counted
 * and set aside. It is taken when a second packet, of either line, agrees: its sequence is within `jump_window` of the first one's. The
 * last two packets set aside are kept, and dropped if none agrees. Without `first_sequence` the first packet waits in this way too, for
 * at most `gap_timeout_ns`, because it says where delivery begins.
 *
 * One thread at a time, except for sd_mold_wake(), which any thread may call. No other thread is started: every function here is plain
 * single-threaded C. */
#pragma once

#include "live/mold_deliver.h"
#include "live/mold_look.h"
#include "live/mold_socket.h"
#include "live/mold_take.h"
