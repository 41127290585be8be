#include "lab/generate/fixed.h"

uint64_t sd_log2_q32(uint64_t x) {
  int whole = 63 - __builtin_clzll(x);
  uint64_t mantissa = x << (63 - whole); /* 1.0 is 2^63 */
  uint64_t result = (uint64_t)whole;
  for (int bit = 0; bit < 32; bit++) {
    unsigned __int128 square = (unsigned __int128)mantissa * mantissa;
    int carry = (int)(square >> 127);
    mantissa = (uint64_t)(square >> (carry ? 64 : 63));
    result = result << 1 | (uint64_t)carry;
  }
  return result;
}

/* 2^(1/2), 2^(1/4), 2^(1/8), ... in units of 2^-62, rounded down. */
static const uint64_t roots_of_two[32] = {
    0x5a827999fcef3242, 0x4c1bf828c6dc54b7, 0x45cae0f1f545eb73, 0x42d561b3e6243d8a, 0x4166c34c5615d0eb,
    0x40b268f9de0183b9, 0x4058f6a7ecccd5b6, 0x402c6be96af2fb58, 0x4016321b687027a8, 0x400b18178ba33b14,
    0x40058bce410147e8, 0x4002c5d7bff71dae, 0x400162e807ee7e5b, 0x4000b1730df6a524, 0x400058b9497b8151,
    0x40002c5c955dd701, 0x4000162e46d6f26b, 0x40000b1722757b1b, 0x4000058b90fd3e0c, 0x400002c5c86f3f26,
    0x40000162e433c79b, 0x400000b17218edcf, 0x40000058b90c3968, 0x4000002c5c860d54, 0x400000162e4302d2,
    0x4000000b17218073, 0x400000058b90bffc, 0x40000002c5c85fee, 0x4000000162e42ff3, 0x40000000b17217f8,
    0x4000000058b90bfc, 0x400000002c5c85fe,
};

uint64_t sd_exp2_q32(int64_t x) {
  if (x < -(INT64_C(16) << 32)) return 0;
  uint32_t fraction = (uint32_t)x;
  uint64_t result = UINT64_C(1) << 62;
  for (int i = 0; fraction; i++, fraction <<= 1)
    if (fraction >> 31) result = (uint64_t)(((unsigned __int128)result * roots_of_two[i]) >> 62);
  int64_t shift = 46 - (x >> 32);
  return shift >= 0 ? result >> shift : result << -shift;
}

void sd_exp2_table_init(sd_exp2_table *t) {
  for (int i = 0; i <= 256; i++) t->step[i] = (uint32_t)sd_exp2_q32((INT64_C(14) << 32) + ((int64_t)i << 24));
}
