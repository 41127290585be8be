/* Databento Binary Encoding, versions 1 to 3: the records behind a file's metadata, bytes in, ticks out.
 *
 * A record is a header of 16 bytes (length in words of 4 bytes, record type, publisher u16, instrument u32, venue time
 * u64), then its fields, all little-endian. Layouts follow Databento's "DBN" documentation of standards and schemas.
 * With `ts_out` every record ends with the 8 bytes of the time it was sent at, which are passed over.
 *
 * Called by one thread at a time; touches nothing but its arguments, and never a byte outside [buf, buf + len).
 *
 * What each record becomes; `bid` and `ask` are those of the record's best level:
 *
 *   record            ticks  kind    action  side    price    size       order_id   ref_id
 *   MBO A C M R F     1      ORDER   its own its own price    size       order      0
 *   MBO T             1      TRADE   T       its own price    size       order      0
 *   MBO N             1      NONE    N       its own price    size       order      0
 *   trades            1      TRADE   T       its own price    size       0          0
 *   MBP-1, CMBP-1,    1      QUOTE   its own N       bid      bid size   ask price  ask size
 *   TBBO, TCBBO       and, where the action is T, a TRADE like that of a trades record behind it
 *   BBO, CBBO         1      QUOTE   N       N       bid      bid size   ask price  ask size
 *   MBP-10            as MBP-1, a QUOTE for each of the first `levels` levels that either side has, the first always,
 *                     with the level as depth; of these only the last one has the record's flag 0x80 for the end of an event
 *   OHLCV             4      TRADE   T       N       open, high, low, close; the volume is the size of the close, 0 in
 *                     the others; depth 0 to 3
 *   status            1      STATUS  N       N       none     0          0          action | reason << 16 | event << 32
 *   imbalance         1      STATUS  N       its own ref      paired     0          total imbalance
 *   statistics        1      STATUS  N       N       price    quantity   0          statistic's type
 *
 * `sequence` is the record's own where it has one, else its position among the records, from 1. `flags` are the
 * record's; for status they are SD_DBN_TRADING and the like, for imbalance SD_DBN_IMBALANCE and the auction's letter,
 * for statistics SD_DBN_STATISTIC. Undefined prices stay undefined. If one of
 * ts_event and ts_recv is missing or undefined, the other one replaces it; if both are, they are 0. A bar's ts_recv is its end, because
 * nobody knows the bar sooner. An undefined quantity is 0; a negative one stays negative.
 *
 * Before a record whose name belonged to another instrument, there is a STATUS tick with action R, as before a new day: at the record's
 * receive time, without price and size. A name that belongs to two instruments at one time has none.
 *
 * Definitions, errors and system messages are checked for their length, counted, and make no tick. A symbol mapping
 * ends the call right after it, so that the caller can look at it.
 */
#ifndef SD_CODEC_DBN_DBN_H
#define SD_CODEC_DBN_DBN_H

#include "codec/dbn/instruments.h"
#include "codec/decoder.h"

/* cffi: begin */
enum {
  SD_DBN_MAX_RECORD = 255 * 4, /* the length is a byte, in words */
  SD_DBN_MAX_TICKS = 12,       /* from one record: the end of a rolled contract, ten levels and a trade */
  SD_DBN_LEVELS = 10,
  SD_DBN_HEADER = 16,
  SD_DBN_FAULTS = 9
};

/* Field `flags` of STATUS ticks and of bars. */
enum {
  SD_DBN_TRADING = 0x01,
  SD_DBN_QUOTING = 0x02,
  SD_DBN_SHORT_SELL_RESTRICTED = 0x04,
  SD_DBN_STATISTIC = 0x10,
  SD_DBN_IMBALANCE = 0x80
};
/* cffi: end */

/* Flags by which a record casts doubt on its prices. */
enum { SD_DBN_MAYBE_BAD_BOOK = 0x04, SD_DBN_BAD_TS_RECV = 0x08, SD_DBN_SNAPSHOT = 0x20 };
/* The last record of an event for an instrument. */
enum { SD_DBN_LAST = 0x80 };

