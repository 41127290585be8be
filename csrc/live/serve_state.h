/* The state of a sender, shared by serve.c and serve_lines.c. */
#pragma once

#include "base/prng.h"
#include "live/mold_packet.h"
#include "live/ranges.h"
#include "sd_error.h"

#include <netinet/in.h>
#include <sys/socket.h>

/* cffi: begin */
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
  double rate;  /* messages per second; 0: not by rate */
  double speed; /* in multiples of the file's own pace; 0: not by its times */
  uint64_t gather_ns;
  uint64_t heartbeat_ns;
  uint64_t history_messages; /* kept for requests */
  uint64_t history_bytes;
  double request_rate; /* answers per second, at most */
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
  uint64_t packets; /* packets made; each line sends all of them, except for its faults */
  uint64_t bytes;   /* of frames taken from the file */
  uint64_t heartbeats;
  uint64_t requests;
  uint64_t answered; /* with a packet */
  uint64_t answered_messages;
  uint64_t unanswerable; /* not of this session, not sent yet, or gone from the history */
  uint64_t request_overrate;
  uint64_t late_ns;      /* the most by which a message went out late */
  uint64_t fault_offset; /* offset in the stream of the first bytes that are not a frame */
  sd_serve_line line[SD_SERVE_LINES];
} sd_serve_counts;

typedef struct sd_serve sd_serve;
/* cffi: end */

enum { SERVE_BATCH = 32 };

typedef struct serve_packet {
  uint64_t sequence;
  uint32_t count;
  uint32_t len;
  uint8_t bytes[SD_MOLD_PACKET];
} serve_packet;

typedef struct serve_late {
  uint64_t due; /* in packets of this line */
  serve_packet packet;
} serve_late;

typedef struct serve_track {
  sd_prng prng;
  uint64_t passed; /* packets that had their turn on this line */
  struct sockaddr_in to;
  sd_ranges lost;
  uint32_t late_count;
  serve_late *late; /* SD_SERVE_LATE, the oldest first */
} serve_track;

struct sd_serve {
  sd_serve_options options;
  sd_serve_counts counts;
  serve_track track[SD_SERVE_LINES];
  serve_packet *packets; /* SERVE_BATCH */
  uint32_t packet_count;
  uint64_t start_ns;      /* 0: nothing sent yet */
  uint64_t first_time_ns; /* of the file */
  uint64_t last_sent_ns;
  uint8_t *history;      /* a ring of frames */
  uint64_t *history_at;  /* where each message's frame begins, by sequence, in bytes since the start */
  uint64_t history_head; /* bytes ever put in */
  uint64_t answers_since_ns;
  uint64_t answers;
};
