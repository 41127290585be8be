/* The merger's rounds: find out up to where everything is final, read the buffers, and put their entries in order. */
#include <stdlib.h>
#include <string.h>

#include "merge/rounds.h"

#include "base/clock.h"
#include "emit/buffer.h"
#include "emit/writer.h"
#include "numbering/watermark.h"
#include "sd_error.h"
#include "state/state.h"
#include "worker/overdue.h"

/* How many entries ahead of the one being read have their places fetched. */
enum { REFS_AHEAD = 8 };

/* ---- the table of numbers */

/* Returns the page of a number, and makes it if there is none. NULL: no memory. */
static SD_NOINLINE sd_page *make_page(sd_outputs *o, sd_output *output, uint64_t index) {
  if (output->low_page == output->high_page) output->low_page = output->high_page = index;
  uint64_t low = index < output->low_page ? index : output->low_page;
  uint64_t high = index + 1 > output->high_page ? index + 1 : output->high_page;
  if (high - low > output->n_pages) {
    uint64_t capacity = output->n_pages ? output->n_pages : 16;
    while (capacity < high - low) capacity *= 2;
    sd_page **pages = calloc(capacity, sizeof *pages);
    if (!pages) return NULL;
    for (uint64_t i = output->low_page; i < output->high_page; i++)
      pages[i & (capacity - 1)] = output->pages[i & (output->n_pages - 1)];
    free(output->pages);
    output->pages = pages;
    output->n_pages = capacity;
  }
  output->low_page = low;
  output->high_page = high;
  sd_page **page = &output->pages[index & (output->n_pages - 1)];
  if (!*page) {
    *page = output->spare ? output->spare : calloc(1, sizeof **page);
    output->spare = NULL;
    if (*page) sd_fetch_add(&o->pool.list->bytes, sizeof **page, relaxed, E3);
  }
  return *page;
}

static inline sd_page *page_of(sd_outputs *o, sd_output *output, uint64_t number) {
  uint64_t index = number >> SD_PAGE_BITS;
  if (SD_LIKELY(index >= output->low_page && index < output->high_page)) {
    sd_page *page = output->pages[index & (output->n_pages - 1)];
    if (SD_LIKELY(page != NULL)) return page;
  }
  return make_page(o, output, index);
}

/* ---- reading buffers */

/* Adds the entries that timers emitted, from buffer->at on. */
static int add_timers(sd_output *output, sd_emit_buffer *buffer, const unsigned char *end, uint32_t ref) {
  sd_chunk *chunk = buffer->reading;
  for (const unsigned char *at = buffer->at; at < end; at += output->entry_bytes, ref++) {
    const sd_emitted *e = (const sd_emitted *)at;
    sd_prefetch(at + SD_BUFFER_AHEAD);
    if (SD_UNLIKELY(e->number == SD_VOID)) continue;
    uint64_t time = e->number == SD_AT_END ? SD_ALARM_AT_END : (uint64_t)e->time;
    if (SD_UNLIKELY(sd_alarm_records_add(&output->timers, time, e->key, ref))) return SD_E_NO_MEMORY;
    if (time > chunk->top) chunk->top = time;
  }
  return SD_OK;
}

/* Appends an entry to those of its number. Entries that C emitted come before those of Python, whose participant's buffer may have been
 * read first. `last` is the entry before it in its buffer. */
static void add_behind(const sd_outputs *o, const sd_output *output, uint32_t *first, uint32_t ref, sd_emitted *e,
                       sd_emitted *last) {
  sd_emitted *before = last && last->number == e->number ? last : NULL;
  uint32_t next;
  while ((next = before ? next_of(before) : *first) != 0) {
    sd_emitted *other = entry_at(o, output, next);
    if ((other->link & ~e->link) & SD_BY_PYTHON) break;
    before = other;
  }
  e->link |= next;
  if (before) before->link = (before->link & SD_BY_PYTHON) | ref;
  else *first = ref;
}

/* Adds the entries that ticks emitted, from buffer->at on. It only reads them, unless a tick has several, because the participant that
 * filled these lines writes them next. */
