/* See the header. */
#include "codec/values/values.h"

#include <string.h>

#define INLINE static inline __attribute__((always_inline))

/* Rows that are made together: few enough for their ticks to stay in the first-level cache from one column to the next. */
enum { AT_A_GO = 128 };

/* From here on, a product with a scale may be off by more than a half. */
static const double EXACT = (double)(UINT64_C(1) << 51);

/* Calls F with the type of a kind of integers. */
#define FOR_INTEGERS(kind, F) \
  switch (kind) { \
  case SD_VALUES_I8: \
    F(int8_t); \
    break; \
  case SD_VALUES_I16: \
    F(int16_t); \
    break; \
  case SD_VALUES_I32: \
    F(int32_t); \
    break; \
  case SD_VALUES_I64: \
    F(int64_t); \
    break; \
  case SD_VALUES_U8: \
    F(uint8_t); \
    break; \
  case SD_VALUES_U16: \
    F(uint16_t); \
    break; \
  case SD_VALUES_U32: \
    F(uint32_t); \
    break; \
  default: \
    F(uint64_t); \
  }

/* Writes the low bytes of a number into a field. */
INLINE void put(unsigned char *field, uint64_t number, uint32_t width) {
  if (width == SD_VALUES_SEQUENCE) {
    field[offsetof(sd_tick, sequence_high) - offsetof(sd_tick, sequence_low)] = (unsigned char)(number >> 32);
    width = 4;
  }
  const unsigned char *low = (const unsigned char *)&number;
#if __BYTE_ORDER__ != __ORDER_LITTLE_ENDIAN__
  low += 8 - width;
#endif
  memcpy(field, low, width);
}

/* Writes floats from row `at` on, as units, into a field of n ticks. Returns how many come before the first one that is not allowed. */
INLINE uint32_t put_floats(const sd_values *v, uint64_t at, uint32_t n, unsigned char *field, uint32_t width) {
  const double *from = (const double *)v->values + at, scale = v->scale;
  for (uint32_t i = 0; i < n; i++, field += sizeof(sd_tick)) {
    const double product = from[i] * scale;
    /* A NaN is never within bounds. */
    if (!(product > -EXACT && product < EXACT)) return i;
    const int64_t units = (int64_t)(product + (product < 0 ? -0.5 : 0.5));
    /* A quotient is rounded correctly, so this is the double nearest to that many units, and to no other number of units. */
    if ((double)units / scale != from[i] || (uint64_t)units - v->lowest > v->more) return i;
    put(field, (uint64_t)units * v->factor, width);
  }
  return n;
}

/* The same for integers. What follows one that is not allowed does not matter. Bounds as far apart as the type's are the type's own. */
INLINE uint32_t put_integers(const sd_values *v, uint64_t at, uint32_t n, unsigned char *field, uint32_t width) {
  const uint64_t lowest = v->lowest, more = v->more, factor = v->factor;
  uint32_t wrong = 0, good = n;
#define PUT(type) \
  { \
    const type *from = (const type *)v->values + at; \
    if (factor == 1 && more >= UINT64_MAX >> (64 - 8 * sizeof(type))) { /* all that the type can hold */ \
      for (uint32_t i = 0; i < n; i++, field += sizeof(sd_tick)) put(field, (uint64_t)(int64_t)from[i], width); \
      break; \
    } \
    for (uint32_t i = 0; i < n; i++, field += sizeof(sd_tick)) { \
      const uint64_t number = (uint64_t)(int64_t)from[i]; \
      wrong += number - lowest > more; \
      put(field, number * factor, width); \
    } \
    for (good = 0; wrong && good < n && (uint64_t)(int64_t)from[good] - lowest <= more;) good++; \
  }
  FOR_INTEGERS(v->kind, PUT)
#undef PUT
  return wrong ? good : n;
}

/* The same for integers that are places in a table. */
INLINE uint32_t put_entries(const sd_values *v, uint64_t at, uint32_t n, unsigned char *field, uint32_t width) {
  const uint64_t lowest = v->lowest, more = v->more;
#define PUT(type) \
  { \
    const type *from = (const type *)v->values + at; \
    for (uint32_t i = 0; i < n; i++, field += sizeof(sd_tick)) { \
      const uint64_t number = (uint64_t)(int64_t)from[i]; \
      if (number - lowest > more || v->table[number] == SD_VALUES_NONE) return i; \
      put(field, v->table[number], width); \
    } \
  }
  FOR_INTEGERS(v->kind, PUT)
#undef PUT
  return n;
}

INLINE uint32_t put_width(const sd_values *v, uint64_t at, uint32_t n, sd_tick *ticks, uint32_t width) {
  unsigned char *field = (unsigned char *)ticks + v->at;
  if (v->kind == SD_VALUES_F64) return put_floats(v, at, n, field, width);
  return v->table ? put_entries(v, at, n, field, width) : put_integers(v, at, n, field, width);
}

static uint32_t put_field(const sd_values *v, uint64_t at, uint32_t n, sd_tick *ticks) {
  switch (v->width) {
  case 1:
    return put_width(v, at, n, ticks, 1);
  case 2:
    return put_width(v, at, n, ticks, 2);
  case 4:
    return put_width(v, at, n, ticks, 4);
  case SD_VALUES_SEQUENCE:
    return put_width(v, at, n, ticks, SD_VALUES_SEQUENCE);
  default:
    return put_width(v, at, n, ticks, 8);
  }
}

uint64_t sd_value_ticks(sd_tick *out, uint64_t count, const sd_tick *blank, uint64_t first, const sd_values *values,
                        uint32_t n) {
  sd_tick tick = *blank;
  for (uint64_t at = 0; at < count; at += AT_A_GO) {
    const uint32_t all = count - at < AT_A_GO ? (uint32_t)(count - at) : AT_A_GO;
    uint32_t good = all;
    for (uint32_t i = 0; i < all; i++) {
      sd_set_sequence(&tick, first + at + i);
      out[at + i] = tick;
    }
    for (uint32_t i = 0; i < n; i++) good = put_field(&values[i], at, good, out + at);
    if (good < all) return at + good;
  }
  return count;
}

uint64_t sd_look_up(const void *from, uint32_t kind, uint64_t count, const uint32_t *table, uint64_t entries,
                    uint32_t *out, uint32_t *rows) {
  uint64_t found = 0;
#define LOOK_UP(type) \
  for (uint64_t i = 0; i < count; i++) { \
    const uint64_t value = (uint64_t)(int64_t)((const type *)from)[i]; \
    const uint32_t it = value < entries ? table[value] : SD_VALUES_NONE; \
    out[i] = it; \
    if (__builtin_expect(it == SD_VALUES_NONE, 0)) rows[found++] = (uint32_t)i; \
  }
  FOR_INTEGERS(kind, LOOK_UP)
#undef LOOK_UP
  return found;
}
