/* Cboe PITCH in text, as TCP sessions send it and historical files keep it: lines in, ticks out.
 *
 * A line is a message of fixed width in ASCII, ended by LF or CR LF; `S` may stand before it (a sequenced packet).
 * Field offsets follow Cboe's "US Equities TCP Depth of Book (PITCH)" specification. Times are ms since midnight, ids
 * 12 digits of base 36, prices 6 digits and 4 decimals.
 *
 * Called by one thread at a time; touches nothing but its arguments and its own memory, and never a byte outside
 * [buf, buf + len).
 *
 *   type   action side    order_id        size      price      ref_id      kind    flags
 *   A d    A      B or A  order           shares    price      0           ORDER   NON_DISPLAYED, ATTRIBUTED
 *   E      F      N       order           executed  none       execution   ORDER   0
 *   X      C      N       order           canceled  none       0           ORDER   0
 *   X of 0 N      N       order           0         none       0           ORDER   0
 *   s      R      N       0               0         none       0           ORDER   0: the symbol's orders are gone
 *   P r    T      B or A  order           shares    price      execution   TRADE   0
 *   B      N      N       0               0         none       execution   STATUS  BROKEN_TRADE
 *   H      N      N       0               0         none       Reg SHO     STATUS  the halt status's letter
 *   I      N      N       indicative      buy       reference  sell shares STATUS  AUCTION and the type's letter
 *   J      N      N       0               shares    price      type        STATUS  AUCTION_SUMMARY
 *   R      N      B or A  0               0         none       interest    STATUS  RETAIL_INTEREST; side N: both, none
 *
 * `instrument_id` counts symbols from 1 in the order they first come. E and X name only the order, whose symbol is
 * remembered until nothing is left of it; those of an order never added, and B, carry 0, the symbol without a name.
 * `sequence` is the line's number from 1.
 */
#pragma once

#include "codec/decoder.h"

/* cffi: begin */
enum {
  SD_PITCH_SYMBOLS = 65536, /* every instrument_id is below this */
  SD_PITCH_SYMBOL_BYTES = 8,
  SD_PITCH_MAX_LINE = 256, /* a longer line is no PITCH message */
  SD_PITCH_SAMPLES = 32,
  SD_PITCH_FAULTS = 6
};

/* Field `flags`. */
enum {
  SD_PITCH_NON_DISPLAYED = 0x01,
  SD_PITCH_ATTRIBUTED = 0x02, /* d: the order names its participant */
  SD_PITCH_RETAIL_INTEREST = 0x07,
  SD_PITCH_BROKEN_TRADE = 0x0A,
  SD_PITCH_AUCTION_SUMMARY = 0x0B,
  SD_PITCH_AUCTION = 0x80
};

/* By symbol, in a selection. */
enum { SD_PITCH_UNWANTED = 0, SD_PITCH_WANTED = 1, SD_PITCH_UNDECIDED = 2 };

/* Why a line could not be taken. All can be skipped: the next line is sound again. */
enum {
  SD_PITCH_FAULT_NONE = 0,
  SD_PITCH_FAULT_TRUNCATED = 1,    /* the input ends inside a line */
  SD_PITCH_FAULT_UNKNOWN_TYPE = 2, /* also: a line too short to have a type */
  SD_PITCH_FAULT_LENGTH = 3,       /* the line is not as long as its type's */
  SD_PITCH_FAULT_FIELD = 4,        /* an invalid digit, side or name */
  SD_PITCH_FAULT_SYMBOLS = 5       /* more than SD_PITCH_SYMBOLS - 1 symbols */
};

typedef struct sd_pitch_sample {
  uint64_t offset; /* of the line, in bytes from the start */
  uint64_t line;   /* from 1 */
  uint32_t fault;
  uint32_t column; /* of the field, from 0 at the line's start; where the fault is FIELD */
  uint8_t type;
  uint8_t length; /* of the line without its end, 255 where it is longer */
  uint8_t pad[6];
} sd_pitch_sample;

typedef struct sd_pitch_memory sd_pitch_memory; /* live orders, and the index of names */

typedef struct sd_pitch {
  /* Options. */
  uint64_t midnight_ns;
  uint32_t skip;
  uint32_t selective;
  uint64_t start_ns; /* ticks from this time on, */
  uint64_t span_ns;  /* for this long; UINT64_MAX: without end */
  sd_pitch_memory *memory;

  /* Where the stream stands. */
  uint64_t offset;
  uint64_t lines;
  uint64_t messages;
  uint64_t ticks;
  uint64_t unselected;
  uint64_t session_packets; /* heartbeats (H) and ends of session (Z) of one letter */
  uint64_t unknown_orders;  /* E and X of orders never added */
  uint64_t live_orders;
  uint64_t skips[SD_PITCH_FAULTS];
  uint64_t dropping; /* nonzero: inside a line that is skipped */

  uint32_t asked; /* the undecided symbol because of which the last call returned SD_AGAIN */

  /* Samples of what was skipped; the caller takes them and sets `sampled` to 0. */
  uint32_t sampled;
  sd_pitch_sample samples[SD_PITCH_SAMPLES];
  sd_pitch_sample fault; /* what ended the last call, if a fault did */

  uint32_t symbol_count; /* names[0] is the symbol without a name, so at least 1 */
  uint64_t counts[256];
  uint8_t wanted[SD_PITCH_SYMBOLS];
  char symbols[SD_PITCH_SYMBOLS][SD_PITCH_SYMBOL_BYTES]; /* padded with spaces */
} sd_pitch;

/* Prepares for the first byte. NULL: no memory. sd_pitch_free() takes NULL. */
sd_pitch *sd_pitch_new(uint64_t midnight_ns, uint32_t skip);
void sd_pitch_free(sd_pitch *pitch);

/* The decoder: `self` is an sd_pitch, and a line makes at most one tick. It leaves at most SD_PITCH_MAX_LINE bytes. SD_AGAIN: the symbol
 * `asked` is SD_PITCH_UNDECIDED; decide it. A fault fills `fault`. */
sd_decode sd_pitch_decode;

/* Bytes of a message of this type, without `S` and the line's end; 0 for a type that PITCH does not have. */
uint32_t sd_pitch_length(uint8_t type);
/* cffi: end */
