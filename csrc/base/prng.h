/* The generator's random numbers: xoshiro256** seeded by splitmix64 (Blackman and Vigna's published algorithms).
 *
 * It uses integers only, so one seed gives one stream on every machine. Each part of a market (clock, symbols, orders) draws from its own
 * stream, so how far one part looks ahead never changes what another part draws. */
#pragma once

#include <stdint.h>

typedef struct sd_prng {
  uint64_t s[4];
} sd_prng;

static inline uint64_t sd_splitmix64(uint64_t *state) {
  uint64_t z = *state += UINT64_C(0x9e3779b97f4a7c15);
  z = (z ^ (z >> 30)) * UINT64_C(0xbf58476d1ce4e5b9);
  z = (z ^ (z >> 27)) * UINT64_C(0x94d049bb133111eb);
  return z ^ (z >> 31);
}

/* A number tells the streams of one seed apart. It is mixed before it is combined with the seed, because neighbouring seeds with
 * neighbouring streams would otherwise share states. */
static inline void sd_prng_seed(sd_prng *p, uint64_t seed, uint64_t stream) {
  uint64_t mixed = stream;
  uint64_t state = seed ^ sd_splitmix64(&mixed);
  for (int i = 0; i < 4; i++) p->s[i] = sd_splitmix64(&state);
}

static inline uint64_t sd_prng_next(sd_prng *p) {
  uint64_t *s = p->s;
  uint64_t x = s[1] * 5;
  uint64_t result = ((x << 7) | (x >> 57)) * 9;
  uint64_t t = s[1] << 17;
  s[2] ^= s[0];
  s[3] ^= s[1];
  s[1] ^= s[2];
  s[0] ^= s[3];
  s[2] ^= t;
  s[3] = (s[3] << 45) | (s[3] >> 19);
  return result;
}

/* Maps 32 random bits to 0..bound-1. The bias is below bound / 2^32, far less than a market shows. */
static inline uint32_t sd_scale32(uint32_t bits, uint32_t bound) { return (uint32_t)(((uint64_t)bits * bound) >> 32); }
