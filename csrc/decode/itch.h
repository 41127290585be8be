/* NASDAQ TotalView-ITCH 5.0: bytes in, ticks out.
 *
 * A stream is a row of frames: a big-endian u16 length, then the message. Some tools write 0 as the length of every
 * frame; the type then gives it. Field offsets follow Nasdaq's "TotalView-ITCH 5.0" specification.
 *
 * Called by one thread at a time; touches nothing but its arguments, and never a byte outside [buf, buf + len).
 *
 * What each message becomes (`locate` is the stock locate, `match` the match number):
 *
 *   type   action side       order_id size             price            ref_id  kind
 *   A F    A      B or A     order    shares           price            0       ORDER
 *   E      F      N          order    executed         none             match   ORDER
 *   C      F      N          order    executed         execution price  match   ORDER
 *   X      C      N          order    cancelled        none             0       ORDER
 *   D      C      N          order    0: all that is left  none         0       ORDER
 *   U      M      N          old      shares           price            new id  ORDER
 *   P      T      B or A     order    shares           price            match   TRADE
 *   Q      T      N          0        shares           cross price      match   TRADE
 *   H      N      N          0        0                none             reason  STATUS
 *   I      N      imbalance  0        paired shares    reference price  imbalance shares   STATUS
 *
 * `instrument_id` is the stock locate, `sequence` the message's position in the stream counted from 1 (messages that
 * make no tick count too), `ts_event` and `ts_recv` are both midnight_ns + the message's nanoseconds. Every other
 * type is checked and counted, and makes no tick; R also names a locate.
 */
#ifndef SD_DECODE_ITCH_H
#define SD_DECODE_ITCH_H

#include "sd_error.h"
#include "sd_tick.h"

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
  SD_ITCH_SIZE_CLIPPED = 0x08,  /* Q, I: the shares do not fit u32; size is UINT32_MAX */
  SD_ITCH_CROSS_OPENING = 0x10,
  SD_ITCH_CROSS_CLOSING = 0x20,
  SD_ITCH_CROSS_HALT = 0x30, /* of an IPO or after a halt */
  SD_ITCH_CROSS_INTRADAY = 0x40,
  SD_ITCH_CROSS_MASK = 0x70
};

/* Field `flags` of STATUS ticks: for H the trading state's letter (H halted, P paused, Q quotation only, T trading),
 * and ref_id the reason's four letters read as a big-endian number; for I this bit and the cross type's letter. */
enum { SD_ITCH_IMBALANCE = 0x80 };

/* Why a message could not be taken. */
enum {
  SD_ITCH_FAULT_NONE = 0,
  SD_ITCH_FAULT_TRUNCATED = 1,    /* the input ends inside a frame */
  SD_ITCH_FAULT_UNKNOWN_TYPE = 2, /* skippable when the frame has a length */
  SD_ITCH_FAULT_LENGTH = 3,       /* the frame's length is not the type's, or is absurd */
  SD_ITCH_FAULT_SIDE = 4,         /* skippable: a side other than B and S */
  SD_ITCH_FAULT_SYMBOL = 5,       /* skippable: a name that is not printable ASCII, or is empty */
  SD_ITCH_FAULT_RENAMED = 6       /* skippable: a locate that already has another name */
};

typedef struct sd_itch {
  /* Options. */
  uint64_t midnight_ns; /* the trading day's midnight in New York, ns since the UNIX epoch */
  uint32_t skip;        /* nonzero: pass over what is skippable and count it */

  /* Where the stream stands. */
  uint32_t prefixed; /* a frame with a true length was seen */
  uint64_t offset;   /* bytes consumed since the start */
  uint64_t messages; /* passed since the start, those skipped included */
  uint64_t ticks;    /* made since the start */
  uint64_t clipped;  /* ticks that carry SD_ITCH_SIZE_CLIPPED */
  uint64_t skipped_unknown_type;
  uint64_t skipped_bad_field;

  /* The last call. */
  uint64_t made;     /* ticks */
  uint64_t consumed; /* bytes of buf */

  /* The fault that ended the last call, if one did. */
  uint64_t fault_offset; /* of the frame, in bytes from the start of the stream */
  uint32_t fault;        /* SD_ITCH_FAULT_* */
  uint16_t fault_length; /* the frame's length field */
  uint8_t fault_type;
  uint8_t fault_value; /* the offending byte, where there is one */

  /* The directory. */
  uint32_t symbol_count; /* one above the highest locate that has a name */
  uint32_t symbol_names; /* locates that have a name */
  uint64_t counts[256];  /* messages by type, those skipped for a bad field left out */
  char symbols[SD_ITCH_LOCATES][SD_ITCH_SYMBOL_BYTES];
} sd_itch;

/* Ready for the first byte of a stream. */
void sd_itch_init(sd_itch *itch, uint64_t midnight_ns, uint32_t skip);

/* Takes whole messages from buf until it holds none, or `capacity` ticks are made. Sets itch->made and
 * itch->consumed; whatever is not consumed must lead the next call's buf. `last` says that nothing follows buf.
 *
 * SD_OK; SD_E_TRUNCATED when `last` and buf ends inside a frame; SD_E_FORMAT with itch->fault_* filled. The ticks of
 * all messages before the fault are in `ticks`, whatever the code. When made == capacity, call again with the rest. */
int sd_itch_decode(sd_itch *itch, const uint8_t *buf, uint64_t len, int last, sd_tick *ticks, uint64_t capacity);

/* Length of a message of this type in bytes, its length field apart; 0 for a type that ITCH 5.0 does not have. */
uint32_t sd_itch_length(uint8_t type);

#endif
