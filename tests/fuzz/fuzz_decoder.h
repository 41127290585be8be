/* What the targets of decoders share. Any bytes, cut anywhere, taken in any number of ticks: the decoder reads nothing
 * outside what it was given, writes no tick beyond its room, and says the same as when it gets all bytes at once. */
#pragma once

#include "codec/decoder.h"

#include "fuzz.h"

enum { MAX_TICKS = 4096 };

typedef struct fuzz_decoder {
  sd_decode *decode;
  /* Holds the decoder's own state against what a call said, and answers what it asked; `begin` is the bytes consumed. */
  void (*check)(void *self, int code, uint64_t begin);
  size_t max_left;   /* the most bytes that a call leaves for want of more */
  size_t call_ticks; /* a call that has less room than this may stop for want of it */
} fuzz_decoder;

typedef struct outcome {
  int code;
  uint64_t ticks;
} outcome;

static sd_tick whole_ticks[MAX_TICKS];
static sd_tick pieces_ticks[MAX_TICKS];

/* Every call gets an allocation of its own size on either side, so that the sanitizer sees one byte too many. */
static outcome take(const fuzz_decoder *of, void *self, const uint8_t *stream, size_t size, size_t chunk,
                    size_t capacity, sd_tick *all) {
  outcome result = {SD_OK, 0};
  size_t begin = 0;
  size_t end = chunk < size ? chunk : size;
  for (;;) {
    size_t len = end - begin;
    uint8_t *window = malloc(len ? len : 1);
    sd_tick *ticks = malloc(capacity * sizeof *ticks);
    if (len) memcpy(window, stream + begin, len);
    const sd_decoded did = of->decode(self, window, len, end == size, ticks, capacity);
    result.code = did.code;
    REQUIRE(did.made <= capacity && did.consumed <= len);
    REQUIRE(result.ticks + did.made <= MAX_TICKS);
    memcpy(all + result.ticks, ticks, did.made * sizeof *ticks);
    result.ticks += did.made;
    begin += did.consumed;
    free(ticks);
    free(window);
    of->check(self, did.code, begin);
    if (did.code == SD_AGAIN) continue;
    if (did.code != SD_OK) {
      REQUIRE(did.code == SD_E_FORMAT || did.code == SD_E_TRUNCATED);
      return result;
    }
    if (capacity - did.made < of->call_ticks) continue;
    if (end == size) {
      REQUIRE(begin == size);
      return result;
    }
    REQUIRE(end - begin <= of->max_left);
    end = chunk < size - end ? end + chunk : size;
  }
}

/* The input without its first three bytes, whole and in pieces as the second and third of them say. Returns how many
 * ticks it makes: they are in `whole_ticks`. `room` is room for all of them. */
static uint64_t take_both(const fuzz_decoder *of, void *whole, void *pieces, const uint8_t *data, size_t size,
                          size_t room) {
  const size_t chunk = (size_t)data[1] + 1;
  const size_t capacity = (size_t)data[2] + of->call_ticks;
  data += 3;
  size -= 3;
  const outcome a = take(of, whole, data, size, size + 1, room, whole_ticks);
  const outcome b = take(of, pieces, data, size, chunk, capacity, pieces_ticks);
  REQUIRE(a.code == b.code && a.ticks == b.ticks);
  REQUIRE(memcmp(whole_ticks, pieces_ticks, a.ticks * sizeof(sd_tick)) == 0);
  return a.ticks;
}
