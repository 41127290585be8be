/* Which symbol a DBN instrument id stands for at a time: ids may change their meaning from day to day.
 *
 * A file may map one id in millions of spans, and the spans may overlap: adding one or finding one costs the logarithm of their number.
 * Not for two threads at once. */
#pragma once

#include <stdint.h>

/* cffi: begin */
/* Keys that stand for no symbol. */
#define SD_DBN_UNWANTED UINT32_C(0xFFFFFFFF) /* its records are skipped */
/* cffi: end */
#define SD_DBN_UNKNOWN UINT32_C(0xFFFFFFFE) /* no entry */

enum { SD_DBN_NO_ROLL = -1, SD_DBN_NO_ROOM = -2 };

/* cffi: begin */
typedef struct sd_dbn_instruments sd_dbn_instruments;
/* cffi: end */

/* What an id stands for, from a time to another. */
typedef struct sd_dbn_span {
  uint64_t first_ns;
  uint64_t last_ns; /* 0: it is none */
  uint32_t id;
  uint32_t key;
} sd_dbn_span;

static inline int sd_dbn_covers(const sd_dbn_span *s, uint32_t id, uint64_t time_ns) {
  return s->id == id && time_ns >= s->first_ns && time_ns <= s->last_ns && s->last_ns != 0;
}

/* Fibonacci hashing: ids are often neighbours. */
static inline uint64_t sd_dbn_hash(uint32_t id) { return id * UINT64_C(0x9E3779B97F4A7C15) >> 32; }

/* cffi: begin */
/* NULL: no memory. */
sd_dbn_instruments *sd_dbn_instruments_create(void);
void sd_dbn_instruments_destroy(sd_dbn_instruments *table);

/* Maps `id` to `key` from first_ns to last_ns, both included. If entries overlap, the one that was added first counts. SD_OK or
 * SD_E_NO_MEMORY. */
int sd_dbn_instruments_add(sd_dbn_instruments *table, uint32_t id, uint64_t first_ns, uint64_t last_ns, uint32_t key);

/* The same for n of each. */
int sd_dbn_instruments_fill(sd_dbn_instruments *table, const uint32_t *ids, const uint64_t *first_ns,
                            const uint64_t *last_ns, const uint32_t *keys, uint64_t n);

/* Maps `id` to `key` at all times, and forgets its other entries. SD_OK or SD_E_NO_MEMORY. */
int sd_dbn_instruments_replace(sd_dbn_instruments *table, uint32_t id, uint32_t key);
/* cffi: end */

/* The key of `id` at a time, or SD_DBN_UNKNOWN. */
uint32_t sd_dbn_instruments_find(sd_dbn_instruments *table, uint32_t id, uint64_t time_ns);

/* The span of `id` at a time; NULL: there is none. From any thread, while none changes what is mapped or calls
 * sd_dbn_instruments_find. */
const sd_dbn_span *sd_dbn_instruments_look(const sd_dbn_instruments *table, uint32_t id, uint64_t time_ns);

/* One more than the highest key that was mapped. */
uint64_t sd_dbn_instruments_keys(const sd_dbn_instruments *table);

/* The next ticks of `key`, at a time, are of `id`. Returns the id of its latest ticks if `key` no longer stands for that one, and has rolled:
 * a name that stands for two instruments at one time does not roll. Else SD_DBN_NO_ROLL; SD_DBN_NO_ROOM if there is no memory. */
int64_t sd_dbn_instruments_follow(sd_dbn_instruments *table, uint32_t key, uint32_t id, uint64_t time_ns);

/* Follows as sd_dbn_instruments_follow if the next ticks of `key` are of the instrument of its latest ones, or its first ones. Zero: they are
 * of another one, or there is no memory. From any thread beside sd_dbn_instruments_look. */
int sd_dbn_instruments_follow_on(sd_dbn_instruments *table, uint32_t key, uint32_t id);

/* The next quote of `key`, which was followed, is a publisher's. Nonzero: the one before, of the same instrument, was another's. */
int sd_dbn_instruments_mix(sd_dbn_instruments *table, uint32_t key, uint16_t publisher);
