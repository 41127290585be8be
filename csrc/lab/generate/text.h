/* Numbers as text. */
#pragma once

#include <stdint.h>
#include <string.h>

static inline uint8_t *sd_put_char(uint8_t *p, char c) {
  *p = (uint8_t)c;
  return p + 1;
}

/* Exactly `width` digits of a base up to 36, zeros leading; a larger value loses its highest ones. */
static inline uint8_t *sd_put_digits(uint8_t *p, uint64_t value, int width, uint32_t base) {
  for (int i = width - 1; i >= 0; i--, value /= base)
    p[i] = (uint8_t)"0123456789ABCDEFGHIJKLMNOPQRSTUVWXYZ"[value % base];
  return p + width;
}

/* As many decimal digits as it takes. */
static inline uint8_t *sd_put_number(uint8_t *p, uint64_t value) {
  uint8_t digits[20];
  int at = 20;
  do digits[--at] = (uint8_t)('0' + value % 10);
  while (value /= 10);
  memcpy(p, digits + at, (size_t)(20 - at));
  return p + 20 - at;
}
