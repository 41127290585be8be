/* Messages of IEX's feeds TOPS 1.5 and 1.6, DEEP 1.0 and DEEP+ 1.0: messages with their lengths in, ticks out.
 *
 * A message is a length of 2 bytes, little-endian as all fields, and so many bytes, the first of which is the type. Offsets follow IEX's
 * "TOPS", "DEEP" and "DEEP+" specifications. A type has one meaning in all of them. Times are ns since the UNIX epoch, prices have 4 decimals,
 * and names 8 bytes, padded with blanks.
 *
 * IEX may add types, and bytes behind the known ones of a type: unknown types are passed over and counted, and so are longer messages, of
 * which the known part is read.
 *
 * Called by one thread at a time; touches nothing but its arguments and its own memory, and never a byte outside [at, at + left).
 *
 *   type   action side    order_id    price      size          ref_id            kind    flags
 *   Q      M      N       ask price   bid price  bid size      ask size          QUOTE   as sent
 *   8 5    M      B A     0           level      size, or 0    0                 QUOTE   COMPLETE
 *   a      A      B A     order       limit      shares        0                 ORDER   0
 *   M      M      N       order       limit      shares left   the order if it   ORDER   KEEPS_PRIORITY
 *                                                              loses its place
 *   R      C      N       order       none       0: all        0                 ORDER   0
 *   L      F      N       order       trade      executed      trade             ORDER   as sent
 *   C      R      N       0           none       0             0                 ORDER   0
 *   T      T      N       0           trade      shares        trade             TRADE   as sent
 *   B      N      N       0           trade      shares        trade             STATUS  BROKEN_TRADE
 *   A      N      B A N   indicative  reference  paired        imbalance         STATUS  AUCTION and the type's letter
 *   H      N      N       0           none       0             reason            STATUS  the letter
 *   O      N      N       0           none       0             letter            STATUS  OPERATIONAL_HALT or _RESUME
 *   P      N      N       detail      none       0             '0' or '1'        STATUS  SHORT_SALE_TEST
 *   I      N      B A N   0           none       0             letter            STATUS  RETAIL_INTEREST
 *   X      N      N       0           official   0             letter            STATUS  OFFICIAL_PRICE
 *   E      N      N       0           none       0             letter            STATUS  SECURITY_EVENT
 *   D      N      N       LULD tier   closing    round lot     flags             STATUS  DIRECTORY
 *
 * `instrument_id` counts symbols from 1 in the order in which they first come. S, about the market as a whole, makes no tick: it is kept. `sequence` is the
 * message's number from 1. Here ts_recv is ts_event; who knows better writes it.
 */
#pragma once

#include "codec/decoder.h"

/* cffi: begin */
enum {
  SD_IEX_SYMBOLS = 65536, /* every instrument_id is below this */
  SD_IEX_SYMBOL_BYTES = 8,
  SD_IEX_MAX_MESSAGE = 65535 + 2, /* with its length */
  SD_IEX_SAMPLES = 32,
  SD_IEX_EVENTS = 64, /* of the market; a day has six */
  SD_IEX_FAULTS = 6
};

/* Field `flags` of quotes, orders and trades. */
enum {
  SD_IEX_COMPLETE = 0x01,       /* levels: the event has ended */
  SD_IEX_KEEPS_PRIORITY = 0x01, /* M: the order keeps its place */
  SD_IEX_CROSS = 0x08,          /* trades: of a single-price cross */
  SD_IEX_THROUGH_EXEMPT = 0x10, /* trades: not subject to Rule 611 */
  SD_IEX_ODD_LOT = 0x20,        /* trades */
  SD_IEX_EXTENDED_HOURS = 0x40, /* trades and quotes: before or after the regular session */
  SD_IEX_SWEEP = 0x80,          /* trades: of an intermarket sweep order */
  SD_IEX_UNAVAILABLE = 0x80     /* quotes: the symbol is halted, paused or not traded */
};