/* cffi: begin */
/* Why a call ended: a fault, or a question that the caller has to answer before the next one. */
enum {
  SD_DBN_FAULT_NONE = 0,
  SD_DBN_FAULT_TRUNCATED = 1,    /* the input ends inside a record */
  SD_DBN_FAULT_OUT_OF_STEP = 2,  /* the length is less than a header's */
  SD_DBN_FAULT_LENGTH = 3,       /* skippable: the length is not the type's */
  SD_DBN_FAULT_UNKNOWN_TYPE = 4, /* skippable */
  SD_DBN_FAULT_ACTION = 5,       /* skippable: a letter that is no action */
  SD_DBN_FAULT_SIDE = 6,         /* skippable: a letter that is no side */
  SD_DBN_FAULT_TIME = 7,         /* skippable: a time that no tick holds */
  SD_DBN_FAULT_SIZE = 8,         /* skippable: a bar's volume that no size holds */
  SD_DBN_STOP_INSTRUMENT = 16,   /* no entry for fault_instrument at fault_time: add one, the record is not consumed */
  SD_DBN_STOP_MAPPING = 17       /* the record just consumed is a symbol mapping */
};

typedef struct sd_dbn {
  /* Options. */
  uint64_t start_ns; /* ticks received before are not made */
  uint64_t last_ns;  /* nor those received after */
  uint32_t version;  /* 1 to 3 */
  uint32_t skip;     /* nonzero: skip what is skippable and count it */
  uint32_t tail;     /* bytes behind each record: 8 with ts_out, else 0 */
  uint32_t levels;   /* levels of MBP-10 that become quotes, 1 to SD_DBN_LEVELS */
  sd_dbn_instruments *instruments;

  /* Where the stream stands. */
  uint64_t offset;       /* bytes consumed since the first record */
  uint64_t records;      /* passed, those skipped included */
  uint64_t ticks;        /* made */
  uint64_t not_selected; /* ticks, or records of unwanted instruments, that were skipped */

  /* What ended the last call. */
  uint64_t fault_offset; /* of the record, in bytes from the first record */
  uint64_t fault_time;   /* the record's index time, which says to which day it belongs */
  uint32_t fault_instrument;
  uint32_t fault_length; /* the record's, in bytes */
  uint8_t fault;         /* SD_DBN_FAULT_* or SD_DBN_STOP_* */
  uint8_t fault_type;
  uint8_t fault_value; /* the offending byte, where there is one */
  uint8_t pad;
  uint32_t sampled; /* records were skipped; the caller looks at the samples and then sets it to 0 */

  uint64_t counts[256];                /* records by type, those skipped left out */
  uint64_t skips[SD_DBN_FAULTS];       /* records skipped, by SD_DBN_FAULT_* */
  uint64_t first_skips[SD_DBN_FAULTS]; /* offset of the first one of each */
  uint64_t doubtful_books;             /* records that ticks were made of, with the flag SD_DBN_MAYBE_BAD_BOOK, ... */
  uint64_t doubtful_times; /* ... with SD_DBN_BAD_TS_RECV; all records of snapshots have it, and are not counted */
  uint64_t mixed_quotes;   /* quotes of one publisher that took the place of another's, under the same name */

  /* Names that went over from one instrument to another; and the first of them. */
  uint64_t rolls;
  int64_t roll_time; /* the first tick's ts_recv */
  uint32_t roll_key, roll_from, roll_to;

  uint32_t latest_id; /* of the latest tick, with its key: the same again is no roll */
  uint32_t latest_key;
} sd_dbn;

/* Prepares for the first record of a stream. Borrows `instruments`. */
void sd_dbn_init(sd_dbn *dbn, uint32_t version, sd_dbn_instruments *instruments);

/* The decoder: `self` is an sd_dbn, and a record makes at most SD_DBN_MAX_TICKS ticks. SD_AGAIN: the caller has to answer SD_DBN_STOP_*.
 * That and a fault fill dbn->fault_*. */
sd_decode sd_dbn_decode;
/* cffi: end */

#endif
