#include "measures/calendar.h"

/* Counts the first of n stretches that start at or before a moment. */
static uint64_t begun(const sd_session *stretches, uint64_t n, int64_t time) {
  uint64_t low = 0, high = n;
  while (low < high) {
    uint64_t middle = low + (high - low) / 2;
    if (stretches[middle].start <= time) low = middle + 1;
    else high = middle;
  }
  return low;
}

void sd_find_stretch(sd_stretch *s, const sd_calendar *c, int64_t time) {
  const sd_session *sessions = c->stretches, *unknown = c->stretches + c->n;
  const uint64_t low = begun(sessions, c->n, time), without = begun(unknown, c->unknown, time);
  if (c->n == 0) *s = (sd_stretch){0, INT64_MAX, SD_SESSION};
  else if (low && time < sessions[low - 1].end)
    *s = (sd_stretch){sessions[low - 1].start, sessions[low - 1].end, SD_SESSION};
  else {
    const int64_t end = low ? sessions[low - 1].end : 0, next = low < c->n ? sessions[low].start : INT64_MAX;
    const int64_t over = low && c->auctions < next - end ? end + c->auctions : low ? next : 0;
    *s = time < over ? (sd_stretch){end, over, SD_AUCTION} : (sd_stretch){over, next, SD_OUTSIDE};
  }
  /* An unknown stretch comes before all others, and cuts them. */
  if (without) {
    const sd_session last = unknown[without - 1];
    if (time < last.end) *s = (sd_stretch){last.start, last.end, SD_UNKNOWN};
    else if (last.end > s->start) s->start = last.end;
  }
  if (without < c->unknown && unknown[without].start < s->end) s->end = unknown[without].start;
}

int sd_check_known(const sd_stretch *s, const sd_calendar *c, sd_context *ctx) {
  if (s->inside != SD_UNKNOWN) return 0;
  const sd_session *unknown = c->stretches + c->n;
  const sd_unknown_text *texts = (const sd_unknown_text *)(const void *)(unknown + c->unknown);
  memcpy(ctx->message, texts[begun(unknown, c->unknown, s->start) - 1], sizeof ctx->message);
  return -1;
}

_Static_assert(sizeof(sd_unknown_text) == sizeof(((sd_context *)0)->message), "a text is a message");

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
