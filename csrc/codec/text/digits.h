/* Short numbers in text, eight characters at once. The number of digits differs from row to row, and a loop over them would end with a
 * mispredicted branch. Here a field is one word or two. What follows it in the column is shifted out, and the only branch on its length
 * is which of the two it is. */
#pragma once

#include "codec/text/cells.h"

#include <string.h>

enum { SHORT_TEXT = 16 };

/* Eight characters, from each of which the value of '0' is taken; the first is in the lowest byte. */
static inline uint64_t eight_characters(const uint8_t *at) {
  uint64_t word;
  memcpy(&word, at, 8);
  return word ^ UINT64_C(0x3030303030303030);
}

/* Whether all eight are below 10: only a byte that is not carries. */
static inline int are_digits(uint64_t word) {
  return ((word | (word + UINT64_C(0x7676767676767676))) & UINT64_C(0x8080808080808080)) == 0;
}

/* The number that eight digits form: pairs of digits, then of pairs, then of fours. */
static inline uint64_t eight_digits(uint64_t word) {
  word = word * 2561 >> 8;
  word = (word & UINT64_C(0x00ff00ff00ff00ff)) * 6553601 >> 16;
  return (word & UINT64_C(0x0000ffff0000ffff)) * UINT64_C(42949672960001) >> 32;
}

/* The first `count` characters at `at`, 1 to 8, as the last of eight characters that begin with zeros. */
static inline uint64_t padded(const uint8_t *at, uint64_t count) { return eight_characters(at) << (64 - 8 * count); }

/* Removes the first point from a word, and moves up what is before it. Returns how many characters follow it; -1: there is no point. */
static inline int without_point(uint64_t *word) {
  uint64_t differs = *word ^ UINT64_C(0x1e1e1e1e1e1e1e1e); /* '.' as eight_characters() has it */
  uint64_t points = (differs - UINT64_C(0x0101010101010101)) & ~differs & UINT64_C(0x8080808080808080);
  if (!points) return -1;
  int at = __builtin_ctzll(points) - 7;
  uint64_t before = (UINT64_C(1) << at) - 1;
  *word = (*word & (~before << 8)) | ((*word & before) << 8);
  return 7 - at / 8;
}

/* Up to SHORT_TEXT digits, with a point among them if `pointed`: the number without the point. `fraction`: how many digits follow the
 * point. 0: the field has another form, or lies too near to `end`, from which on no byte may be read. */
static inline int short_number(field f, const uint8_t *end, int pointed, uint64_t *number, int *fraction) {
  uint64_t length = (uint64_t)(f.end - f.at);
  *fraction = 0;
  if (UNLIKELY(length - 1 >= SHORT_TEXT || end - f.at < 8)) return 0;
  if (length <= 8) {
    uint64_t word = padded(f.at, length);
    if (!are_digits(word)) {
      if (!pointed || length == 1 || (*fraction = without_point(&word)) < 0 || !are_digits(word)) return 0;
    }
    *number = eight_digits(word);
    return 1;
  }
  uint64_t high = padded(f.at, length - 8);
  uint64_t low = eight_characters(f.end - 8);
  uint64_t below = 100000000;
  if (!are_digits(low)) {
    if (!pointed || (*fraction = without_point(&low)) < 0 || !are_digits(low)) return 0;
    below = 10000000;
  }
  if (!are_digits(high)) {
    if (!pointed || below != 100000000 || (*fraction = 8 + without_point(&high)) < 8 || !are_digits(high)) return 0;
  }
  *number = eight_digits(high) * below + eight_digits(low);
  return 1;
}