static int add_ticks(sd_outputs *o, sd_output *output, sd_emit_buffer *buffer, unsigned char *end, uint32_t ref) {
  const uint32_t size = output->entry_bytes;
  /* This many numbers from `next` on are neither SD_VOID nor already given out. */
  const uint64_t next = output->next, good = next < SD_VOID ? SD_VOID - next : 0;
  uint64_t top = buffer->reading->top, index = UINT64_MAX;
  uint32_t *refs = NULL;
  sd_emitted *last = NULL;
  for (unsigned char *at = buffer->at; at < end; at += size, ref++) {
    sd_emitted *e = (sd_emitted *)at;
    const uint64_t number = e->number;
    sd_prefetch(at + SD_BUFFER_AHEAD);
    if (end - at > REFS_AHEAD * (ptrdiff_t)size) {
      const uint64_t coming = ((const sd_emitted *)(at + REFS_AHEAD * size))->number;
      if (coming >> SD_PAGE_BITS == index) sd_prefetch_write(&refs[coming & (SD_PAGE - 1)]);
    }
    if (SD_UNLIKELY(number - next >= good)) {
      o->late += number != SD_VOID;
      continue;
    }
    if (number >> SD_PAGE_BITS != index) {
      sd_page *page = page_of(o, output, number);
      if (SD_UNLIKELY(!page)) return SD_E_NO_MEMORY;
      index = number >> SD_PAGE_BITS;
      refs = page->ref;
    }
    uint32_t *place = &refs[number & (SD_PAGE - 1)];
    if (SD_LIKELY(!*place)) *place = ref;
    else add_behind(o, output, place, ref, e, last);
    if (number > top) top = number;
    last = e;
  }
  buffer->reading->top = top;
  return SD_OK;
}

/* Whether the numbers rise over all entries from buffer->at to `filled`. */
static int rises(sd_emit_buffer *buffer, uint64_t filled) {
  uint64_t ahead = buffer->read;
  const unsigned char *at = buffer->at;
  for (sd_chunk *chunk = buffer->reading;; chunk = chunk_at(buffer->pool, chunk->next), at = entries_of(chunk)) {
    /* E4: relaxed; if it concerns an entry below `filled`, E2 has made it visible. */
    if (sd_load(&chunk->mixed, relaxed, E4)) return 0;
    ahead += (uint64_t)(entries_of(chunk) + buffer->chunk_bytes - at);
    if (ahead >= filled) return 1;
  }
}

static int read_buffer(sd_outputs *o, sd_output *output, sd_emit_buffer *buffer, int may_be_straight) {
  /* E2: acquire; pairs with E1. This comes after the watermark, so the reader sees everything that was emitted below the watermark. */
  uint64_t filled = sd_load(&buffer->so_far->filled, acquire, E2);
  buffer->straight = buffer->read;
  if (buffer->read == filled) return SD_OK;
  find_next(buffer);
  if (may_be_straight && rises(buffer, filled)) {
    buffer->straight = filled;
    return SD_OK;
  }
  while (buffer->read < filled) {
    find_next(buffer);
    unsigned char *start = entries_of(buffer->reading), *end = end_of_row(buffer, filled);
    uint32_t ref = index_of(buffer->pool, buffer->reading) << SD_REF_BITS |
                   (uint32_t)((buffer->at - start) / output->entry_bytes + 1);
    int code = buffer->timers ? add_timers(output, buffer, end, ref) : add_ticks(o, output, buffer, end, ref);
    if (SD_UNLIKELY(code)) return code;
    pass(buffer, end);
  }
  buffer->straight = buffer->read;
  return SD_OK;
}

/* ---- rounds */

