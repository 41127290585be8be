#include "emit/alarm_merge.h"

#include <stdlib.h>
#include <string.h>

#include "base/atomic.h"
#include "sd_error.h"

enum { FIRST_CAPACITY = 256, FEW = 32, KEY_BYTES = 4, MAX_TIMES = 256 };

static inline int before(const sd_alarm_record *a, const sd_alarm_record *b) {
  return a->time != b->time ? a->time < b->time : a->key < b->key;
}

int sd_alarm_records_add(sd_alarm_records *list, uint64_t time, uint32_t key, uint32_t ref) {
  if (SD_UNLIKELY(list->n == list->capacity)) {
    uint64_t capacity = list->capacity ? 2 * list->capacity : FIRST_CAPACITY;
    sd_alarm_record *due = realloc(list->due, capacity * sizeof *due);
    if (!due) return SD_E_NO_MEMORY;
    list->due = due;
    sd_alarm_record *spare = malloc(capacity * sizeof *spare);
    if (!spare) return SD_E_NO_MEMORY;
    free(list->spare);
    list->spare = spare;
    list->capacity = capacity;
  }
  list->due[list->n++] = (sd_alarm_record){time, key, ref};
  return SD_OK;
}

void sd_alarm_records_free(sd_alarm_records *list) {
  free(list->due);
  free(list->spare);
  free(list->there);
  free(list->place);
}

static void sort_few(sd_alarm_record *due, uint64_t n) {
  for (uint64_t i = 1; i < n; i++) {
    sd_alarm_record one = due[i];
    uint64_t to = i;
    for (; to > 0 && before(&one, &due[to - 1]); to--) due[to] = due[to - 1];
    due[to] = one;
  }
}

/* Sorts n records by one byte of each. Stable. */
static inline void by_byte(const sd_alarm_record *from, sd_alarm_record *to, uint64_t n, unsigned byte) {
  uint64_t place[256] = {0}, all = 0;
  const int by_key = byte < KEY_BYTES;
  const unsigned shift = 8 * (by_key ? byte : byte - KEY_BYTES);
  for (uint64_t i = 0; i < n; i++) place[((by_key ? from[i].key : from[i].time) >> shift) & 255]++;
  for (unsigned i = 0; i < 256; i++) {
    uint64_t these = place[i];
    place[i] = all;
    all += these;
  }
  for (uint64_t i = 0; i < n; i++) to[place[((by_key ? from[i].key : from[i].time) >> shift) & 255]++] = from[i];
}

/* Sorts by time and key: one byte after the other, from the key's lowest to the time's highest, skipping bytes in which all records
 * agree. Stable. Returns where the result is, which may be either array. */
static sd_alarm_record *by_bytes(sd_alarm_record *from, sd_alarm_record *to, uint64_t n) {
  uint64_t times = 0;
  uint32_t keys = 0;
  for (uint64_t i = 1; i < n; i++) {
    times |= from[i].time ^ from[0].time;
    keys |= from[i].key ^ from[0].key;
  }
  for (unsigned byte = 0; byte < KEY_BYTES + 8; byte++) {
    if (!((byte < KEY_BYTES ? keys >> 8 * byte : times >> 8 * (byte - KEY_BYTES)) & 255)) continue;
    by_byte(from, to, n, byte);
    sd_alarm_record *swap = from;
    from = to;
    to = swap;
  }
  return from;
}

/* ---- timers on a grid
 *
 * Bars end together, so a round's records have few different times, and a symbol has one record at each time. Then a table by key sorts
 * them: for each key a bit that says whether it occurs, and where its record is. */

/* A round's times, the earliest first, and how many records each has. */
typedef struct due_times {
  uint64_t time[MAX_TIMES], n_of[MAX_TIMES];
  uint32_t n;
} due_times;

/* How many of the times are before `time`. `guess`: the place to try first, because a strand's timers come in runs. */
static inline uint32_t place_of(const due_times *times, uint64_t time, uint32_t guess) {
  if (SD_LIKELY(guess < times->n && times->time[guess] == time)) return guess;
  uint32_t low = 0, high = times->n;
  while (low < high) {
    const uint32_t middle = (low + high) / 2;
    if (times->time[middle] < time) low = middle + 1;
    else high = middle;
  }
  return low;
}

