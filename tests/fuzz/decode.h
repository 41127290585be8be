/* A decoder over a stream, cut anywhere, taken in any number of ticks: what the targets of all of them do. */
#ifndef FUZZ_DECODE_H
#define FUZZ_DECODE_H

#include "codec/decoder.h"
#include "fuzz.h"

enum { MAX_TICKS = 4096 };

typedef struct outcome {
  int code;
  uint64_t ticks;
} outcome;

/* What a target says of its decoder `self`, of which so many bytes have been taken. */
typedef struct decoding {
  sd_decode *decode;
  void (*check)(void *self, size_t taken);  /* after each call; takes the samples */
  void (*answer)(void *self, size_t taken); /* what it waits for; NULL: it never does */
  void (*refuse)(void *self, size_t taken); /* checks the fault that it says */
  size_t max_left;                          /* bytes that it may leave for the next call */
  size_t max_per_record;                    /* ticks */
} decoding;

/* Every call gets an allocation of its own size on either side, so that the sanitizer sees one byte too many. */
static outcome take(const decoding *of, void *self, const uint8_t *stream, size_t size, size_t chunk, size_t capacity,
                    sd_tick *all) {
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
    of->check(self, begin);
    if (result.code == SD_AGAIN) {
      REQUIRE(of->answer);
      of->answer(self, begin);
      continue;
    }
    if (result.code != SD_OK) {
      REQUIRE(result.code == SD_E_FORMAT || result.code == SD_E_TRUNCATED);
      of->refuse(self, begin);
      return result;
    }
    if (capacity - did.made < of->max_per_record) continue;
    if (end == size) {
      REQUIRE(begin == size);
      return result;
    }
    REQUIRE(end - begin <= of->max_left);
    end = chunk < size - end ? end + chunk : size;
  }
}

#endif
