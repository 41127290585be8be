/* What serve.c and serve_lines.c share of a sender. */
#ifndef SD_LIVE_SERVE_STATE_H
#define SD_LIVE_SERVE_STATE_H

#include "generate/prng.h"
#include "live/serve.h"

#include <netinet/in.h>
#include <sys/socket.h>

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
  uint64_t passed; /* packets that were this line's turn */
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

/* serve_lines.c. Negative errno - 1000. */
int sd_serve_flush(sd_serve *s);
int sd_serve_flush_late(sd_serve *s);
int sd_serve_control(sd_serve *s, uint32_t count);
void sd_serve_remember(sd_serve *s, const uint8_t *frame, uint64_t len, uint64_t sequence);
int sd_serve_answer(sd_serve *s, uint64_t now_ns);

#endif
