/* The state of an ITCH stream, shared by its decoder's files: constants, options, places, counts, faults and the directory. */
#pragma once

#include "codec/decoder.h"

/* cffi: begin */
enum {
  SD_ITCH_LOCATES = 65536,   /* a locate is a u16: every instrument_id is below this */
  SD_ITCH_SYMBOL_BYTES = 8,  /* a name is ASCII, padded with spaces on the right */
  SD_ITCH_MAX_MESSAGE = 256, /* a longer frame is no ITCH message of any version: the stream is out of step */
  SD_ITCH_MAX_FRAME = SD_ITCH_MAX_MESSAGE + 2
};

/* Field `flags` of ORDER and TRADE ticks. */
enum {
  SD_ITCH_NON_PRINTABLE = 0x01, /* C: leave it out of volume, a cross reports it again */
  SD_ITCH_ATTRIBUTED = 0x02,    /* F: the order names its market participant */
  SD_ITCH_CROSS = 0x04,         /* Q: bits 4 to 6 say which cross */
  SD_ITCH_CROSS_OPENING = 0x10,
  SD_ITCH_CROSS_CLOSING = 0x20,
  SD_ITCH_CROSS_HALT = 0x30, /* of an IPO or after a halt */
  SD_ITCH_CROSS_INTRADAY = 0x40,
  SD_ITCH_CROSS_MASK = 0x70
};

/* Field `flags` of STATUS ticks. For H the trading state's letter (H halted, P paused, Q quotation only, T trading),
 * and ref_id the reason's four letters read as a big-endian number; for I this bit and the cross type's letter; for the
 * others one of the small numbers, which are no letters. */
enum {
  SD_ITCH_IMBALANCE = 0x80,
  SD_ITCH_OPERATIONAL_HALT = 0x01,    /* h: on one market; ref_id holds the market's letter, then H */
  SD_ITCH_OPERATIONAL_RESUME = 0x02,  /* h: ref_id holds the market's letter, then T */
  SD_ITCH_REG_SHO = 0x03,             /* Y: ref_id is the letter 0 (none), 1 (in effect) or 2 (remains) */
  SD_ITCH_IPO_QUOTING = 0x04,         /* K: anticipated; ref_id is the release's second since midnight */
  SD_ITCH_IPO_CANCELED = 0x05,        /* K: canceled or postponed */
  SD_ITCH_LULD_COLLAR = 0x06,         /* J: of an auction after a limit up/limit down pause */
  SD_ITCH_RETAIL_INTEREST = 0x07,     /* N: ref_id is the letter B, S, A (both) or N (none) */
  SD_ITCH_DIRECT_LISTING = 0x08,      /* O: not yet eligible to be released; the allowed prices are not carried */
  SD_ITCH_DIRECT_LISTING_OPEN = 0x09, /* O: eligible */
  SD_ITCH_BROKEN_TRADE = 0x0A         /* B: the execution of that match number is void */
};

/* By locate, in a selection. */
enum { SD_ITCH_UNWANTED = 0, SD_ITCH_WANTED = 1, SD_ITCH_UNDECIDED = 2 };

enum {
  SD_ITCH_ATTRIBUTE_BYTES = 20, /* R from its market category on */
  SD_ITCH_MARKET_BYTES = 40,    /* enough for S, V or W, the longest of which has 35 */
  SD_ITCH_MARKET_EVENTS = 64,   /* a day has about a dozen */
  SD_ITCH_SAMPLES = 32,
  SD_ITCH_SYNC_FRAMES = 4,
  SD_ITCH_FAULTS = 8
};

/* A place that was skipped. */
typedef struct sd_itch_sample {
  uint64_t offset; /* of the frame, in bytes from the start of the stream */
  uint16_t length; /* its length field */
  uint8_t fault;   /* SD_ITCH_FAULT_* */
  uint8_t type;
  uint8_t value; /* the offending byte, where there is one */
  uint8_t pad[3];
} sd_itch_sample;