/* Field `flags` of STATUS ticks, where it is no letter. */
enum {
  SD_IEX_OPERATIONAL_HALT = 0x01,
  SD_IEX_OPERATIONAL_RESUME = 0x02,
  SD_IEX_SHORT_SALE_TEST = 0x03,
  SD_IEX_RETAIL_INTEREST = 0x07,
  SD_IEX_BROKEN_TRADE = 0x0A,
  SD_IEX_OFFICIAL_PRICE = 0x0C,
  SD_IEX_SECURITY_EVENT = 0x0D,
  SD_IEX_DIRECTORY = 0x0E,
  SD_IEX_AUCTION = 0x80
};

/* By symbol, in a selection. */
enum { SD_IEX_UNWANTED = 0, SD_IEX_WANTED = 1, SD_IEX_UNDECIDED = 2 };

/* Why a message could not be taken. All but TRUNCATED can be skipped. */
enum {
  SD_IEX_FAULT_NONE = 0,
  SD_IEX_FAULT_TRUNCATED = 1,    /* the input ends inside a message */
  SD_IEX_FAULT_UNKNOWN_TYPE = 2, /* no error: passed over and counted */
  SD_IEX_FAULT_LENGTH = 3,       /* shorter than its type's messages */
  SD_IEX_FAULT_FIELD = 4,        /* a price that no tick holds, a side, a name */
  SD_IEX_FAULT_SYMBOLS = 5       /* more than SD_IEX_SYMBOLS - 1 symbols */
};

typedef struct sd_iex_sample {
  uint64_t offset;  /* of the message, in bytes from the start */
  uint64_t message; /* its number */
  uint32_t fault;
  uint32_t length; /* of the message, or where in it the field is */
  uint8_t type;
  uint8_t pad[7];
} sd_iex_sample;

/* An event of the market. */
typedef struct sd_iex_event {
  int64_t ts;
  uint64_t letter;
} sd_iex_event;

typedef struct sd_iex_memory sd_iex_memory; /* the index of names */

typedef struct sd_iex {
  /* Options. */
  uint32_t skip;
  uint32_t selective;
  uint32_t passes; /* nonzero: messages are read and make no ticks */
  uint32_t asked;  /* the undecided symbol because of which the last call returned SD_AGAIN */
  sd_iex_memory *memory;

  /* Where the stream stands. */
  uint64_t offset;
  uint64_t messages; /* the number of the last one */
  uint64_t ticks;
  uint64_t unselected;
  uint64_t grown; /* messages longer than their type's */
  uint64_t skips[SD_IEX_FAULTS];

  /* Samples of what was passed over; the caller takes them and sets `sampled` to 0. */
  uint32_t sampled;
  uint32_t symbol_count; /* symbols[0] is the one without a name, so at least 1 */
  sd_iex_sample samples[SD_IEX_SAMPLES];
  sd_iex_sample fault; /* what ended the last call, if a fault did */

  uint64_t market_events; /* messages S, of which the first are kept */
  sd_iex_event market[SD_IEX_EVENTS];

  uint64_t counts[256];
  uint8_t wanted[SD_IEX_SYMBOLS];
  char symbols[SD_IEX_SYMBOLS][SD_IEX_SYMBOL_BYTES]; /* padded with spaces */
} sd_iex;

/* Prepares for the first byte. NULL: no memory. sd_iex_free() takes NULL. */
sd_iex *sd_iex_new(uint32_t skip);
void sd_iex_free(sd_iex *iex);

/* The decoder: `self` is an sd_iex, and a message makes at most one tick. It leaves fewer than SD_IEX_MAX_MESSAGE bytes. SD_AGAIN: the
 * symbol `asked` is SD_IEX_UNDECIDED; decide it. A fault fills `fault`. */
sd_decode sd_iex_decode;

/* The least bytes of a message of this type; 0: no such type is known. */
uint32_t sd_iex_length(uint8_t type);
/* cffi: end */
