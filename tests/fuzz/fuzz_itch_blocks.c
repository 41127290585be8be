/* Any bytes as a file that is read in blocks where it can be, and in turn elsewhere: the same ticks, state, fault and counts as in turn.
 *
 * The input's first three bytes choose: skip, whether blocks are guessed, and a selection; ticks in all; bytes in turn after a block that
 * is odd. The rest is the file.
 *
 * fuzz-sources: codec/blocks.c codec/itch/itch.c codec/itch/rare.c codec/itch/skim.c codec/itch/stripe.c codec/itch/sync.c codec/count_by_symbol.c */
#define _GNU_SOURCE
#define SD_ITCH_BLOCK_BITS 9
#include "codec/itch/blocks.c"

#include "codec/itch/itch.h"

#include "fuzz_blocks.h"

enum { MIN_FRAME = 14 };

typedef struct itch_reader {
  sd_itch itch;
  reader of;
  uint8_t wanted[SD_ITCH_LOCATES];
} itch_reader;

/* Every third locate is not wanted, once it is asked for; and of the others, no tick but those of some times. */
static void select_some(itch_reader *r, uint32_t how) {
  memset(r->wanted, SD_ITCH_UNDECIDED, sizeof r->wanted);
  r->itch.selective = 1;
  r->itch.wanted = r->wanted;
  r->itch.start_ns = how & 8 ? 20 : 0;
  r->itch.span_ns = how & 16 ? 60 : UINT64_MAX;
}

static void decide(itch_reader *r) {
  for (uint32_t locate = 0; locate < SD_ITCH_LOCATES; locate++)
    if (r->wanted[locate] == SD_ITCH_UNDECIDED && (locate == r->itch.asked || r->itch.symbols[locate][0]))
      r->wanted[locate] = locate % 3 ? SD_ITCH_WANTED : SD_ITCH_UNWANTED;
  r->itch.undecided = 0;
}

static void restart(itch_reader *r, uint32_t how, uint64_t limit) {
  memset(r->itch.symbols, 0, (size_t)r->itch.symbol_count * SD_ITCH_SYMBOL_BYTES);
  restart_reader(&r->of, limit);
  sd_itch_init(&r->itch, 1, how & 1);
  if (how & 4) select_some(r, how);
}

static int in_turn(itch_reader *r, const uint8_t *stream, size_t end, int last) {
  for (;;) {
    const int code = take_in_turn(&r->of, sd_itch_decode, &r->itch, &r->itch.offset, stream, end, last, 1);
    r->itch.sampled = 0;
    if (code != SD_AGAIN) return code;
    decide(r);
  }
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
  static itch_reader whole, blocked;
  if (size < 3 || size > BYTES * SLOTS || 2 * (size / MIN_FRAME) >= MAX_TICKS) return 0;
  READ_BOTH(whole, blocked, itch, sd_itch_open_blocks);
  REQUIRE(memcmp(whole.wanted, blocked.wanted, sizeof whole.wanted) == 0);
  whole.itch.wanted = blocked.itch.wanted = NULL;
  memset(whole.itch.samples, 0, sizeof whole.itch.samples);
  memset(blocked.itch.samples, 0, sizeof blocked.itch.samples);
  REQUIRE(memcmp(&whole.itch, &blocked.itch, sizeof whole.itch) == 0);
  return 0;
}
