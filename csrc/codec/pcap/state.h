/* The state of a capture, shared by its decoder's files: options, places, counts and faults. */
#pragma once

#include "codec/iex/iex.h"
#include "codec/itch/itch.h"

/* cffi: begin */
enum {
  SD_PCAP_MAX_RECORD = 262144 + 64, /* a longer record holds no packet of any network */
  SD_PCAP_INTERFACES = 64,
  SD_PCAP_HELD = 256,
  SD_PCAP_SESSION_BYTES = 10,
  SD_PCAP_SAMPLES = 32,
  SD_PCAP_FAULTS = 10
};

/* Why a record or a packet could not be taken. */
enum {
  SD_PCAP_FAULT_NONE = 0,
  SD_PCAP_FAULT_TRUNCATED = 1, /* the input ends inside a record */
  SD_PCAP_FAULT_RECORD = 2,    /* impossible lengths or marks in the file; a skipping reader searches on */
  SD_PCAP_FAULT_LINK = 3,      /* a link type that is not read, or an interface that was not described */
  SD_PCAP_FAULT_SNAPPED = 4,   /* the capture holds only a part of the packet */
  SD_PCAP_FAULT_PACKET =
      5, /* a packet on a chosen port that is not the transport's, or one of IEX-TP whose lengths do not fit */
  SD_PCAP_FAULT_SESSION = 6, /* a second session, or a second stream of it */
  SD_PCAP_FAULT_MESSAGE = 7, /* a message that is not as long as its type's */
  SD_PCAP_FAULT_CONTENT = 8, /* as the fault of itch or iex says */
  SD_PCAP_FAULT_ANEW = 9     /* of IEX-TP: the session began again with message 1, so numbers mean other messages */
};

typedef struct sd_pcap_sample {
  uint64_t offset;   /* of the record, in bytes from the start */
  uint64_t sequence; /* of the message, where there is one */
  uint32_t fault;
  uint32_t value; /* of FAULT_LINK the link type, of FAULT_MESSAGE the length, of FAULT_SNAPPED the bytes there are */
} sd_pcap_sample;

typedef struct sd_pcap_memory sd_pcap_memory; /* the current packet, and those that wait */

typedef struct sd_pcap_interface {
  uint32_t link;
  uint32_t shift; /* time in units of 2^-shift s, where it is not 0 */
  uint64_t times; /* else ns = time * times / over */
  uint64_t over;
  int64_t offset_s;
} sd_pcap_interface;

typedef struct sd_pcap {
  /* Options. */
  uint32_t skip;
  uint32_t selective;
  uint64_t start_ns; /* packets captured from this time on, */
  uint64_t span_ns;  /* for this long; UINT64_MAX: without end */
  uint32_t any_port;
  uint32_t blank_headers;  /* packets with blank session and sequence continue where the last one ended */
  uint64_t hold_ns;        /* how long the first waiting packet may wait */
  uint32_t hold;           /* how many packets may wait before a gap is given up, at most SD_PCAP_HELD */
  uint32_t session_known;  /* chosen, or learnt from the first packet */
  uint32_t session_chosen; /* other sessions are skipped without a count */
  uint8_t session[SD_PCAP_SESSION_BYTES];
  uint8_t ports[65536 / 8];
  /* Of the messages' decoders there is one: that says which transport is read. The caller owns it and keeps it longer than this. */
  sd_itch *itch; /* in MoldUDP64 */
  sd_iex *iex;   /* in IEX-TP */
  sd_pcap_memory *memory;

  /* Where the capture stands. */
  uint32_t kind; /* 0: not known yet, 1: pcap, 2: pcapng */
  uint32_t swapped;
  uint32_t interfaces;
  uint32_t lost; /* nonzero: the next record is being searched for */
  sd_pcap_interface interface[SD_PCAP_INTERFACES];
  uint64_t offset;
  uint64_t passing;                    /* bytes of an irrelevant block that are still to come */
  uint64_t first_ts;                   /* of the first record, ns since the epoch; 0: none yet */
  uint64_t ts;                         /* of the last */
  uint64_t sequence;                   /* the next message's; 0: no packet yet */
  uint64_t announced;                  /* the highest sequence that was announced as the next one */
  uint64_t stream;                     /* of IEX-TP: protocol << 32 | channel; 0: no packet yet */
  uint64_t sent;                       /* of IEX-TP: when the latest packet was sent, ns */
  uint32_t anew;                       /* of IEX-TP: the session began again */
  uint32_t named;                      /* the session of the last packet of IEX-TP, */
  uint8_t name[SD_PCAP_SESSION_BYTES]; /* in decimal; zeros: no packet yet */

  /* Counts. */
  uint64_t records;
  uint64_t other_packets; /* not UDP, or another port or protocol */
  uint64_t blank_packets; /* those that would be MoldUDP64 with messages, if blank headers were allowed */
  uint64_t iex_packets;   /* those that would be IEX-TP, where MoldUDP64 is read */
  uint64_t other_sessions;
  uint64_t fragments;
  uint64_t packets; /* of the transport, with messages */
  uint64_t heartbeats;
  uint64_t ends;
  uint64_t duplicates; /* packets that brought no new message */
  uint64_t held;       /* packets that had to wait */
  uint64_t gaps;
  uint64_t missing; /* messages */
  uint64_t ticks;
  uint64_t skipped_bytes;
  uint64_t skips[SD_PCAP_FAULTS];

  sd_pcap_sample fault; /* what ended the last call, if a fault did */

  /* Samples of what was skipped, and of gaps (fault 0: the first missing message, and how many as `value`). The caller takes them and
   * sets `sampled` to 0. */
  uint32_t sampled;
  sd_pcap_sample samples[SD_PCAP_SAMPLES];
} sd_pcap;
/* cffi: end */
