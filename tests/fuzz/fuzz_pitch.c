/* Any bytes as PITCH, taken as fuzz_decoder.h says.
 *
 * The input's first three bytes choose: skip and selection, bytes a call, ticks a call. The rest is the stream.
 *
 * fuzz-sources: codec/pitch/pitch.c */
#include "codec/pitch/pitch.h"

#include "fuzz_decoder.h"

static void check(void *self, int code, uint64_t begin) {
  sd_pitch *pitch = self;
  pitch->sampled = 0;
  REQUIRE(pitch->offset == begin && pitch->symbol_count <= SD_PITCH_SYMBOLS);
  if (code == SD_AGAIN) {
    REQUIRE(pitch->selective && pitch->wanted[pitch->asked] == SD_PITCH_UNDECIDED);
    pitch->wanted[pitch->asked] = pitch->asked % 2;
  } else if (code != SD_OK) {
    REQUIRE(!pitch->skip && pitch->fault.offset == begin);
  }
}

static const fuzz_decoder DECODER = {sd_pitch_decode, check, SD_PITCH_MAX_LINE, 1};

static sd_pitch *begin(uint32_t how) {
  sd_pitch *pitch = sd_pitch_new(1, how & 1);
  REQUIRE(pitch);
  pitch->selective = how >> 1 & 1;
  pitch->start_ns = how >> 2 & 1;
  return pitch;
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
  if (size < 3 || size > MAX_TICKS) return 0;
  sd_pitch *whole = begin(data[0]);
  sd_pitch *pieces = begin(data[0]);
  take_both(&DECODER, whole, pieces, data, size, size / 17 + 1);
  REQUIRE(whole->lines == pieces->lines && whole->messages == pieces->messages);
  REQUIRE(whole->unselected == pieces->unselected && whole->unknown_orders == pieces->unknown_orders);
  REQUIRE(whole->live_orders == pieces->live_orders && whole->symbol_count == pieces->symbol_count);
  REQUIRE(memcmp(whole->skips, pieces->skips, sizeof whole->skips) == 0);
  REQUIRE(memcmp(whole->counts, pieces->counts, sizeof whole->counts) == 0);
  REQUIRE(memcmp(whole->symbols, pieces->symbols, (size_t)whole->symbol_count * SD_PITCH_SYMBOL_BYTES) == 0);
  sd_pitch_free(whole);
  sd_pitch_free(pieces);
  return 0;
}