/* Why a message could not be taken. */
enum {
  SD_ITCH_FAULT_NONE = 0,
  SD_ITCH_FAULT_TRUNCATED = 1,    /* the input ends inside a frame */
  SD_ITCH_FAULT_UNKNOWN_TYPE = 2, /* skippable when the frame has a length */
  SD_ITCH_FAULT_LENGTH = 3,       /* the frame's length is not the type's, or is absurd */
  SD_ITCH_FAULT_SIDE = 4,         /* skippable: a side other than B and S */
  SD_ITCH_FAULT_SYMBOL = 5,       /* skippable: a name that is not printable ASCII, or is empty */
  SD_ITCH_FAULT_RENAMED = 6,      /* skippable: a locate that already has another name */
  SD_ITCH_FAULT_SIZE = 7          /* skippable: Q or I with more shares than a size holds */
};

typedef struct sd_itch {
  /* Options. */
  uint64_t midnight_ns; /* the trading day's midnight in New York, ns since the UNIX epoch */
  uint32_t skip;        /* nonzero: skip faults and count them */
  uint32_t selective;   /* nonzero: make ticks only of what the next three fields select */
  uint8_t *wanted;   /* SD_ITCH_LOCATES of SD_ITCH_WANTED and so on; the caller owns it and keeps it longer than this */
  uint64_t start_ns; /* ticks from this time on, */
  uint64_t span_ns;  /* for this long; UINT64_MAX: without end */
  uint8_t *attributes; /* SD_ITCH_LOCATES x SD_ITCH_ATTRIBUTE_BYTES, zeros at first, or NULL; likewise */

  /* Where the stream stands. */
  uint32_t prefixed;   /* a frame with a true length was seen */
  uint64_t offset;     /* bytes consumed since the start */
  uint64_t messages;   /* passed since the start, those skipped included */
  uint64_t ticks;      /* made since the start */
  uint64_t unselected; /* ticks not made because they are not wanted */
  uint64_t skipped_unknown_type;
  uint64_t skipped_bad_field;
  uint64_t skipped_bytes;         /* skipped in search of the next sound frame */
  uint64_t skips[SD_ITCH_FAULTS]; /* by fault */
  uint64_t lost;                  /* nonzero: searching */
  uint64_t clear_ns;              /* the time of the new day under way */
  uint64_t clear_sequence;        /* the sequence of its message */
  uint32_t clear_from;            /* the locate from which clear records are still to be made; 0: none are */

  uint32_t asked; /* the undecided locate because of which the last call returned SD_AGAIN */

  /* Samples of what was skipped; the caller takes them and sets `sampled` to 0. */
  uint32_t sampled;
  sd_itch_sample samples[SD_ITCH_SAMPLES];

  /* The fault that ended the last call, if one did. */
  uint64_t fault_offset; /* of the frame, in bytes from the start of the stream */
  uint32_t fault;        /* SD_ITCH_FAULT_* */
  uint16_t fault_length; /* the frame's length field */
  uint8_t fault_type;
  uint8_t fault_value; /* the offending byte, where there is one */

  /* The directory. */
  uint32_t symbol_count;  /* one above the highest locate that has a name */
  uint32_t symbol_names;  /* locates that have a name */
  uint32_t undecided;     /* locates set to SD_ITCH_UNDECIDED; the caller, having decided them, sets it to 0 */
  uint64_t counts[256];   /* messages by type, those skipped for a bad field left out */
  uint32_t market_events; /* S, V and W seen; the first SD_ITCH_MARKET_EVENTS are kept */
  uint8_t market[SD_ITCH_MARKET_EVENTS][SD_ITCH_MARKET_BYTES];
  char symbols[SD_ITCH_LOCATES][SD_ITCH_SYMBOL_BYTES];
} sd_itch;
/* cffi: end */
