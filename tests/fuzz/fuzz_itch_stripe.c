/* Any bytes in stripes of any length, begun anywhere: a decoder that adopts those that fit and decodes the rest in turn
 * says the same as one that decodes all in turn, and a stripe's decoder writes no tick beyond its room.
 *
 * The input's first four bytes choose: skip and span of times, bytes a stripe, bytes a piece, ticks a stripe. The rest
 * is the file.
 *
 * fuzz-sources: base/clock.c codec/blocks.c codec/itch/itch.c codec/itch/rare.c codec/itch/sync.c codec/itch/stripe.c */
#define _GNU_SOURCE
#define SD_ITCH_STRETCH 96
#define SD_ITCH_HITS 3
#include "codec/itch/skim.c"

#include "codec/itch/itch.h"
#include "codec/itch/stripe.h"

#include <sys/mman.h>
#include <unistd.h>

#include "fuzz.h"

enum { MAX_TICKS = 4096, MIN_FRAME = 14 };

static uint8_t wanted[3][SD_ITCH_LOCATES];

static void restart(sd_itch *itch, uint32_t how, uint8_t *mine) {
  memset(itch->symbols, 0, sizeof itch->symbols);
  sd_itch_init(itch, 1, how & 1);
  memset(mine, 0, SD_ITCH_LOCATES);
  mine[1] = how >> 1 & 1;
  itch->selective = 1;
  itch->start_ns = how >> 2 & 1;
  itch->wanted = mine;
}

/* Decodes stream[itch->offset .. end) and appends its ticks. Returns the code. */
static int in_turn(sd_itch *itch, const uint8_t *stream, size_t end, int last, sd_tick *all) {
  for (;;) {
    REQUIRE(itch->offset <= end);
    const int code = sd_itch_decode(itch, stream + itch->offset, end - itch->offset, last, all + itch->ticks,
                                    MAX_TICKS - itch->ticks)
                         .code;
    itch->sampled = 0;
    if (code != SD_AGAIN) return code;
    for (uint32_t i = 0; i < itch->symbol_count; i++)
      if (itch->wanted[i] == SD_ITCH_UNDECIDED) itch->wanted[i] = i % 2;
    itch->undecided = 0;
  }
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
  static sd_itch whole;
  static sd_itch striped;
  static sd_itch own;
  static sd_tick whole_ticks[MAX_TICKS];
  static sd_tick striped_ticks[MAX_TICKS];
  if (size < 4 || 2 * (size / MIN_FRAME) >= MAX_TICKS)
    return 0; /* a message makes a tick, and may let another be made of a name */
  uint32_t how = data[0];
  size_t length = 16 + (size_t)data[1] * 4;
  size_t piece = SD_ITCH_MAX_FRAME + (size_t)data[2];
  size_t capacity = 1 + (size_t)data[3];
  data += 4;
  size -= 4;
  restart(&whole, how, wanted[0]);
  restart(&striped, how, wanted[1]);
  int code = in_turn(&whole, data, size, 1, whole_ticks);

  int fd = memfd_create("stream", MFD_CLOEXEC);
  REQUIRE(fd >= 0 && write(fd, data, size) == (ssize_t)size);
  int found = SD_OK;
  for (size_t start = 0; start < size && found == SD_OK; start += length) {
    /* An allocation of their own size on either side, so that the sanitizer sees one byte too many. */
    uint8_t *room = malloc(SD_ITCH_STRIPE_HEADROOM + piece);
    sd_itch_stripe stripe = {.start = start, .stop = start + length, .capacity = capacity};
    stripe.ticks = malloc(capacity * sizeof *stripe.ticks);
    stripe.exact = how >> 3 & 1;
    if (stripe.exact) stripe.start = striped.offset, stripe.stop = striped.offset + length;
    sd_itch_stripe_follow(&own, &striped, wanted[2]);
    sd_itch_stripe_take(&own, fd, &stripe, room, piece);
    REQUIRE(stripe.refused || (stripe.begin <= stripe.end && stripe.end <= size && stripe.made <= capacity));
    if (!stripe.refused && stripe.begin > striped.offset)
      found = in_turn(&striped, data, stripe.begin, 0, striped_ticks);
    uint64_t made = striped.ticks;
    /* What the stripe was decoded by has to hold still. */
    int holds = striped.symbol_names == own.symbol_names && striped.undecided == 0;
    if (found == SD_OK && holds && sd_itch_stripe_adopt(&striped, &stripe))
      memcpy(striped_ticks + made, stripe.ticks, stripe.made * sizeof *stripe.ticks);
    free(stripe.ticks);
    free(room);
  }
  close(fd);
  if (found == SD_OK) found = in_turn(&striped, data, size, 1, striped_ticks);

  REQUIRE(found == code && striped.ticks == whole.ticks && striped.offset == whole.offset);
  REQUIRE(memcmp(whole_ticks, striped_ticks, whole.ticks * sizeof(sd_tick)) == 0);
  REQUIRE(memcmp(wanted[0], wanted[1], SD_ITCH_LOCATES) == 0);
  whole.wanted = striped.wanted = NULL;
  memset(whole.samples, 0, sizeof whole.samples);
  memset(striped.samples, 0, sizeof striped.samples);
  REQUIRE(memcmp(&whole, &striped, sizeof whole) == 0);
  return 0;
}
