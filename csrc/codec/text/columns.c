/* See the header. */
#include "codec/text/columns.h"

#include "codec/text/cells.h"

#include <string.h>
#if defined(__SSE2__)
#include <emmintrin.h>
#endif

enum {
  SLOTS = 128 /* twice as many as there are texts, so that a search for an unknown text ends soon */
};

static const uint32_t FREE = UINT32_MAX; /* as a length: no text */

_Static_assert(SD_LETTERS * 2 <= SLOTS, "a free slot is soon found");

/* A text, its first eight bytes as a number, and the numbers it stands for. It lies in the first free slot from where its hash points to.
 * Free slots have the numbers of all other texts. */
typedef struct slot {
  uint64_t key;
  const uint8_t *text;
  uint32_t length;
  int32_t values[SD_LETTER_TARGETS];
} slot;

typedef struct letters {
  slot slots[SLOTS];
  uint8_t of_byte[256]; /* slots of texts of one byte */
  uint64_t single;      /* 1: all texts have one byte; otherwise a length that no text has */
} letters;

static inline uint32_t slot_of(uint64_t key) { return (uint32_t)(key * UINT64_C(0x9e3779b97f4a7c15) >> 57); }

static inline int is_text(const slot *s, uint64_t key, const uint8_t *text, uint64_t length) {
  return s->key == key && s->length == length &&
         (LIKELY(length <= 8) || memcmp(s->text + 8, text + 8, length - 8) == 0);
}

/* `key`: of the text's first eight bytes. */
static inline const slot *find(const letters *known, uint64_t key, const uint8_t *text, uint64_t length) {
  const slot *s = &known->slots[slot_of(key)];
  while (UNLIKELY(!is_text(s, key, text, length) && s->length != FREE))
    s = &known->slots[(s - known->slots + 1) % SLOTS];
  return s;
}

static void fill(letters *known, const sd_letter *table, uint32_t entries, const int32_t *otherwise, uint32_t targets) {
  slot other = {.length = FREE};
  memcpy(other.values, otherwise, targets * sizeof other.values[0]);
  known->single = 1;
  for (int i = 0; i < SLOTS; i++) known->slots[i] = other;
  for (uint32_t e = 0; e < entries && e < SD_LETTERS; e++) {
    uint64_t key;
    memcpy(&key, table[e].text, 8);
    slot *s = &known->slots[find(known, key, table[e].text, table[e].length) - known->slots];
    s->key = key;
    s->text = table[e].text;
    s->length = table[e].length;
    memcpy(s->values, table[e].values, sizeof s->values);
    if (s->length != 1) known->single = UINT64_MAX;
  }
  for (uint64_t byte = 0; byte < 256; byte++)
    known->of_byte[byte] = (uint8_t)(find(known, byte, NULL, 1) - known->slots);
}

/* Compiled once per number of targets. */
static inline __attribute__((always_inline)) uint64_t read_letters(const sd_cells *cells, const letters *known,
                                                                   uint32_t column, const sd_target *to, int targets,
                                                                   uint16_t *faults) {
  sd_target target[SD_LETTER_TARGETS];
  text_column from = text_column_of(cells);
  uint64_t bad = 0;
  for (int t = 0; t < targets; t++) target[t] = to[t];
  for (uint64_t i = 0; i < from.cells.count; i++) {
    field f = cell(&from, i);
    uint64_t length = (uint64_t)(f.end - f.at);
    const slot *s;
    if (length == known->single) s = &known->slots[known->of_byte[*f.at]];
    else s = find(known, word_of(f, from.end), f.at, length);
    int32_t all = s->values[0];
    for (int t = 1; t < targets; t++) all |= s->values[t];
    for (int t = 0; t < targets; t++)
      if (LIKELY(all >= 0) || s->values[t] >= 0) put(&target[t], i, &s->values[t]);
    if (UNLIKELY(all < 0)) {
      note(&faults[i], column, length ? SD_FAULT_UNKNOWN : SD_FAULT_EMPTY);
      bad++;
    }
  }
  return bad;
}

uint64_t sd_letters(const sd_cells *cells, const sd_letter *table, uint32_t entries, const int32_t *otherwise,
                    uint32_t column, const sd_target *targets, uint32_t count, uint16_t *faults) {
  letters known;
  fill(&known, table, entries, otherwise, count);
  switch (count) {
  case 1:
    return read_letters(cells, &known, column, targets, 1, faults);
  case 2:
    return read_letters(cells, &known, column, targets, 2, faults);
  case 3:
    return read_letters(cells, &known, column, targets, 3, faults);
  default:
    return read_letters(cells, &known, column, targets, SD_LETTER_TARGETS, faults);
  }
}

