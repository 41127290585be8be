/* A MoldUDP64 sender: frames of an ITCH file go out as packets on two lines, each with faults of its own from a seed,
 * and requests for retransmission are answered from a bounded history.
 *
 * Messages that are due in the same `gather_ns` share packets, filled up to `packet_bytes`. When a message is due
 * follows from its position (`rate`), from the file's own times (`speed`), or is at once (both 0).
 *
 * Faults are drawn by packet and line, from a generator of each line's own: a packet is lost; or kept back until 1 to
 * `reorder_depth` packets more have gone out; or sent, and once more later. Heartbeats, the session's end and answers
 * are never lost. What was lost is listed exactly, as [from, to) ranges of sequence numbers a line.
 *
 * One thread; plain single-threaded C. Sockets are the caller's.
 */
#ifndef SD_LIVE_SERVE_H
#define SD_LIVE_SERVE_H

#include "live/serve_state.h"

/* NULL where there is no memory. */
sd_serve *sd_serve_new(const sd_serve_options *options);
void sd_serve_free(sd_serve *s);
const sd_serve_counts *sd_serve_look(const sd_serve *s);
const sd_range *sd_serve_lost(const sd_serve *s, int line, uint64_t *count);

/* Sends what is whole of `frames`, each when it is due; *consumed says how far it came. SD_OK: all that is whole has
 * been sent; SD_AGAIN: `limit_ns` are over; SD_E_FORMAT: the next frame is none; or a negative errno below -1000. */
int sd_serve_send(sd_serve *s, const uint8_t *frames, uint64_t len, uint64_t limit_ns, uint64_t *consumed);
/* What is kept back goes out, then the session's end on both lines. */
int sd_serve_end(sd_serve *s);
/* Answers requests for so long. */
int sd_serve_idle(sd_serve *s, uint64_t for_ns);

#endif
