/* The state of a receiver, shared by its files: options, counts, and what waits in its window. */
#pragma once

#include "live/mold_packet.h"
#include "live/ranges.h"
#include "sd_error.h"
#include "sd_tick.h"

/* With smaller ones a fuzzer reaches the bounds. */
#ifndef SD_MOLD_WINDOW_LOG2
#define SD_MOLD_WINDOW_LOG2 18
#define SD_MOLD_HELD_PACKETS_LOG2 12
#endif

enum {
  SD_MOLD_WINDOW = 1 << SD_MOLD_WINDOW_LOG2,            /* messages between the next one and the last one that waits */
  SD_MOLD_HELD_PACKETS = 1 << SD_MOLD_HELD_PACKETS_LOG2 /* packets that wait, of SD_MOLD_PACKET bytes each */
};

/* cffi: begin */
enum {
  SD_MOLD_LINES = 3, /* A, B, and what the re-request server answers */
  SD_MOLD_REPLIES = 2,
  SD_MOLD_LATENCY_BUCKETS = 656 /* the buckets of sd_bucket_of() */
};

typedef struct sd_mold_options {
  uint64_t first_sequence; /* messages before it are not wanted; 0: from the first packet heard */
  uint64_t message_limit;  /* messages to deliver; 0: no limit */
  uint64_t gap_timeout_ns; /* how long a gap may stay */
  uint64_t
      request_after_ns; /* how old a gap must be before it is asked for, and how long to wait between two requests */
  uint64_t jump_window; /* a single packet is believed if it is no further than this beyond everything heard */
  uint32_t stop_at_gap; /* deliver nothing after the first gap that stays */
  uint32_t any_session; /* 0: `session` is the one to follow */
  uint8_t session[SD_MOLD_SESSION];
} sd_mold_options;

/* Messages: messages = first + duplicates + late + unwanted. */
typedef struct sd_mold_line {
  uint64_t packets; /* with messages */
  uint64_t messages;
  uint64_t first;      /* taken from this line */
  uint64_t duplicates; /* another copy came before */
  uint64_t late;       /* came after they were given up */
  uint64_t unwanted;   /* before first_sequence, or after the message limit */
  uint64_t heartbeats;
  uint64_t malformed;     /* packets that are not MoldUDP64, or whose sequence does not fit into a tick */
  uint64_t jumps;         /* packets set aside: too far from everything heard, and no other one had agreed with them */
  uint64_t other_session; /* packets */
  uint64_t overflowed;    /* packets for which the window had no space */
  uint64_t kernel_drops;  /* packets that the kernel had to drop */
  uint64_t receive_bytes; /* size of the socket's buffer */
  uint64_t gap_count;
  uint64_t gap_messages;
  uint64_t gaps_unlisted;
} sd_mold_line;

typedef struct sd_mold_counts {
  uint64_t delivered;      /* messages, in order */
  uint64_t first_sequence; /* with which delivery begins: the one that was asked for, or the first one heard */
  uint64_t next_sequence;
  uint64_t high; /* one above the highest sequence heard of */
  uint64_t held; /* messages in the window */
  uint64_t max_held;
  uint64_t gap_count; /* given up */
  uint64_t gap_messages;
  uint64_t gaps_unlisted;
  uint64_t requests;
  uint64_t requested_messages;
  uint64_t forced;         /* gaps given up before their time, because space was needed */
  uint64_t jumps_believed; /* a second packet agreed with one that was set aside */
  uint32_t started;
  uint32_t ended; /* the session's end, or the limit, was reached, and everything before it is delivered or given up */
  uint32_t session_changed;
  uint32_t stopped_at_gap;
  uint8_t session[SD_MOLD_SESSION];
  uint8_t new_session[SD_MOLD_SESSION];
  sd_mold_line line[SD_MOLD_LINES];
  uint64_t latency[SD_MOLD_LATENCY_BUCKETS]; /* ns from the kernel's receipt to delivery, one per message */
} sd_mold_counts;