/* Which of 64 bytes are of which kind, the first one in the lowest bit. */
typedef struct kinds {
  uint64_t ends; /* delimiters and '\n' */
  uint64_t lines;
  uint64_t odd; /* '"' and '\r' */
  uint64_t spaces;
} kinds;

#if defined(__SSE2__)
static inline kinds kinds_of(const uint8_t *at, uint8_t delimiter) {
  kinds found = {0};
#define IS(letter) _mm_cmpeq_epi8(bytes, _mm_set1_epi8((char)(letter)))
#define BITS(mask) ((uint64_t)(uint32_t)_mm_movemask_epi8(mask) << i)
  for (int i = 0; i < 64; i += 16) {
    const __m128i bytes = _mm_loadu_si128((const __m128i *)(const void *)(at + i));
    const __m128i lines = IS('\n');
    found.lines |= BITS(lines);
    found.ends |= BITS(_mm_or_si128(IS(delimiter), lines));
    found.odd |= BITS(_mm_or_si128(IS('"'), IS('\r')));
    found.spaces |= BITS(IS(' '));
  }
#undef IS
#undef BITS
  return found;
}
#else
static inline kinds kinds_of(const uint8_t *at, uint8_t delimiter) {
  kinds found = {0};
  for (int i = 0; i < 64; i++) {
    found.lines |= (uint64_t)(at[i] == '\n') << i;
    found.ends |= (uint64_t)(at[i] == delimiter || at[i] == '\n') << i;
    found.odd |= (uint64_t)(at[i] == '"' || at[i] == '\r') << i;
    found.spaces |= (uint64_t)(at[i] == ' ') << i;
  }
  return found;
}
#endif

uint64_t sd_split(const uint8_t *text, uint64_t bytes, uint8_t delimiter, uint32_t columns, int32_t *ends,
                  uint64_t room, int *spaced) {
  uint64_t fields = 0, lines = 0;
  kinds all = {0};
  ends[0] = -1;
  for (uint64_t at = 0; at < bytes; at += 64) {
    uint8_t rest[64] = {0};
    if (UNLIKELY(bytes - at < 64)) memcpy(rest, text + at, bytes - at);
    const kinds here = kinds_of(bytes - at < 64 ? rest : text + at, delimiter);
    all.odd |= here.odd;
    all.spaces |= here.spaces;
    lines += (uint64_t)__builtin_popcountll(here.lines);
    if (UNLIKELY(all.odd || room - fields < 64 + 2)) return 0;
    for (uint64_t left = here.ends; left; left &= left - 1)
      ends[++fields] = (int32_t)(at + (uint64_t)__builtin_ctzll(left));
  }
  if (!bytes) return 0;
  *spaced = all.spaces != 0;
  const int has_end = text[bytes - 1] == '\n';
  if (!has_end) ends[++fields] = (int32_t)bytes;
  if (fields != (lines + !has_end) * columns) return 0;
  /* So many line ends, each at the last field of a line: all other fields end with a delimiter. */
  for (uint64_t i = columns; i <= fields - !has_end; i += columns)
    if (UNLIKELY(text[ends[i]] != '\n')) return 0;
  return fields / columns;
}

uint64_t sd_count_byte(const uint8_t *bytes, uint64_t count, uint8_t byte) {
  uint64_t found = 0;
  while (count) {
    /* At most as many at once as a byte can count: compilers then count sixteen in parallel. */
    uint64_t run = count < 255 ? count : 255;
    uint8_t here = 0;
    for (uint64_t i = 0; i < run; i++) here = (uint8_t)(here + (bytes[i] == byte));
    found += here;
    bytes += run;
    count -= run;
  }
  return found;
}

uint64_t sd_line_ends(const uint8_t *bytes, uint64_t count, int *odd) {
  uint64_t found = 0;
  uint8_t other = 0;
  while (count) {
    /* As above. */
    uint64_t run = count < 255 ? count : 255;
    uint8_t here = 0;
    for (uint64_t i = 0; i < run; i++) {
      here = (uint8_t)(here + (bytes[i] == '\n'));
      other |= (bytes[i] == '"') | (bytes[i] == '\r');
    }
    found += here;
    bytes += run;
    count -= run;
  }
  *odd = other;
  return found;
}
