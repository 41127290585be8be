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

#include "live/mold_packet.h"
#include "live/ranges.h"
#include "sd_error.h"
#include "sd_tick.h"

/* Smaller ones let a fuzzer come to their ends. */
#ifndef SD_MOLD_WINDOW_LOG2
#define SD_MOLD_WINDOW_LOG2 18
#define SD_MOLD_HELD_PACKETS_LOG2 12
#endif

enum {
  SD_MOLD_LINES = 3, /* A, B, and what the re-request server answers */
  SD_MOLD_REPLIES = 2,
  SD_MOLD_WINDOW = 1 << SD_MOLD_WINDOW_LOG2,             /* messages between the next one and the last one held */
  SD_MOLD_HELD_PACKETS = 1 << SD_MOLD_HELD_PACKETS_LOG2, /* packets held, of SD_MOLD_PACKET bytes each */
  SD_MOLD_LATENCY_BUCKETS = 656                          /* as sd_bucket_of() has them */
};

typedef struct sd_mold_options {
  uint64_t first_sequence;   /* what is before it is not wanted; 0: from the first packet heard */
  uint64_t message_limit;    /* messages to deliver; 0: no limit */
  uint64_t gap_timeout_ns;   /* how long a gap may stay */
  uint64_t request_after_ns; /* how old a gap must be before it is asked for, and between two requests */
  uint64_t jump_window;      /* how far beyond what was heard one packet alone is believed */
  uint32_t stop_at_gap;      /* nothing behind the first gap that stays is delivered */
  uint32_t any_session;      /* 0: `session` is the one to follow */
  uint8_t session[SD_MOLD_SESSION];
} sd_mold_options;

/* Messages: messages = first + duplicates + late + unwanted. */
typedef struct sd_mold_line {
  uint64_t packets; /* with messages */
  uint64_t messages;
  uint64_t first;      /* taken from this line */
  uint64_t duplicates; /* another copy came before */
  uint64_t late;       /* came after they had been given up */
  uint64_t unwanted;   /* before first_sequence, or after the message limit */
  uint64_t heartbeats;
  uint64_t malformed;     /* packets that are no MoldUDP64, or whose sequence no tick holds */
  uint64_t jumps;         /* packets set aside: too far from all that was heard, and no other agreed when they came */
  uint64_t other_session; /* packets */
  uint64_t overflowed;    /* packets for which there was no room */
  uint64_t kernel_drops;  /* packets the socket had no room for */
  uint64_t receive_bytes; /* size of the socket's buffer */
  uint64_t gap_count;
  uint64_t gap_messages;
  uint64_t gaps_unlisted;
} sd_mold_line;

typedef struct sd_mold_counts {
  uint64_t delivered;      /* messages, in order */
  uint64_t first_sequence; /* that delivery begins with: the one that was asked for, or the first one heard */
  uint64_t next_sequence;
  uint64_t high; /* one above the highest sequence heard of */
  uint64_t held; /* messages in the window */
  uint64_t most_held;
  uint64_t gap_count; /* given up */
  uint64_t gap_messages;
  uint64_t gaps_unlisted;
  uint64_t requests;
  uint64_t requested_messages;
  uint64_t forced;         /* gaps given up before their time, for want of room */
  uint64_t jumps_believed; /* a second packet agreed with one that was set aside */
  uint32_t started;
  uint32_t ended; /* the session's end, or the limit, was reached and everything before it is delivered or given up */
  uint32_t session_changed;
  uint32_t stopped_at_gap;
  uint8_t session[SD_MOLD_SESSION];
  uint8_t new_session[SD_MOLD_SESSION];
  sd_mold_line line[SD_MOLD_LINES];
  uint64_t latency[SD_MOLD_LATENCY_BUCKETS]; /* ns from the kernel's receipt to delivery, a message each */
} sd_mold_counts;

/* Messages that came in one packet, in a row: `position` counts delivered messages from 1. */
typedef struct sd_mold_run {
  uint64_t position;
  uint64_t sequence;
  uint64_t ts_recv; /* ns since the epoch, by the kernel's clock */
} sd_mold_run;

typedef struct sd_mold sd_mold;

/* NULL where there is no memory or no descriptor; first_sequence is at most SD_MOLD_SEQUENCE_MAX. */
sd_mold *sd_mold_new(const sd_mold_options *options);
void sd_mold_free(sd_mold *m);
const sd_mold_counts *sd_mold_look(sd_mold *m);

/* Where what is delivered goes until the next call: bytes of frames, and runs. What did not fit before goes first. */
void sd_mold_output(sd_mold *m, uint8_t *out, uint64_t out_bytes, sd_mold_run *runs, uint64_t run_capacity,
                    uint64_t realtime_ns);
uint64_t sd_mold_out_bytes(const sd_mold *m);
uint64_t sd_mold_out_runs(const sd_mold *m);
/* Whether any packet's messages would still fit. */
int sd_mold_has_room(const sd_mold *m);

/* A packet of `line`; `now_ns` is a clock that does not jump. */
void sd_mold_take(sd_mold *m, int line, const uint8_t *packet, uint64_t len, uint64_t ts_recv, uint64_t now_ns);
/* Begins with the first packet where that has waited for its time, gives up what is due, and delivers. */
void sd_mold_tick(sd_mold *m, uint64_t now_ns);
/* When the oldest gap is given up, or delivery begins with the first packet alone; UINT64_MAX: neither. */
uint64_t sd_mold_deadline(const sd_mold *m);
/* What is missing from `from` on up to the next message held; empty: nothing is known to be missing there. */
sd_range sd_mold_hole_at(const sd_mold *m, uint64_t from);
/* Gaps of at least `request_after_ns`: up to `capacity`, the first ones. */
uint64_t sd_mold_holes(sd_mold *m, uint64_t now_ns, sd_range *holes, uint64_t capacity);
/* No more will come: gaps are given up, what is held is delivered as far as there is room. SD_AGAIN: there was not. */
int sd_mold_finish(sd_mold *m);

/* Given up for good (-1), or missed on a line. */
const sd_range *sd_mold_gaps(const sd_mold *m, int line, uint64_t *count);

/* ts_recv and sequence of ticks that a decoder numbered by position - `shift`; runs and ticks in rising order. */
void sd_mold_stamp(sd_tick *ticks, uint64_t count, const sd_mold_run *runs, uint64_t run_count, uint64_t shift);

/* ---- sockets (mold_socket.c) */

/* Says that the line exists, for what it missed to be listed, and receives it on this socket, which is made non-blocking
 * and timestamped; it stays the caller's. Negative errno. */
int sd_mold_attach(sd_mold *m, int line, int fd, uint32_t receive_bytes);
/* Requests go from the socket of SD_MOLD_REPLIES to this IPv4 address (both in network order). */
void sd_mold_rerequest(sd_mold *m, uint32_t address, uint16_t port);
/* Receives until something was delivered and nothing more has arrived, the output is full, the session ended or
 * changed, sd_mold_wake() was called, or `timeout_ns` has passed. SD_OK, or a negative errno. */
int sd_mold_poll(sd_mold *m, uint8_t *out, uint64_t out_bytes, sd_mold_run *runs, uint64_t run_capacity,
                 uint64_t timeout_ns);
/* Ends the sd_mold_poll() under way, or the next one. Any thread. */
void sd_mold_wake(sd_mold *m);

#endif
