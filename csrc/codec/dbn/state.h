/* The state of a DBN stream, shared by its decoder's files: constants, options, places, counts and faults. */
#pragma once

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
/* cffi: end */