/* Messages that came next to each other in one packet; `position` counts delivered messages from 1. */
typedef struct sd_mold_run {
  uint64_t position;
  uint64_t sequence;
  uint64_t ts_recv; /* ns since the epoch, by the kernel's clock */
} sd_mold_run;

typedef struct sd_mold sd_mold;
/* cffi: end */

#define WINDOW ((uint64_t)SD_MOLD_WINDOW)

enum { SLOT_FREE = 0, SLOT_HELD = 1 };

typedef struct mold_slot {
  uint64_t sequence; /* the sequence for which it was last used */
  uint32_t packet;
  uint16_t at; /* of the block, in the packet */
  uint16_t state;
} mold_slot;

typedef struct mold_packet {
  uint64_t ts_recv;
  uint64_t arrived_ns;
  uint32_t users; /* how many of its messages wait */
  uint8_t bytes[SD_MOLD_PACKET];
} mold_packet;

typedef struct mold_track {
  uint64_t *seen; /* a bit per sequence from `floor` on, SD_MOLD_WINDOW of them */
  uint64_t floor; /* everything before it is decided */
  uint64_t high;  /* one above the highest sequence that the line has shown */
  sd_ranges gaps;
  int fd;
  uint32_t drops_seen; /* the kernel's counter, which wraps */
  uint32_t heard_end;
} mold_track;

/* Two, so that a hostile packet between two that agree does not separate them. */
enum { SUSPECTS = 2 };

/* A packet that waits for a second one to agree with it. */
typedef struct mold_suspect {
  uint64_t sequence;
  uint64_t to;
  uint64_t ts_recv;
  uint64_t arrived_ns;
  uint64_t len; /* 0: none waits */
  int line;
  uint8_t bytes[SD_MOLD_PACKET];
} mold_suspect;

struct sd_mold {
  sd_mold_options options;
  sd_mold_counts counts;
  mold_track track[SD_MOLD_LINES];
  sd_ranges gaps;
  mold_slot *slots;
  mold_packet *packets;
  uint32_t *free_packets;
  uint32_t free_count;
  uint64_t gap_to; /* the head gap is [next_sequence, gap_to); equal: there is none */
  uint64_t gap_since_ns;
  uint64_t high_since_ns;
  uint64_t end_sequence;          /* UINT64_MAX: not announced */
  mold_suspect suspect[SUSPECTS]; /* the latest ones, in turn */
  uint32_t suspects;              /* how many were set aside so far */

  uint8_t *out;
  uint64_t out_bytes;
  uint64_t out_used;
  sd_mold_run *runs;
  uint64_t run_capacity;
  uint64_t run_count;
  uint64_t realtime_ns;

  struct mold_sockets *sockets; /* mold_socket.c */
};

static inline mold_slot *mold_slot_of(const sd_mold *m, uint64_t sequence) {
  return &m->slots[sequence & (WINDOW - 1)];
}

static inline int mold_is_held(const sd_mold *m, uint64_t sequence) {
  const mold_slot *slot = mold_slot_of(m, sequence);
  return slot->sequence == sequence && slot->state == SLOT_HELD;
}

/* The suspect that has waited longest; NULL: none waits. */
static inline mold_suspect *mold_first_suspect(const sd_mold *m) {
  for (uint32_t i = 0; i < SUSPECTS; i++) {
    const mold_suspect *s = &m->suspect[(m->suspects + i) % SUSPECTS];
    if (s->len > 0) return (mold_suspect *)s;
  }
  return NULL;
}

/* How far messages that wait, or are known to be missing, may reach. */
static inline uint64_t mold_window_end(const sd_mold *m) {
  uint64_t next = m->counts.next_sequence;
  return m->counts.high - next < WINDOW ? m->counts.high : next + WINDOW;
}
