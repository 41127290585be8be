#include "sd_due.h"

#include <stdlib.h>
#include <string.h>

#include "sd_atomic.h"
#include "sd_error.h"

enum { FIRST_ROOM = 256, FEW = 32 };

static inline int before(const sd_due *a, const sd_due *b) {
  return a->time != b->time ? a->time < b->time : a->key < b->key;
}

int sd_due_add(sd_due_list *list, uint64_t time, uint32_t key, uint32_t ref) {
  if (SD_UNLIKELY(list->n == list->room)) {
    uint64_t room = list->room ? 2 * list->room : FIRST_ROOM;
    sd_due *due = realloc(list->due, room * sizeof *due);
    if (!due) return SD_E_NO_MEMORY;
    list->due = due;
    sd_due *spare = malloc(room * sizeof *spare);
    if (!spare) return SD_E_NO_MEMORY;
    free(list->spare);
    list->spare = spare;
    list->room = room;
  }
  list->due[list->n++] = (sd_due){time, key, ref};
  return SD_OK;
}

void sd_due_free(sd_due_list *list) {
  free(list->due);
  free(list->spare);
}

static void sort_few(sd_due *due, uint64_t n) {
  for (uint64_t i = 1; i < n; i++) {
    sd_due one = due[i];
    uint64_t to = i;
    for (; to > 0 && before(&one, &due[to - 1]); to--) due[to] = due[to - 1];
    due[to] = one;
  }
}

/* Stable, a byte after the other from the key's lowest to the time's highest, leaving out those in which all agree: what
 * comes between two rounds has few times, and keys as many as there are symbols. Returns where the result is: either. */
static sd_due *sort(sd_due *from, sd_due *to, uint64_t n) {
  uint64_t times = 0;
  uint32_t keys = 0;
  for (uint64_t i = 1; i < n; i++) {
    times |= from[i].time ^ from[0].time;
    keys |= from[i].key ^ from[0].key;
  }
  for (unsigned byte = 0; byte < 12; byte++) {
    const unsigned shift = 8 * (byte < 4 ? byte : byte - 4);
    const int by_key = byte < 4;
    uint64_t place[256] = {0}, all = 0;
    if (!(((by_key ? keys : times) >> shift) & 255)) continue;
    for (uint64_t i = 0; i < n; i++) place[((by_key ? from[i].key : from[i].time) >> shift) & 255]++;
    for (unsigned i = 0; i < 256; i++) {
      uint64_t these = place[i];
      place[i] = all;
      all += these;
    }
    for (uint64_t i = 0; i < n; i++) to[place[((by_key ? from[i].key : from[i].time) >> shift) & 255]++] = from[i];
    sd_due *swap = from;
    from = to;
    to = swap;
  }
  return from;
}

void sd_due_sort(sd_due_list *list) {
  if (list->sorted == list->n) return;
  /* What is handed out goes, once that is most of it. */
  if (list->at > list->n / 2) {
    memmove(list->due, list->due + list->at, (list->n - list->at) * sizeof *list->due);
    list->n -= list->at;
    list->sorted -= list->at;
    list->at = 0;
  }
  sd_due *due = list->due, *fresh = due + list->sorted, *sorted = fresh;
  uint64_t n = list->n - list->sorted, left = list->sorted;
  list->sorted = list->n;
  if (n < FEW) sort_few(fresh, n);
  else sorted = sort(fresh, list->spare, n);
  int behind = left == list->at || !before(sorted, &due[left - 1]);
  if (behind && sorted != fresh) memcpy(fresh, sorted, n * sizeof *due);
  if (behind) return;
  if (sorted == fresh) sorted = memcpy(list->spare, fresh, n * sizeof *due);
  for (sd_due *to = due + list->n; n;) {
    int old = left > list->at && before(&sorted[n - 1], &due[left - 1]);
    *--to = old ? due[--left] : sorted[--n];
  }
}