/* For a quiescent dispatcher: the position of the first record that is pending on a strand. */
static sd_position first_pending(sd_dispatcher *d) {
  sd_position first = {UINT64_MAX, UINT64_MAX};
  for (uint32_t i = 0; i < d->arena->n_strands; i++) {
    sd_strand *s = &d->strands[i];
    sd_position position;
    int64_t left;
    while (sd_records_left(d, s, &left)) sd_pause();
    if (left <= 0) continue;
    sd_strand_gather_positions(s, &d->pool, 1, &position);
    if (position.number < first.number) first = position;
  }
  return first;
}

/* Publishers wait for the merger, and the merger waits for quarantined strands that may never be released. So once nothing else is
 * pending, the merger passes over them. What they emit afterwards comes too late; it is left out and counted. */
static void pass_quarantined(sd_dispatcher *d) {
  sd_outputs *o = d->outputs;
  const uint32_t set_aside = SD_QUARANTINED | SD_SET_ASIDE;
  uint64_t time, low = sd_lowest_unpublished(d, &time) - d->config.sizes.counters_start;
  for (uint32_t i = 0; i < d->arena->n_strands; i++) {
    sd_strand *s = &d->strands[i];
    if (sd_load(&s->pending, acquire, A1) > 0 && (sd_load(&s->control, acquire, A1) & set_aside) != set_aside) return;
  }
  if (low <= o->frontier) return;
  o->frontier = low;
  o->time = time;
  o->passed++;
}

uint64_t sd_outputs_below(const sd_dispatcher *d) {
  const sd_outputs *o = d->outputs;
  uint64_t below = o->frontier;
  for (uint32_t i = 0; i < o->n; i++) {
    const uint64_t next = sd_output_below(&o->output[i]);
    if (next < below) below = next;
  }
  return below;
}

/* Counts what the caller keeps: of ticks that are published, and not final yet or with records that are not out. Ticks that are being
 * published do not count: their publisher may be waiting for space, and would wait for itself. */
static void count_beside(sd_dispatcher *d) {
  sd_outputs *o = d->outputs;
  if (!o->tick_bytes) return;
  uint64_t time, low = sd_lowest_unpublished(d, &time) - d->config.sizes.counters_start, below = sd_outputs_below(d);
  const uint64_t bytes = low > below ? (low - below) * o->tick_bytes : 0;
  sd_fetch_add(&o->pool.list->bytes, bytes - o->beside, relaxed, E3);
  o->beside = bytes;
}

void sd_outputs_tick_bytes(sd_dispatcher *d, uint64_t bytes) { d->outputs->tick_bytes = bytes; }

int sd_outputs_round(sd_dispatcher *d, int how) {
  sd_outputs *o = d->outputs;
  o->ended = how == SD_FINAL_ALL;
  if (how == SD_FINAL_LIVE) {
    uint64_t start = sd_now();
    uint64_t time, frontier = sd_watermark_time(d, &time) - d->config.sizes.counters_start;
    if (frontier >= o->frontier) {
      o->frontier = frontier;
      o->time = time;
    }
    o->looked = sd_now() - start;
    if (SD_UNLIKELY(sd_outputs_full(d))) pass_quarantined(d);
    count_beside(d);
    /* After the watermark, so that this sees the alarms that handlers asked for below it; and before the buffers. */
    o->armed = sd_earliest_alarm(d);
    sd_overdue_scan_where_due(d, o->time, 1);
  } else {
    sd_position first = how == SD_FINAL_ALL ? (sd_position){UINT64_MAX, UINT64_MAX} : first_pending(d);
    o->frontier = first.number;
    o->time = first.time;
    o->armed = how == SD_FINAL_ALL ? UINT64_MAX : sd_earliest_alarm(d);
  }
  for (uint32_t participant = 0; participant < o->n_participants; participant++)
    for (uint32_t i = 0; i < 2 * o->n; i++) {
      int code = read_buffer(o, &o->output[i % o->n], o->buffer[participant * 2 * o->n + i], i < o->n && d->all_native);
      if (code) return code;
    }
  return SD_OK;
}

uint64_t sd_outputs_late(sd_dispatcher *d) { return d->outputs->late; }

uint64_t sd_outputs_look_ns(sd_dispatcher *d) { return sd_clock_ns(d->outputs->looked); }
