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
 *                     with the level as depth
 *   OHLCV             4      TRADE   T       N       open, high, low, close; the volume is the size of the close, 0 in
 *                     the others; depth 0 to 3
 *   status            1      STATUS  N       N       none     0          0          action | reason << 16 | event << 32
 *   imbalance         1      STATUS  N       its own ref      paired     0          total imbalance
 *   statistics        1      STATUS  N       N       price    quantity   0          statistic's type
 *
 * `sequence` is the record's own where it has one, else its position among the records, from 1. `flags` are the
 * record's; for status they are SD_DBN_TRADING and the like, for imbalance SD_DBN_IMBALANCE and the auction's letter,
 * for statistics SD_DBN_STATISTIC. Undefined prices stay undefined. Of ts_event and ts_recv one stands in for the other
 * where it is missing or undefined, 0 where both are. A bar's ts_recv is its end: nobody knows it sooner. An undefined
 * quantity is 0; one below 0 stays so.
 *
 * Definitions, errors and system messages are checked for their length, counted, and make no tick. A symbol mapping
 * ends the call behind it: the caller has to look at it.
 */
#ifndef SD_DECODE_DBN_H
#define SD_DECODE_DBN_H

#include "decode/dbn_instruments.h"
#include "sd_error.h"
#include "sd_tick.h"

enum {
  SD_DBN_MAX_RECORD = 255 * 4, /* the length is a byte, in words */
  SD_DBN_MAX_TICKS = 11,       /* of one record: ten levels and a trade */
  SD_DBN_LEVELS = 10,
  SD_DBN_HEADER = 16
};

/* Field `flags` of STATUS ticks and of bars. */
enum {
  SD_DBN_TRADING = 0x01,
  SD_DBN_QUOTING = 0x02,
  SD_DBN_SHORT_SELL_RESTRICTED = 0x04,
  SD_DBN_STATISTIC = 0x10,
  SD_DBN_IMBALANCE = 0x80
};

/* Flags of records with prices that cast doubt on them. */
enum { SD_DBN_MAYBE_BAD_BOOK = 0x04, SD_DBN_BAD_TS_RECV = 0x08, SD_DBN_SNAPSHOT = 0x20 };

/* Why a call ended: a fault, or something the caller has to see to before the next one. */
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
  uint32_t skip;     /* nonzero: pass over what is skippable and count it */
  uint32_t tail;     /* bytes behind each record: 8 with ts_out, else 0 */
  uint32_t levels;   /* of MBP-10 to make quotes of, 1 to SD_DBN_LEVELS */
  sd_dbn_instruments *instruments;

  /* Where the stream stands. */
  uint64_t offset;       /* bytes consumed since the first record */
  uint64_t records;      /* passed, those skipped included */
  uint64_t ticks;        /* made */
  uint64_t not_selected; /* ticks, or records of unwanted instruments, passed over */

  /* The last call. */
  uint64_t made;     /* ticks */
  uint64_t consumed; /* bytes of buf */

  /* What ended it. */
  uint64_t fault_offset; /* of the record, in bytes from the first record */
  uint64_t fault_time;   /* the record's index time, which says whose day it is */
  uint32_t fault_instrument;
  uint32_t fault_length; /* the record's, in bytes */
  uint8_t fault;         /* SD_DBN_FAULT_* or SD_DBN_STOP_* */
  uint8_t fault_type;
  uint8_t fault_value; /* the offending byte, where there is one */
  uint8_t full;        /* nothing but room was missing */
  uint8_t pad[4];

  uint64_t counts[256];       /* records by type, those skipped left out */
  uint64_t skipped[256];      /* records passed over, by SD_DBN_FAULT_* */
  uint64_t first_skipped[16]; /* offset of the first one of each */
  uint64_t doubtful_books;    /* records that ticks were made of, with the flag SD_DBN_MAYBE_BAD_BOOK, ... */
  uint64_t doubtful_times;    /* ... with SD_DBN_BAD_TS_RECV; every record of a snapshot has it, and none counts */
} sd_dbn;

/* Ready for the first record of a stream. Borrows `instruments`. */
void sd_dbn_init(sd_dbn *dbn, uint32_t version, sd_dbn_instruments *instruments);

/* Takes whole records from buf until it holds none, fewer than SD_DBN_MAX_TICKS of `capacity` are left, or something
 * ends the call. Sets dbn->made and dbn->consumed; what is not consumed must lead the next
 * call's buf. `last` says that nothing follows buf. `capacity` is at least SD_DBN_MAX_TICKS.
 *
 * SD_OK; SD_AGAIN for SD_DBN_STOP_*; SD_E_TRUNCATED or SD_E_FORMAT for a fault, with dbn->fault_* filled. The ticks of
 * all records before are in `ticks`, whatever the code. When dbn->full
 * is set, it ended for want of room: call again with the rest. */
int sd_dbn_decode(sd_dbn *dbn, const uint8_t *buf, uint64_t len, int last, sd_tick *ticks, uint64_t capacity);

#endif
