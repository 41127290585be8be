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

#include "live/mold_packet.h"
#include "live/ranges.h"
#include "sd_error.h"

enum { SD_SERVE_LINES = 2, SD_SERVE_LATE = 64 };

typedef struct sd_serve_line_options {
  uint32_t address; /* IPv4 and port in network order */
  uint16_t port;
  uint16_t unused;
  int32_t fd; /* -1: no such line */
  double loss;
  double reorder;
  double duplicate;
} sd_serve_line_options;

typedef struct sd_serve_options {
  uint8_t session[SD_MOLD_SESSION];
  uint16_t packet_bytes; /* of UDP payload, SD_MOLD_HEADER + 2 + 50 at least */
  uint32_t reorder_depth;
  uint64_t seed;
  double rate;  /* messages a second; 0: not by rate */
  double speed; /* times the file's own pace; 0: not by its times */
  uint64_t gather_ns;
  uint64_t heartbeat_ns;
  uint64_t history_messages; /* kept for requests */
  uint64_t history_bytes;
  double request_rate; /* answers a second, at most */
  int32_t request_fd;  /* -1: requests are not served */
  sd_serve_line_options line[SD_SERVE_LINES];
} sd_serve_options;

typedef struct sd_serve_line {
  uint64_t packets; /* handed to the kernel, copies included */
  uint64_t lost_packets;
  uint64_t reordered_packets;
  uint64_t duplicated_packets;
  uint64_t lost_ranges;
  uint64_t lost_messages;
  uint64_t lost_unlisted;
} sd_serve_line;

typedef struct sd_serve_counts {
  uint64_t messages;
  uint64_t packets; /* made; each line sends them all but for faults */
  uint64_t bytes;   /* of frames taken from the file */
  uint64_t heartbeats;
  uint64_t requests;
  uint64_t answered; /* with a packet */
  uint64_t answered_messages;
  uint64_t unanswerable; /* not of this session, not sent yet, or gone from the history */
  uint64_t request_overrate;
  uint64_t late_ns;      /* the most a message went out after it was due */
  uint64_t fault_offset; /* where in the stream the frame begins that is none */
  sd_serve_line line[SD_SERVE_LINES];
} sd_serve_counts;

typedef struct sd_serve sd_serve;

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
