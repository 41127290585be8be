#include "measures/calendar.h"

void sd_find_stretch(sd_stretch *s, const sd_calendar *c, int64_t time) {
  uint64_t low = 0, high = c->n; /* sessions that start at or before time */
  while (low < high) {
    uint64_t middle = low + (high - low) / 2;
    if (c->sessions[middle].start <= time) low = middle + 1;
    else high = middle;
  }
  if (c->n == 0) *s = (sd_stretch){0, INT64_MAX, SD_SESSION};
  else if (low && time < c->sessions[low - 1].end)
    *s = (sd_stretch){c->sessions[low - 1].start, c->sessions[low - 1].end, SD_SESSION};
  else {
    const int64_t end = low ? c->sessions[low - 1].end : 0, next = low < c->n ? c->sessions[low].start : INT64_MAX;
    const int64_t over = low && c->auctions < next - end ? end + c->auctions : low ? next : 0;
    *s = time < over ? (sd_stretch){end, over, SD_AUCTION} : (sd_stretch){over, next, SD_OUTSIDE};
  }
}

int64_t sd_open_time(sd_stretch *s, const sd_calendar *c, int64_t from, int64_t to) {
  int64_t open = 0;
  while (from < to) {
    int inside = sd_stretch_at(s, c, from);
    int64_t until = s->end < to ? s->end : to;
    if (inside) open += until - from;
    from = until;
  }
  sd_stretch_at(s, c, to);
  return open;
}
