/* Logarithms and powers of two in fixed point, from integer arithmetic alone: libm may round its last bit differently
 * from one machine to the next, and a generated market must not. */
#pragma once

#include <stdint.h>

/* log2(x) in units of 2^-32, rounded down; x >= 1. */
uint64_t sd_log2_q32(uint64_t x);

/* 2^(x * 2^-32) in units of 2^-16, rounded down; 0 when x < -16 * 2^32; x must be below 47 * 2^32. */
uint64_t sd_exp2_q32(int64_t x);

/* The same power from a table of 256 steps, to about 1e-5: for the draws made by the million. */
typedef struct sd_exp2_table {
  uint32_t step[257]; /* 2^(i/256) in units of 2^-30 */
} sd_exp2_table;

void sd_exp2_table_init(sd_exp2_table *t);

/* 2^(x * 2^-16) in units of 2^-16, for -16 * 2^16 <= x < 30 * 2^16; x outside is taken as the nearer end. */
static inline uint64_t sd_exp2_q16(const sd_exp2_table *t, int64_t x) {
  if (x < -16 * 65536) x = -16 * 65536;
  if (x >= 30 * 65536) x = 30 * 65536 - 1;
  uint64_t shifted = (uint64_t)(x + 16 * 65536);
  uint32_t whole = (uint32_t)(shifted >> 16), at = (uint32_t)(shifted >> 8) & 255, rest = (uint32_t)shifted & 255;
  uint64_t mantissa = t->step[at] + (((uint64_t)(t->step[at + 1] - t->step[at]) * rest) >> 8);
  return (mantissa << whole) >> 30;
}
