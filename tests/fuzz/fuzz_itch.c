/* Any bytes, cut anywhere, taken in any number of ticks: the decoder reads nothing outside what it was given, writes
 * no tick beyond its room, and says the same as when it gets all bytes at once.
 *
 * The input's first three bytes choose: skip, bytes a call, ticks a call. The rest is the stream. */
#include "decode/itch.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

enum { MAX_TICKS = 4096, MIN_FRAME = 14 };

typedef struct outcome {
  int code;
  uint64_t ticks;
} outcome;

#define REQUIRE(condition) \
  do { \
    if (!(condition)) { \
      fprintf(stderr, "%s:%d: %s\n", __FILE__, __LINE__, #condition); \
      abort(); \
    } \
  } while (0)

/* Every call gets an allocation of its own size on either side, so that the sanitizer sees one byte too many. */
static outcome take(sd_itch *itch, const uint8_t *stream, size_t size, size_t chunk, size_t capacity, sd_tick *all) {
  outcome result = {SD_OK, 0};
  size_t begin = 0;
  size_t end = chunk < size ? chunk : size;
  for (;;) {
    size_t len = end - begin;
    uint8_t *window = malloc(len ? len : 1);
    sd_tick *ticks = malloc(capacity * sizeof *ticks);
    if (len) memcpy(window, stream + begin, len);
    result.code = sd_itch_decode(itch, window, len, end == size, ticks, capacity);
    REQUIRE(itch->made <= capacity && itch->consumed <= len);
    REQUIRE(result.ticks + itch->made <= MAX_TICKS);
    memcpy(all + result.ticks, ticks, itch->made * sizeof *ticks);
    result.ticks += itch->made;
    begin += itch->consumed;
    free(ticks);
    free(window);
    REQUIRE(itch->offset == begin);
    if (result.code != SD_OK) {
      REQUIRE(result.code == SD_E_FORMAT || result.code == SD_E_TRUNCATED);
      REQUIRE(itch->fault != SD_ITCH_FAULT_NONE && itch->fault_offset == begin);
      return result;
    }
    if (itch->made == capacity) continue;
    if (end == size) {
      REQUIRE(begin == size);
      return result;
    }
    REQUIRE(end - begin < SD_ITCH_MAX_FRAME);
    end = chunk < size - end ? end + chunk : size;
  }
}

/* sd_itch_init() without clearing half a megabyte of names, nearly all of which are clear. */
static void restart(sd_itch *itch, uint32_t skip) {
  memset(itch->symbols, 0, (size_t)itch->symbol_count * SD_ITCH_SYMBOL_BYTES);
  memset(itch, 0, offsetof(sd_itch, symbols));
  itch->midnight_ns = 1;
  itch->skip = skip;
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
  static sd_itch whole;
  static sd_itch pieces;
  static sd_tick whole_ticks[MAX_TICKS];
  static sd_tick pieces_ticks[MAX_TICKS];
  if (size < 3 || size / MIN_FRAME >= MAX_TICKS) return 0;
  uint32_t skip = data[0] & 1;
  size_t chunk = (size_t)data[1] + 1;
  size_t capacity = (size_t)data[2] + 1;
  data += 3;
  size -= 3;
  restart(&whole, skip);
  restart(&pieces, skip);
  outcome a = take(&whole, data, size, size + 1, size / MIN_FRAME + 1, whole_ticks);
  outcome b = take(&pieces, data, size, chunk, capacity, pieces_ticks);
  REQUIRE(a.code == b.code && a.ticks == b.ticks);
  REQUIRE(memcmp(whole_ticks, pieces_ticks, a.ticks * sizeof(sd_tick)) == 0);
  whole.made = pieces.made = whole.consumed = pieces.consumed = 0;
  REQUIRE(memcmp(&whole, &pieces, offsetof(sd_itch, symbols)) == 0);
  REQUIRE(memcmp(whole.symbols, pieces.symbols, (size_t)whole.symbol_count * SD_ITCH_SYMBOL_BYTES) == 0);
  uint64_t counted = whole.skipped_unknown_type + whole.skipped_bad_field;
  for (int type = 0; type < 256; type++) counted += whole.counts[type];
  REQUIRE(counted == whole.messages);
  return 0;
}
