/* A stretch of an ITCH file, decoded by itself from a guessed beginning, while another thread decodes the one before it.
 *
 * What a frame becomes depends on what came before it in only two ways: how many messages, and which locates are wanted. So a stripe has
 * its own decoder, which starts in the state that the stream's decoder is expected to be in. The stream's decoder adopts the result if it
 * turns out to stand exactly there. If it does not, or if the stripe has anything that would have changed the state (a directory message,
 * a fault), the stripe is refused and decoded in turn. So the result is that of decoding in turn, whatever the bytes are.
 *
 * The descriptor is read only with pread(), so several threads may share it; everything else belongs to one thread at a time. */
#pragma once

#include "codec/itch/state.h"

/* cffi: begin */
enum {
  SD_ITCH_STRIPE_HEADROOM = 512, /* for what one piece leaves to the next: below SD_ITCH_MAX_FRAME */
  SD_ITCH_STRIPE_SEARCH = 4096,  /* the beginning of a frame is searched for in this many bytes */
  SD_ITCH_STRIPE_EVENTS = 4      /* market events that a stripe passes on; a stripe with more is refused */
};

typedef struct sd_itch_stripe {
  /* written by the caller */
  uint64_t start;    /* byte of the file */
  uint64_t stop;     /* frames that begin before it belong to the stripe */
  uint32_t exact;    /* nonzero: a frame begins at `start`, and nothing has to be guessed */
  uint32_t refused;  /* set by sd_itch_stripe_take(): the other fields mean nothing */
  uint64_t capacity; /* of `ticks` */
  sd_tick *ticks;    /* numbered from 1 until they are adopted */

  /* the result: whole frames in [begin, end), which ends early if the file does or `ticks` is full */
  uint64_t begin;
  uint64_t end;
  uint64_t made;
  uint64_t messages;
  uint64_t unselected;
  uint64_t counts[256];
  uint32_t market_events;
  uint8_t market[SD_ITCH_STRIPE_EVENTS][SD_ITCH_MARKET_BYTES];
} sd_itch_stripe;

/* Makes `own` a decoder of stripes of the stream that `itch` decodes, with a copy of everything that matters and SD_ITCH_LOCATES in
 * `wanted`. `own` is zeros before the first call. Call it again after `itch` has changed, and after a refused stripe, because `own` may
 * have learnt from that stripe. Needs itch->selective, and no locate may be SD_ITCH_UNDECIDED. */
void sd_itch_stripe_follow(sd_itch *own, const sd_itch *itch, uint8_t *wanted);

/* Reads and decodes a stripe. `buffer` has SD_ITCH_STRIPE_HEADROOM bytes and then `piece` bytes, at least SD_ITCH_MAX_FRAME; a piece that
 * stays in the core's own cache is fastest. */
void sd_itch_stripe_take(sd_itch *own, int fd, sd_itch_stripe *stripe, uint8_t *buffer, uint64_t piece);

/* Whether `stripe` begins where `itch` stands. If so, it moves `itch` behind the stripe, adds the stripe's counts, and numbers the
 * stripe's ticks. */
int sd_itch_stripe_adopt(sd_itch *itch, const sd_itch_stripe *stripe);
/* cffi: end */
