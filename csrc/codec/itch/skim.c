/* One frame has to be read to find the next one. So each load waits for the one before, and the core waits for both. Skimming therefore
 * walks four stretches at once, whose beginnings are guessed (sync.h). A guess is proven when the walk before it ends exactly there. If
 * it does not, what was walked from that guess is discarded. */
#include "codec/itch/skim.h"

#include "codec/itch/layout.h"
#include "codec/itch/rare.h"
#include "codec/itch/sync.h"

#define UNLIKELY(x) __builtin_expect(!!(x), 0)

/* A fuzzer's inputs are short: it walks shorter stretches. */
#ifndef SD_ITCH_STRETCH
#define SD_ITCH_STRETCH 32768
#define SD_ITCH_HITS 64
#endif

enum {
  LANES = 4,
  STRETCH = SD_ITCH_STRETCH,
  GUESS_BYTES = STRETCH < 1024 ? STRETCH : 1024, /* how many bytes are searched for a beginning */
  HITS = SD_ITCH_HITS,                           /* per lane: if more is wanted, the plain loop is as fast */
  LONGEST_FRAME = PREFIX_BYTES + 50
};

typedef struct lane {
  const uint8_t *p;
  const uint8_t *end;
  uint64_t passed; /* frames */
  uint32_t hits;
  uint32_t counts[256];
  const uint8_t *hit[HITS];
  uint64_t passed_before[HITS];
} lane;

/* What a walk has to know of a type: its length, whether it may be walked over, whether it has no side, and whether it has 64 bits of
 * shares. R, S, V and W may not be walked over, because they change more than counts. */
enum { WALKED = 1 << 16, SIDELESS = 1 << 17, SIZED = 1 << 18, SIDE_AT = 19, SHARES_AT = 11 };
#define SIDED(len) ((len) | WALKED)
#define PLAIN(len) ((len) | WALKED | SIDELESS)
#define LARGE(len) (PLAIN(len) | SIZED)

static const uint32_t gaits[256] = {['A'] = SIDED(36), ['F'] = SIDED(40), ['P'] = SIDED(44), ['E'] = PLAIN(31),
                                    ['C'] = PLAIN(36), ['X'] = PLAIN(23), ['D'] = PLAIN(19), ['U'] = PLAIN(35),
                                    ['Q'] = LARGE(40), ['H'] = PLAIN(25), ['I'] = LARGE(50), ['Y'] = PLAIN(20),
                                    ['L'] = PLAIN(26), ['K'] = PLAIN(28), ['J'] = PLAIN(35), ['h'] = PLAIN(21),
                                    ['B'] = PLAIN(19), ['N'] = PLAIN(20), ['O'] = PLAIN(48)};

static const uint8_t walked[] = "AFPECXDUQHIYKJhBNOL"; /* L, the last, makes no tick */

/* The end of the frame at p, or p if the lane stops before it. `passed` counts the frames before it. */
static inline __attribute__((always_inline)) const uint8_t *step(lane *l, const uint8_t *p, uint64_t passed,
                                                                 const uint8_t *wanted) {
  const uint8_t *m = p + PREFIX_BYTES;
  uint32_t prefix = sd_load_u16(p);
  uint32_t beside = gaits[m[0]] - prefix; /* 0 if the prefix is the length */
  uint32_t alarm = wanted[sd_load_u16(m + 1)];
  if (UNLIKELY((beside & ~(uint32_t)(SIDELESS | SIZED)) != WALKED)) return p;
  if (UNLIKELY((sd_itch_sides[m[SIDE_AT]] | (beside & SIDELESS)) == 0)) return p;
  if (UNLIKELY(beside & SIZED) && m[SHARES_AT] & 0x80) return p;
  if (UNLIKELY(alarm != SD_ITCH_UNWANTED)) {
    if (alarm == SD_ITCH_UNDECIDED || l->hits == HITS) return p;
    l->hit[l->hits] = p;
    l->passed_before[l->hits++] = passed;
  }
  l->counts[m[0]]++;
  return p + PREFIX_BYTES + prefix;
}

/* Sets up lanes over p[0 .. LANES * stretch). Returns how many. */
static int line_up(const sd_itch *itch, const uint8_t *p, size_t stretch, lane *lanes) {
  const uint8_t *end = p + LANES * stretch;
  int n = 0;
  for (; n < LANES; n++) {
    int found = 1;
    const uint8_t *start = p + (size_t)n * stretch;
    if (n != 0) start += sd_itch_find_sync(itch, start, GUESS_BYTES, 0, &found);
    if (!found) break;
    if (n != 0) lanes[n - 1].end = start;
    lane *l = &lanes[n];
    l->p = start;
    l->passed = 0;
    l->hits = 0;
    for (const uint8_t *type = walked; *type; type++) l->counts[*type] = 0;
  }
  lanes[n - 1].end = end;
  return n;
}

