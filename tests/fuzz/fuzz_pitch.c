/* Any bytes, cut anywhere, taken in any number of ticks: the decoder reads nothing outside what it was given, writes
 * no tick beyond its room, and says the same as when it gets all bytes at once.
 *
 * The input's first three bytes choose: skip and selection, bytes a call, ticks a call. The rest is the stream.
 *
 * fuzz-sources: codec/pitch/pitch.c codec/pitch/memory.c */
#include "codec/pitch/pitch.h"

#include "decode.h"

static void check(void *self, size_t taken) {
  sd_pitch *pitch = self;
  pitch->sampled = 0;
  REQUIRE(pitch->offset == taken && pitch->symbol_count <= SD_PITCH_SYMBOLS);
}

static void answer(void *self, size_t taken) {
  sd_pitch *pitch = self;
  (void)taken;
  REQUIRE(pitch->selective && pitch->wanted[pitch->asked] == SD_PITCH_UNDECIDED);
  pitch->wanted[pitch->asked] = pitch->asked % 2;
}

static void refuse(void *self, size_t taken) {
  const sd_pitch *pitch = self;
  REQUIRE(!pitch->skip && pitch->fault.offset == taken);
}

static const decoding DECODING = {sd_pitch_decode, check, answer, refuse, SD_PITCH_MAX_LINE, 1};

static sd_pitch *begin(uint32_t how) {
  sd_pitch *pitch = sd_pitch_new(1, how & 1);
  REQUIRE(pitch);
  pitch->selective = how >> 1 & 1;
  pitch->start_ns = how >> 2 & 1;
  return pitch;
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
  static sd_tick whole_ticks[MAX_TICKS];
  static sd_tick pieces_ticks[MAX_TICKS];
  if (size < 3 || size > MAX_TICKS) return 0;
  size_t chunk = (size_t)data[1] + 1;
  size_t capacity = (size_t)data[2] + 1;
  sd_pitch *whole = begin(data[0]);
  sd_pitch *pieces = begin(data[0]);
  data += 3;
  size -= 3;
  outcome a = take(&DECODING, whole, data, size, size + 1, size / 17 + 1, whole_ticks);
  outcome b = take(&DECODING, pieces, data, size, chunk, capacity, pieces_ticks);
  REQUIRE(a.code == b.code && a.ticks == b.ticks);
  REQUIRE(memcmp(whole_ticks, pieces_ticks, a.ticks * sizeof(sd_tick)) == 0);
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