/* Zero: there are too many different times. */
static int find_times(const sd_alarm_record *due, uint64_t n, due_times *times) {
  uint32_t at = 0;
  times->n = 0;
  for (uint64_t i = 0; i < n; i++) {
    at = place_of(times, due[i].time, at);
    if (SD_UNLIKELY(at == times->n || times->time[at] != due[i].time)) {
      if (times->n == MAX_TIMES) return 0;
      for (uint32_t to = times->n++; to > at; to--) {
        times->time[to] = times->time[to - 1];
        times->n_of[to] = times->n_of[to - 1];
      }
      times->time[at] = due[i].time;
      times->n_of[at] = 0;
    }
    times->n_of[at]++;
  }
  return 1;
}

/* Puts n records in the order of their keys, all of which are at most `maximum`. Zero: two records have the same key. */
static int by_table(sd_alarm_records *list, const sd_alarm_record *from, sd_alarm_record *to, uint64_t n,
                    uint32_t maximum) {
  int once = 1;
  for (uint64_t i = 0; i < n; i++) {
    uint64_t *word = &list->there[from[i].key / 64], bit = UINT64_C(1) << from[i].key % 64;
    once &= !(*word & bit);
    *word |= bit;
    list->place[from[i].key] = (uint32_t)i;
  }
  for (uint64_t i = 0; i <= maximum / 64; i++) {
    for (uint64_t word = list->there[i]; once && word; word &= word - 1)
      *to++ = from[list->place[64 * i + (uint64_t)__builtin_ctzll(word)]];
    list->there[i] = 0;
  }
  return once;
}

/* Zero: no memory. Then the caller sorts by bytes, which is slower. */
static int reserve_keys(sd_alarm_records *list, uint32_t maximum) {
  if (maximum < list->keys) return 1;
  const uint64_t keys = ((uint64_t)maximum / 64 + 1) * 64;
  uint64_t *there = calloc(keys / 64, sizeof *there);
  uint32_t *place = malloc(keys * sizeof *place);
  if (there && place) {
    free(list->there);
    free(list->place);
    list->there = there;
    list->place = place;
    list->keys = keys;
    return 1;
  }
  free(there);
  free(place);
  return 0;
}

/* Sorts by time and then by key. Stable. Returns where the result is, which may be either array. */
static sd_alarm_record *sort(sd_alarm_records *list, sd_alarm_record *from, sd_alarm_record *to, uint64_t n) {
  due_times times;
  uint64_t at[MAX_TIMES], all = 0;
  uint32_t maximum = 0;
  if (!find_times(from, n, &times)) return by_bytes(from, to, n);
  for (uint64_t i = 0; i < n; i++) maximum = from[i].key > maximum ? from[i].key : maximum;
  /* Looking through a nearly empty table takes longer than sorting. */
  if ((uint64_t)maximum / 64 * times.n > n || !reserve_keys(list, maximum)) return by_bytes(from, to, n);
  for (uint32_t i = 0; i < times.n; i++) {
    at[i] = all;
    all += times.n_of[i];
  }
  if (times.n > 1) {
    uint32_t place = 0;
    for (uint64_t i = 0; i < n; i++) {
      place = place_of(&times, from[i].time, place);
      to[at[place]++] = from[i];
    }
    sd_alarm_record *swap = from;
    from = to;
    to = swap;
  }
  all = 0;
  for (uint32_t i = 0; i < times.n; all += times.n_of[i++])
    if (!by_table(list, from + all, to + all, times.n_of[i], maximum)) return by_bytes(from, to, n);
  return to;
}

void sd_alarm_records_sort(sd_alarm_records *list) {
  if (list->sorted == list->n) return;
  /* Remove the records that the merger has taken, once they are more than half of all. */
  if (list->at > list->n / 2) {
    memmove(list->due, list->due + list->at, (list->n - list->at) * sizeof *list->due);
    list->n -= list->at;
    list->sorted -= list->at;
    list->at = 0;
  }
  sd_alarm_record *due = list->due, *fresh = due + list->sorted, *sorted = fresh;
  uint64_t n = list->n - list->sorted, left = list->sorted;
  list->sorted = list->n;
  if (n < FEW) sort_few(fresh, n);
  else sorted = sort(list, fresh, list->spare, n);
  int behind = left == list->at || !before(sorted, &due[left - 1]);
  if (behind && sorted != fresh) memcpy(fresh, sorted, n * sizeof *due);
  if (behind) return;
  if (sorted == fresh) sorted = memcpy(list->spare, fresh, n * sizeof *due);
  for (sd_alarm_record *to = due + list->n; n;) {
    int old = left > list->at && before(&sorted[n - 1], &due[left - 1]);
    *--to = old ? due[--left] : sorted[--n];
  }
}
