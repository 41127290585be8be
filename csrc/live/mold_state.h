/* What mold.c, mold_look.c and mold_socket.c share of a receiver. */
#ifndef SD_LIVE_MOLD_STATE_H
#define SD_LIVE_MOLD_STATE_H

#include "live/mold.h"

#define WINDOW ((uint64_t)SD_MOLD_WINDOW)

enum { SLOT_FREE = 0, SLOT_HELD = 1 };

typedef struct mold_slot {
  uint64_t sequence; /* the one it was last used for */
  uint32_t packet;
  uint16_t at; /* of the block, in the packet */
  uint16_t state;
} mold_slot;

typedef struct mold_packet {
  uint64_t ts_recv;
  uint64_t arrived_ns;
  uint32_t users; /* messages held in it */
  uint8_t bytes[SD_MOLD_PACKET];
} mold_packet;

typedef struct mold_track {
  uint64_t *seen; /* a bit a sequence from `floor` on, SD_MOLD_WINDOW of them */
  uint64_t floor; /* all before it is decided */
  uint64_t high;  /* one above the highest the line has shown */
  sd_ranges gaps;
  int fd;
  uint32_t drops_seen; /* the kernel's counter, which wraps */
  uint32_t heard_end;
} mold_track;

/* Two, so that a hostile packet between two that agree does not part them. */
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
  uint64_t gap_to; /* the head gap is [next_sequence, gap_to); none: equal */
  uint64_t gap_since_ns;
  uint64_t high_since_ns;
  uint64_t end_sequence;          /* UINT64_MAX: not heard of */
  mold_suspect suspect[SUSPECTS]; /* the latest ones, by their turn */
  uint32_t suspects;              /* set aside so far */

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

/* The one that has waited longest; NULL: none waits. */
static inline mold_suspect *mold_first_suspect(const sd_mold *m) {
  for (uint32_t i = 0; i < SUSPECTS; i++) {
    const mold_suspect *s = &m->suspect[(m->suspects + i) % SUSPECTS];
    if (s->len > 0) return (mold_suspect *)s;
  }
  return NULL;
}

/* How far what is held, or known to be missing, may reach. */
static inline uint64_t mold_window_end(const sd_mold *m) {
  uint64_t next = m->counts.next_sequence;
  return m->counts.high - next < WINDOW ? m->counts.high : next + WINDOW;
}

/* mold_socket.c; NULL where there is no memory or no descriptor left. */
struct mold_sockets *sd_mold_sockets_new(void);
void sd_mold_sockets_free(struct mold_sockets *s);

#endif
