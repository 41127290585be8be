/* A stretch of an ITCH file taken by itself, from a guessed beginning, while another thread takes the one before it.
 *
 * What a frame becomes depends on what came before it in little: how many messages, and which locates are wanted. So a
 * stripe is decoded by a decoder of its own, which starts in the state its stream's decoder is expected to be in, and
 * that one adopts what it made where it turns out to stand exactly there. Where it does not, or where the stripe holds
 * anything that would have changed the state (a directory message, a fault), the stripe is refused and decoded in turn. So what comes out is what decoding in turn gives, whatever the bytes are.
 *
 * The descriptor is read with pread() only, so several threads may share it; all else is one thread's at a time. */
#ifndef SD_CODEC_ITCH_STRIPE_H
#define SD_CODEC_ITCH_STRIPE_H

#include "codec/itch/state.h"

enum {
  SD_ITCH_STRIPE_HEADROOM = 512, /* for what one piece leaves to the next: below SD_ITCH_MAX_FRAME */
  SD_ITCH_STRIPE_SEARCH = 4096,  /* a beginning is looked for in so many bytes */
  SD_ITCH_STRIPE_EVENTS = 4      /* events of the market that are handed on: with more a stripe is refused */
};

typedef struct sd_itch_stripe {
  /* The caller's. */
  uint64_t start;    /* byte of the file */
  uint64_t stop;     /* frames that begin before it are the stripe's */
  uint32_t exact;    /* nonzero: a frame begins at `start`, nothing has to be guessed */
  uint32_t refused;  /* set by sd_itch_stripe_take(): the rest says nothing */
  uint64_t capacity; /* of `ticks` */
  sd_tick *ticks;    /* numbered from 1 until they are adopted */

  /* What was found: whole frames in [begin, end), which ends early where the file does or `ticks` are full. */
  uint64_t begin;
  uint64_t end;
  uint64_t made;
  uint64_t messages;
  uint64_t unselected;
  uint64_t counts[256];
  uint32_t market_events;
  uint8_t market[SD_ITCH_STRIPE_EVENTS][SD_ITCH_MARKET_BYTES];
} sd_itch_stripe;

/* Makes `own`, zeros before the first time, a decoder of stripes of the stream that `itch` decodes, with a copy of all
 * that matters, SD_ITCH_LOCATES in `wanted`. To be called again where `itch` has changed, and after a stripe that was refused, which `own` may have
 * learnt from. Wants itch->selective, and no locate of it SD_ITCH_UNDECIDED. */
void sd_itch_stripe_follow(sd_itch *own, const sd_itch *itch, uint8_t *wanted);

/* Reads and decodes a stripe. `buffer`: SD_ITCH_STRIPE_HEADROOM bytes and then `piece`, at least SD_ITCH_MAX_FRAME; a piece
 * that stays in the core's own cache is the fastest. */
void sd_itch_stripe_take(sd_itch *own, int fd, sd_itch_stripe *stripe, uint8_t *buffer, uint64_t piece);

/* Whether `stripe` goes on where `itch` stands. If so, `itch` stands behind it, its counts hold the stripe's, and the
 * stripe's ticks have their numbers. */
int sd_itch_stripe_adopt(sd_itch *itch, const sd_itch_stripe *stripe);

#endif
