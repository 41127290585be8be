/* Loads of fields from any address, in network order and, with `le`, in the other: network formats align nothing. */
#pragma once

#include <stdint.h>
#include <string.h>

_Static_assert(__BYTE_ORDER__ == __ORDER_LITTLE_ENDIAN__, "ticks are packed little-endian");

static inline uint32_t sd_load_le16(const uint8_t *p) {
  uint16_t v;
  memcpy(&v, p, sizeof v);
  return v;
}

static inline uint32_t sd_load_le32(const uint8_t *p) {
  uint32_t v;
  memcpy(&v, p, sizeof v);
  return v;
}

static inline uint64_t sd_load_le64(const uint8_t *p) {
  uint64_t v;
  memcpy(&v, p, sizeof v);
  return v;
}

static inline uint32_t sd_load_u16(const uint8_t *p) { return __builtin_bswap16((uint16_t)sd_load_le16(p)); }

static inline uint32_t sd_load_u32(const uint8_t *p) { return __builtin_bswap32(sd_load_le32(p)); }

static inline uint64_t sd_load_u64(const uint8_t *p) { return __builtin_bswap64(sd_load_le64(p)); }
