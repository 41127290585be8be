/* Any bytes, cut anywhere, taken in any number of ticks: the decoder reads nothing outside what it was given, writes
 * no tick beyond its room, and says the same as when it gets all bytes at once.
 *
 * The input's first three bytes choose: skip and selection, bytes a call, ticks a call. The rest is the stream.
 *
 * fuzz-sources: codec/pitch/pitch.c codec/pitch/memory.c */
#include "codec/pitch/pitch.h"

#include "fuzz.h"

enum { MAX_TICKS = 4096 };

typedef struct outcome {
  int code;
  uint64_t ticks;
} outcome;

/* Every call gets an allocation of its own size on either side, so that the sanitizer sees one byte too many. */
static outcome take(sd_pitch *pitch, const uint8_t *stream, size_t size, size_t chunk, size_t capacity, sd_tick *all) {
  outcome result = {SD_OK, 0};
  size_t begin = 0;
  size_t end = chunk < size ? chunk : size;
  for (;;) {
    size_t len = end - begin;
    uint8_t *window = malloc(len ? len : 1);
    sd_tick *ticks = malloc(capacity * sizeof *ticks);
    if (len) memcpy(window, stream + begin, len);
    const sd_decoded did = sd_pitch_decode(pitch, window, len, end == size, ticks, capacity);
    pitch->sampled = 0;
    result.code = did.code;
    REQUIRE(did.made <= capacity && did.consumed <= len);
    REQUIRE(result.ticks + did.made <= MAX_TICKS);
    memcpy(all + result.ticks, ticks, did.made * sizeof *ticks);
    result.ticks += did.made;
    begin += did.consumed;
    free(ticks);
    free(window);
    REQUIRE(pitch->offset == begin && pitch->symbol_count <= SD_PITCH_SYMBOLS);
    if (result.code == SD_AGAIN) {
      REQUIRE(pitch->selective && pitch->wanted[pitch->asked] == SD_PITCH_UNDECIDED);
      pitch->wanted[pitch->asked] = pitch->asked % 2;
      continue;
    }
    if (result.code != SD_OK) {
      REQUIRE(!pitch->skip && pitch->fault.offset == begin);
      REQUIRE(result.code == SD_E_FORMAT || result.code == SD_E_TRUNCATED);
      return result;
    }
    if (did.made == capacity) continue;
    if (end == size) {
      REQUIRE(begin == size);
      return result;
    }
    REQUIRE(end - begin <= SD_PITCH_MAX_LINE);
    end = chunk < size - end ? end + chunk : size;
  }
}

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
  outcome a = take(whole, data, size, size + 1, size / 17 + 1, whole_ticks);
  outcome b = take(pieces, data, size, chunk, capacity, pieces_ticks);
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