/* How many steps every lane can take before one of them reaches its end. */
static uint64_t steps_for_all(const lane *lanes, const uint8_t *const *p) {
  int64_t minimum = INT64_MAX;
  for (int i = 0; i < LANES; i++) minimum = lanes[i].end - p[i] < minimum ? lanes[i].end - p[i] : minimum;
  return minimum > 0 ? (uint64_t)(minimum + LONGEST_FRAME - 1) / LONGEST_FRAME : 0;
}

/* Moves all lanes one step at a time, while all can go on. */
static void walk_abreast(lane *lanes, const uint8_t *wanted) {
  const uint8_t *p[LANES];
  uint64_t passed = 0;
  int ahead = 0; /* how many lanes are one step ahead of the others */
  int on = 1;
  for (int i = 0; i < LANES; i++) p[i] = lanes[i].p;
  for (uint64_t steps; on && (steps = steps_for_all(lanes, p)) != 0;) {
    for (; on && steps != 0; steps--) {
#pragma GCC unroll 4
      for (int i = 0; i < LANES; i++) {
        const uint8_t *next = step(&lanes[i], p[i], passed, wanted);
        if (UNLIKELY(next == p[i])) {
          ahead = i;
          on = 0;
          break;
        }
        p[i] = next;
      }
      passed += (uint64_t)on;
    }
  }
  for (int i = 0; i < LANES; i++) {
    lanes[i].passed = passed + (i < ahead);
    lanes[i].p = p[i];
  }
}

static void walk(lane *lanes, int n, const uint8_t *wanted) {
  if (n == LANES) walk_abreast(lanes, wanted);
  for (int i = 0; i < n; i++) {
    lane *l = &lanes[i];
    while (l->p < l->end) {
      const uint8_t *next = step(l, l->p, l->passed, wanted);
      if (next == l->p) break;
      l->passed++;
      l->p = next;
    }
    if (l->p != l->end) return; /* the guess after it is not proven */
  }
}

static sd_tick *take_hits(sd_itch *itch, const lane *l, sd_tick *tick) {
  uint64_t before = itch->messages;
  for (uint32_t i = 0; i < l->hits; i++) {
    const uint8_t *m = l->hit[i] + PREFIX_BYTES;
    const sd_itch_layout *t = &sd_itch_layouts[m[0]];
    itch->messages = before + l->passed_before[i];
    if (t->hot) sd_itch_decode_hot(t, m, itch->midnight_ns, itch->messages + 1, tick);
    else if (!sd_itch_decode_rare(itch->midnight_ns, itch->messages + 1, m, tick)) continue;
    if ((uint64_t)tick->ts_recv - itch->start_ns < itch->span_ns) tick++;
  }
  itch->messages = before + l->passed;
  return tick;
}

const uint8_t *sd_itch_skim(sd_itch *itch, const uint8_t *p, const uint8_t *end, sd_tick **next, const sd_tick *full) {
  lane lanes[LANES];
  sd_tick *tick = *next;
  int whole = 1;
  while (whole && end - p >= LANES * GUESS_BYTES + HOT_BYTES && full - tick >= LANES * HITS) {
    const uint8_t *start = p;
    /* A directory has thousands of frames in a row that may not be walked over. */
    if (gaits[p[PREFIX_BYTES]] == 0) break;
    size_t stretch = (size_t)(end - p - HOT_BYTES) / LANES;
    int n = line_up(itch, p, stretch < STRETCH ? stretch : STRETCH, lanes);
    walk(lanes, n, itch->wanted);
    for (int i = 0; i < n && whole; i++) {
      const lane *l = &lanes[i];
      sd_tick *first = tick;
      tick = take_hits(itch, l, tick);
      for (const uint8_t *type = walked; *type; type++) {
        itch->counts[*type] += l->counts[*type];
        itch->unselected += *type != 'L' ? l->counts[*type] : 0;
      }
      itch->unselected -= (uint64_t)(tick - first);
      p = l->p;
      whole = i + 1 < n ? p == l->end : p >= l->end;
    }
    itch->offset += (uint64_t)(p - start);
  }
  *next = tick;
  return p;
}
