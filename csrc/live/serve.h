/* A MoldUDP64 sender: it sends the frames of an ITCH file as packets on two lines, draws each line's faults from a seed, and answers
 * requests for retransmission from a bounded history.
 *
 * Messages that are due in the same `gather_ns` share packets, filled up to `packet_bytes`. A message is due by its position (`rate`), by
 * the file's own times (`speed`), or at once (both 0).
 *
 * Each line has its own generator, which draws faults by packet: a packet is lost; or kept back until 1 to `reorder_depth` more packets
 * have been sent; or sent, and once more later. Heartbeats, the session's end and answers are never lost. What was lost is listed
 * exactly, as [from, to) ranges of sequence numbers per line.
 *
 * One thread; plain single-threaded C. The caller owns the sockets. */
#pragma once

#include "live/serve_state.h"

/* cffi: begin */
/* NULL: no memory. */
sd_serve *sd_serve_new(const sd_serve_options *options);
void sd_serve_free(sd_serve *s);
const sd_serve_counts *sd_serve_look(const sd_serve *s);
const sd_range *sd_serve_lost(const sd_serve *s, int line, uint64_t *count);

/* Sends the whole frames in `frames`, each when it is due; *consumed says how far it came. SD_OK: all whole frames have been sent;
 * SD_AGAIN: `limit_ns` have passed; SD_E_FORMAT: what follows is not a frame; or a negative errno below -1000. */
int sd_serve_send(sd_serve *s, const uint8_t *frames, uint64_t len, uint64_t limit_ns, uint64_t *consumed);
/* Sends what is kept back, then the session's end on both lines. */
int sd_serve_end(sd_serve *s);
/* Answers requests for that long. */
int sd_serve_idle(sd_serve *s, uint64_t for_ns);
/* cffi: end */
