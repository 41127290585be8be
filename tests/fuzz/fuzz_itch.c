/* Any bytes as ITCH, taken as fuzz_decoder.h says.
 *
 * The input's first three bytes choose: skip and selection, bytes a call, ticks a call. The rest is the stream.
 *
 * fuzz-sources: codec/itch/itch.c codec/itch/rare.c codec/itch/sync.c */
#define SD_ITCH_STRETCH 96
#define SD_ITCH_HITS 3
#include "codec/itch/skim.c"

#include "codec/itch/itch.h"

#include "fuzz_decoder.h"

enum { MIN_FRAME = 14 };

static void check(void *self, int code, uint64_t begin) {
  sd_itch *itch = self;
  itch->sampled = 0;
  REQUIRE(itch->offset == begin);
  if (code == SD_AGAIN) {
    REQUIRE(itch->selective && itch->undecided && itch->wanted[itch->asked] == SD_ITCH_UNDECIDED);
    for (uint32_t i = 0; i < itch->symbol_count; i++)
      if (itch->wanted[i] == SD_ITCH_UNDECIDED) itch->wanted[i] = i % 2;
    itch->undecided = 0;
  } else if (code != SD_OK) {
    REQUIRE(!itch->skip && itch->fault != SD_ITCH_FAULT_NONE && itch->fault_offset == begin);
  }
}

static const fuzz_decoder DECODER = {sd_itch_decode, check, SD_ITCH_MAX_FRAME - 1, 1};

static void restart(sd_itch *itch, uint32_t skip, uint8_t *wanted, uint8_t *attributes) {
  if (itch->wanted) memset(itch->wanted, 0, itch->symbol_count);
  if (itch->attributes) memset(itch->attributes, 0, (size_t)itch->symbol_count * SD_ITCH_ATTRIBUTE_BYTES);
  memset(itch->symbols, 0, (size_t)itch->symbol_count * SD_ITCH_SYMBOL_BYTES);
  sd_itch_init(itch, 1, skip & 1);
  itch->selective = skip >> 1 & 1;
  itch->start_ns = skip >> 2 & 1;
  itch->wanted = wanted;
  itch->attributes = attributes;
}

/* What differs although nothing does: the caller's memory, and the last call's. */
static void forget_call(sd_itch *itch) {
  itch->wanted = itch->attributes = NULL;
  memset(itch->samples, 0, sizeof itch->samples);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
  static sd_itch whole;
  static sd_itch pieces;
  if (size < 3 || 2 * (size / MIN_FRAME) >= MAX_TICKS)
    return 0; /* a message makes a tick, and may let another be made of a name */
  static uint8_t wanted[2][SD_ITCH_LOCATES];
  static uint8_t attributes[2][SD_ITCH_LOCATES * SD_ITCH_ATTRIBUTE_BYTES];
  uint32_t skip = data[0];
  restart(&whole, skip, wanted[0], attributes[0]);
  restart(&pieces, skip, wanted[1], attributes[1]);
  take_both(&DECODER, &whole, &pieces, data, size, size / MIN_FRAME + 1);
  REQUIRE(memcmp(wanted[0], wanted[1], whole.symbol_count) == 0);
  REQUIRE(memcmp(attributes[0], attributes[1], (size_t)whole.symbol_count * SD_ITCH_ATTRIBUTE_BYTES) == 0);
  forget_call(&whole);
  forget_call(&pieces);
  REQUIRE(memcmp(&whole, &pieces, offsetof(sd_itch, symbols)) == 0);
  REQUIRE(memcmp(whole.symbols, pieces.symbols, (size_t)whole.symbol_count * SD_ITCH_SYMBOL_BYTES) == 0);
  whole.wanted = wanted[0], whole.attributes = attributes[0];
  pieces.wanted = wanted[1], pieces.attributes = attributes[1];
  uint64_t counted = 0;
  for (int fault = 0; fault < SD_ITCH_FAULTS; fault++) counted += whole.skips[fault];
  for (int type = 0; type < 256; type++) counted += whole.counts[type];
  REQUIRE(counted == whole.messages);
  return 0;
}
