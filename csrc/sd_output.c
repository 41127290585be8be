/* The merger: what lanes have, handed out in the order of the ticks it was emitted for. */
#include <stdlib.h>
#include <string.h>

#include "sd_clock.h"
#include "sd_dispatcher.h"
#include "sd_error.h"
#include "sd_timer.h"

/* Numbers whose records are fetched while one is copied; bytes of a lane that are fetched while one is read, and entries whose
 * places are. */
enum { AHEAD = 16, LANE_AHEAD = 1024, REFS_AHEAD = 8 };

#define INLINE static inline __attribute__((always_inline))

static unsigned char *entries_of(sd_chunk *chunk) { return (unsigned char *)chunk + SD_CHUNK_HEADER; }

static sd_emitted *entry_at(const sd_outputs *o, const sd_output *output, uint32_t ref) {
  sd_chunk *chunk = o->pool.table[ref >> SD_REF_BITS];
  return (sd_emitted *)(entries_of(chunk) + (size_t)((ref & ((1u << SD_REF_BITS) - 1)) - 1) * output->entry_bytes);
}

static void put_chunk(sd_chunk_pool *pool, sd_chunk *chunk) {
  sd_lock(&pool->lock);
  chunk->next = pool->free;
  pool->free = chunk;
  sd_unlock(&pool->lock);
  sd_fetch_sub(&pool->bytes, (uint64_t)SD_CHUNK_BYTES, relaxed, E3);
}

/* ---- the table of numbers */

/* The page of a number, made where there is none. NULL: no memory. */
static SD_NOINLINE sd_page *make_page(sd_outputs *o, sd_output *output, uint64_t index) {
  if (output->low_page == output->high_page) output->low_page = output->high_page = index;
  uint64_t low = index < output->low_page ? index : output->low_page;
  uint64_t high = index + 1 > output->high_page ? index + 1 : output->high_page;
  if (high - low > output->n_pages) {
    uint64_t room = output->n_pages ? output->n_pages : 16;
    while (room < high - low) room *= 2;
    sd_page **pages = calloc(room, sizeof *pages);
    if (!pages) return NULL;
    for (uint64_t i = output->low_page; i < output->high_page; i++)
      pages[i & (room - 1)] = output->pages[i & (output->n_pages - 1)];
    free(output->pages);
    output->pages = pages;
    output->n_pages = room;
  }
  output->low_page = low;
  output->high_page = high;
  sd_page **page = &output->pages[index & (output->n_pages - 1)];
  if (!*page) {
    *page = output->spare ? output->spare : calloc(1, sizeof **page);
    output->spare = NULL;
    if (*page) sd_fetch_add(&o->pool.bytes, sizeof **page, relaxed, E3);
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

/* Pages below the one of output->next are done with. */
static void drop_pages(sd_outputs *o, sd_output *output) {
  uint64_t low = output->next >> SD_PAGE_BITS;
  for (; output->low_page < low && output->low_page < output->high_page; output->low_page++) {
    sd_page **page = &output->pages[output->low_page & (output->n_pages - 1)];
    if (!*page) continue;
    sd_fetch_sub(&o->pool.bytes, sizeof **page, relaxed, E3);
    if (output->spare) free(*page);
    else output->spare = memset(*page, 0, sizeof **page);
    *page = NULL;
  }
}

/* ---- reading lanes */

/* Entries that timers emitted, from lane->at on. */
static int add_timers(sd_output *output, sd_lane *lane, const unsigned char *end, uint32_t ref) {
  sd_chunk *chunk = lane->reading;
  for (const unsigned char *at = lane->at; at < end; at += output->entry_bytes, ref++) {
    const sd_emitted *e = (const sd_emitted *)at;
    if (SD_UNLIKELY(e->number == SD_VOID)) continue;
    uint64_t time = e->number == SD_AT_END ? SD_DUE_AT_END : e->time;
    if (SD_UNLIKELY(sd_due_add(&output->timers, time, e->key, ref))) return SD_E_NO_MEMORY;
    if (time > chunk->top) chunk->top = time;
  }
  return SD_OK;
}

static inline uint32_t next_of(const sd_emitted *e) { return e->link & ~SD_BY_PYTHON; }

/* Puts an entry behind those that its number has, one that C emitted before those of Python, whose slot's lane may have been
 * read first; `last` is the one before it in its lane. */
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

/* Entries that ticks emitted, from lane->at on. They are only read, unless a tick has several: who writes their lines next is
 * the slot that filled them. */
static int add_ticks(sd_outputs *o, sd_output *output, sd_lane *lane, unsigned char *end, uint32_t ref) {
  const uint32_t size = output->entry_bytes;
  /* So many numbers from `next` on are neither SD_VOID nor handed out before. */
  const uint64_t next = output->next, good = next < SD_VOID ? SD_VOID - next : 0;
  uint64_t top = lane->reading->top, index = UINT64_MAX;
  uint32_t *refs = NULL;
  sd_emitted *last = NULL;
  for (unsigned char *at = lane->at; at < end; at += size, ref++) {
    sd_emitted *e = (sd_emitted *)at;
    const uint64_t number = e->number;
    sd_prefetch(at + LANE_AHEAD);
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
  lane->reading->top = top;
  return SD_OK;
}

/* Goes on to the chunk that has the next entry, where there is one. */
static inline void find_next(sd_lane *lane) {
  if (!lane->reading) {
    lane->reading = lane->oldest = lane->first;
    lane->at = entries_of(lane->reading);
  } else if (lane->at == entries_of(lane->reading) + lane->chunk_bytes) {
    lane->reading = lane->reading->next;
    lane->at = entries_of(lane->reading);
  }
}

/* Where a lane's entries lie in a row from lane->at on, of those that come before byte `to` of it. */
static inline unsigned char *end_of_row(const sd_lane *lane, uint64_t to) {
  unsigned char *end = entries_of(lane->reading) + lane->chunk_bytes;
  return (uint64_t)(end - lane->at) > to - lane->read ? lane->at + (to - lane->read) : end;
}

static inline void pass(sd_lane *lane, unsigned char *at) {
  lane->read += (uint64_t)(at - lane->at);
  lane->at = at;
}

/* Whether the numbers of all entries that a lane has from lane->at to `filled` rise. */
static int rises(sd_lane *lane, uint64_t filled) {
  uint64_t ahead = lane->read;
  const unsigned char *at = lane->at;
  for (sd_chunk *chunk = lane->reading;; chunk = chunk->next, at = entries_of(chunk)) {
    /* E4: relaxed; where it is of an entry below filled, E2 has it. */
    if (sd_load(&chunk->mixed, relaxed, E4)) return 0;
    ahead += (uint64_t)(entries_of(chunk) + lane->chunk_bytes - at);
    if (ahead >= filled) return 1;
  }
}

static int read_lane(sd_outputs *o, sd_output *output, sd_lane *lane, int may_be_straight) {
  /* E2: acquire; pairs with E1. After the watermark: who read that has all that was emitted below it. */
  uint64_t filled = sd_load(&lane->filled, acquire, E2);
  lane->straight = lane->read;
  if (lane->read == filled) return SD_OK;
  find_next(lane);
  if (may_be_straight && rises(lane, filled)) {
    lane->straight = filled;
    return SD_OK;
  }
  while (lane->read < filled) {
    find_next(lane);
    unsigned char *start = entries_of(lane->reading), *end = end_of_row(lane, filled);
    uint32_t ref = lane->reading->index << SD_REF_BITS | (uint32_t)((lane->at - start) / output->entry_bytes + 1);
    int code = lane->timers ? add_timers(output, lane, end, ref) : add_ticks(o, output, lane, end, ref);
    if (SD_UNLIKELY(code)) return code;
    pass(lane, end);
  }
  lane->straight = lane->read;
  return SD_OK;
}

/* Lets go of the chunks of an output of which all has been handed out, but for those that are being read. */
static void drop_chunks(sd_outputs *o, uint32_t index) {
  const sd_output *output = &o->output[index];
  const uint64_t number = output->next - (output->rest != 0);
  const uint64_t time = sd_due_time(&output->timers);
  for (uint32_t i = 0; i < 2 * o->n_slots; i++) {
    sd_lane *lane = o->lane[i * o->n + index];
    while (lane->oldest != lane->reading && lane->oldest->top < (lane->timers ? time : number)) {
      sd_chunk *done = lane->oldest;
      lane->oldest = done->next;
      put_chunk(&o->pool, done);
    }
  }
}

/* ---- rounds */

/* At rest: where the first record is that is pending on a strand. */
static sd_mark first_pending(sd_dispatcher *d) {
  sd_mark first = {UINT64_MAX, UINT64_MAX};
  for (uint32_t i = 0; i < d->arena->n_strands; i++) {
    sd_strand *s = &d->strands[i];
    sd_mark mark;
    if (sd_records_left(d, s) <= 0) continue;
    sd_strand_gather_marks(s, &d->pool, 1, &mark);
    if (mark.number < first.number) first = mark;
  }
  return first;
}

/* Publishers wait for a merger that waits for strands of which nobody knows whether they are ever released: once nothing else
 * is pending it passes them. What is emitted on them after all comes too late, and is left out and counted. */
static void pass_quarantined(sd_dispatcher *d) {
  sd_outputs *o = d->outputs;
  const uint32_t aside = SD_QUARANTINED | SD_ASIDE;
  uint64_t time, low = sd_lowest_unpublished(d, &time) - d->config.sizes.counters_start;
  for (uint32_t i = 0; i < d->arena->n_strands; i++) {
    sd_strand *s = &d->strands[i];
    if (sd_load(&s->pending, acquire, A1) > 0 && (sd_load(&s->control, acquire, A1) & aside) != aside) return;
  }
  if (low <= o->frontier) return;
  o->frontier = low;
  o->time = time;
  o->passed++;
}

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
    /* After the watermark, so that what was asked for below it is seen; and before the lanes. */
    o->armed = sd_earliest_wish(d);
    sd_clock_look(d, o->time);
  } else {
    sd_mark first = how == SD_FINAL_ALL ? (sd_mark){UINT64_MAX, UINT64_MAX} : first_pending(d);
    o->frontier = first.number;
    o->time = first.time;
    o->armed = how == SD_FINAL_ALL ? UINT64_MAX : sd_earliest_wish(d);
  }
  for (uint32_t slot = 0; slot < o->n_slots; slot++)
    for (uint32_t i = 0; i < 2 * o->n; i++) {
      int code = read_lane(o, &o->output[i % o->n], o->lane[slot * 2 * o->n + i], i < o->n && d->all_native);
      if (code) return code;
    }
  return SD_OK;
}

uint64_t sd_outputs_late(sd_dispatcher *d) { return d->outputs->late; }

uint64_t sd_outputs_look_ns(sd_dispatcher *d) { return sd_clock_ns(d->outputs->looked); }

/* ---- handing out */

/* Of `bytes` whole words: the next record, or the 8 bytes to spare, lie behind. */
INLINE void copy_out(unsigned char *to, const sd_emitted *e, uint32_t bytes) {
  memcpy(to, e, SD_MERGED_HEAD + 4);
  if (__builtin_constant_p(bytes)) memcpy(to + SD_MERGED_HEAD, e + 1, bytes);
  else
    for (uint32_t i = 0; i < bytes; i += 8) memcpy(to + SD_MERGED_HEAD + i, (const unsigned char *)(e + 1) + i, 8);
}

/* Where taking stands. */
typedef struct hand_out {
  unsigned char *to, *end;
} hand_out;

static inline void hand(const sd_output *output, const sd_emitted *e, hand_out *h) {
  copy_out(h->to, e, output->record_bytes);
  h->to += output->merged_bytes;
}

/* Hands out timers up to `time`; nonzero: there is no room for the next one. */
static int take_due(sd_outputs *o, sd_output *output, uint64_t time, hand_out *h) {
  sd_due_list *timers = &output->timers;
  for (; timers->at < timers->n && timers->due[timers->at].time <= time; timers->at++) {
    if (timers->at + AHEAD < timers->n) {
      const unsigned char *coming = (const unsigned char *)entry_at(o, output, timers->due[timers->at + AHEAD].ref);
      for (uint32_t line = 0; line < output->entry_bytes; line += SD_LINE) sd_prefetch(coming + line);
      sd_prefetch(coming + output->entry_bytes - 1);
    }
    if (h->to == h->end) return 1;
    hand(output, entry_at(o, output, timers->due[timers->at].ref), h);
  }
  return 0;
}

/* Hands out the records that a reference leads to; returns the one that found no room, else 0. */
static uint32_t take_chain(sd_outputs *o, sd_output *output, uint32_t ref, hand_out *h) {
  for (; ref; ref = next_of(entry_at(o, output, ref))) {
    if (h->to == h->end) return ref;
    hand(output, entry_at(o, output, ref), h);
  }
  return 0;
}

enum { NO_ROOM = 1, NOT_YET = 2 };

/* The time from which on something comes before a tick's record: a timer's, or nothing as long as it is armed. */
static uint64_t stop_at(const sd_outputs *o, const sd_output *output) {
  uint64_t due = sd_due_time(&output->timers);
  return due < o->armed ? due : o->armed;
}

/* Hands out timers that come before a tick's record of this time, from stop_at() on. */
static SD_NOINLINE int take_before(sd_outputs *o, sd_output *output, uint64_t time, hand_out *h) {
  /* The greatest time stands for never. */
  if (time == UINT64_MAX) time--;
  return time >= o->armed ? NOT_YET : take_due(o, output, time, h) ? NO_ROOM : 0;
}

/* Hands out what was emitted for `many` numbers from output->next on, whose references these are. NOT_YET: a timer is armed for
 * a time that is not after the next record's. */
INLINE int take_refs(sd_outputs *o, sd_output *output, const uint32_t *ref, uint32_t many, uint32_t bytes,
                     hand_out *h) {
  const uint32_t size = output->entry_bytes, merged = output->merged_bytes;
  const unsigned char *e = NULL;
  unsigned char *to = h->to, *const end = h->end;
  uint64_t stop = stop_at(o, output);
  uint32_t i, last = SD_NONE;
  int stopped = 0;
  for (i = 0; i < many; i++) {
    if (i + AHEAD < many && ref[i + AHEAD]) {
      const unsigned char *coming = (const unsigned char *)entry_at(o, output, ref[i + AHEAD]);
      sd_prefetch(coming);
      sd_prefetch(coming + size - 1);
    }
    if (!ref[i]) continue;
    e = ref[i] == last + 1 ? e + size : (const unsigned char *)entry_at(o, output, ref[i]);
    last = ref[i];
    const sd_emitted *head = (const sd_emitted *)e;
    if (SD_UNLIKELY(head->time >= stop)) {
      h->to = to;
      stopped = take_before(o, output, head->time, h);
      to = h->to;
      stop = stop_at(o, output);
      if (stopped) break;
    }
    if (SD_UNLIKELY(to == end)) {
      stopped = NO_ROOM;
      break;
    }
    copy_out(to, head, bytes);
    to += merged;
    if (SD_LIKELY(!next_of(head))) continue;
    h->to = to;
    output->rest = take_chain(o, output, next_of(head), h);
    to = h->to;
    if (!output->rest) continue;
    stopped = NO_ROOM;
    i++;
    break;
  }
  h->to = to;
  output->next += i;
  return stopped;
}

/* The same for the numbers of a page below `end`, by a loop of its own for each usual size. */
static int take_page(sd_outputs *o, sd_output *output, const sd_page *page, uint64_t end, hand_out *h) {
  const uint32_t many = (uint32_t)(end - output->next), *ref = &page->ref[output->next & (SD_PAGE - 1)];
  switch ((output->record_bytes + 7) / 8) {
  case 1:
    return take_refs(o, output, ref, many, 8, h);
  case 2:
    return take_refs(o, output, ref, many, 16, h);
  case 3:
    return take_refs(o, output, ref, many, 24, h);
  case 4:
    return take_refs(o, output, ref, many, 32, h);
  default:
    return take_refs(o, output, ref, many, output->record_bytes, h);
  }
}

/* The lane whose next entry has the lowest number of those that are handed out where they lie, and that number: at least
 * output->next. *beyond: the next lane's. NULL: there is none. */
static sd_lane *lowest_lane(sd_outputs *o, sd_output *output, uint32_t index, uint64_t *number, uint64_t *beyond) {
  sd_lane *lowest = NULL;
  *number = *beyond = UINT64_MAX;
  for (uint32_t slot = 0; slot < o->n_slots; slot++) {
    sd_lane *lane = o->lane[slot * 2 * o->n + index];
    for (; lane->read < lane->straight; pass(lane, lane->at + output->entry_bytes)) {
      find_next(lane);
      const uint64_t its = ((const sd_emitted *)lane->at)->number;
      if (SD_UNLIKELY(its < output->next)) {
        o->late++;
        continue;
      }
      if (its < *number) {
        *beyond = *number;
        *number = its;
        lowest = lane;
      } else if (its < *beyond) {
        *beyond = its;
      }
      break;
    }
  }
  return lowest;
}

/* Hands out entries from `at` to `end` that lie in a row and whose numbers rise, as far as these are below `below`. Returns where
 * it ends; *stopped as take_refs. */
INLINE const unsigned char *take_row(sd_outputs *o, sd_output *output, const unsigned char *at,
                                     const unsigned char *end, uint64_t below, uint32_t bytes, hand_out *h,
                                     int *stopped) {
  const uint32_t size = output->entry_bytes, merged = output->merged_bytes;
  unsigned char *to = h->to, *const full = h->end;
  uint64_t stop = stop_at(o, output);
  for (; at < end; at += size) {
    const sd_emitted *head = (const sd_emitted *)at;
    sd_prefetch(at + LANE_AHEAD);
    if (head->number >= below) break;
    if (SD_UNLIKELY(head->time >= stop)) {
      h->to = to;
      *stopped = take_before(o, output, head->time, h);
      to = h->to;
      stop = stop_at(o, output);
      if (*stopped) break;
    }
    if (SD_UNLIKELY(to == full)) {
      *stopped = NO_ROOM;
      break;
    }
    copy_out(to, head, bytes);
    to += merged;
  }
  h->to = to;
  return at;
}

/* The same by a loop of its own for each usual size. */
static const unsigned char *take_sized_row(sd_outputs *o, sd_output *output, const unsigned char *at,
                                           const unsigned char *end, uint64_t below, hand_out *h, int *stopped) {
  switch ((output->record_bytes + 7) / 8) {
  case 1:
    return take_row(o, output, at, end, below, 8, h, stopped);
  case 2:
    return take_row(o, output, at, end, below, 16, h, stopped);
  case 3:
    return take_row(o, output, at, end, below, 24, h, stopped);
  case 4:
    return take_row(o, output, at, end, below, 32, h, stopped);
  default:
    return take_row(o, output, at, end, below, output->record_bytes, h, stopped);
  }
}

/* Hands out what a lane whose numbers rise has for numbers below `below`. */
static int take_straight(sd_outputs *o, sd_output *output, sd_lane *lane, uint64_t below, hand_out *h) {
  int stopped = 0;
  while (!stopped && lane->read < lane->straight) {
    find_next(lane);
    unsigned char *end = end_of_row(lane, lane->straight);
    unsigned char *at = (unsigned char *)take_sized_row(o, output, lane->at, end, below, h, &stopped);
    if (at > lane->at) {
      const uint64_t top = ((const sd_emitted *)(at - output->entry_bytes))->number;
      if (top > lane->reading->top) lane->reading->top = top;
      output->next = top + 1;
    }
    pass(lane, at);
    if (at < end) break;
  }
  return stopped;
}

/* Hands out what references of numbers below `end` lead to. */
static int take_pages(sd_outputs *o, sd_output *output, uint64_t end, hand_out *h) {
  int stopped = 0;
  while (!stopped && output->next < end) {
    uint64_t here = output->next >> SD_PAGE_BITS, to = (here + 1) << SD_PAGE_BITS;
    if (here >= output->high_page) {
      output->next = end;
      break;
    }
    if (to > end) to = end;
    sd_page *page = here < output->low_page ? NULL : output->pages[here & (output->n_pages - 1)];
    if (page) stopped = take_page(o, output, page, to, h);
    else output->next = to;
  }
  return stopped;
}

/* The first number from `from` on, and below `end`, that has a reference; else `end`. */
static uint64_t first_ref(const sd_output *output, uint64_t from, uint64_t end) {
  while (from < end) {
    const uint64_t here = from >> SD_PAGE_BITS;
    if (here >= output->high_page) return end;
    const uint64_t to = (here + 1) << SD_PAGE_BITS;
    const sd_page *page = here < output->low_page ? NULL : output->pages[here & (output->n_pages - 1)];
    if (page)
      for (; from < to && from < end; from++)
        if (page->ref[from & (SD_PAGE - 1)]) return from;
    from = to;
  }
  return end;
}

int64_t sd_outputs_take(sd_dispatcher *d, uint32_t index, unsigned char *to, int64_t room) {
  sd_outputs *o = d->outputs;
  sd_output *output = &o->output[index];
  hand_out h = {to, to + room * output->merged_bytes};
  sd_due_sort(&output->timers);
  if (output->rest) output->rest = take_chain(o, output, output->rest, &h);
  int stopped = output->rest ? NO_ROOM : 0;
  while (!stopped && output->next < o->frontier) {
    uint64_t number, beyond;
    sd_lane *lane = lowest_lane(o, output, index, &number, &beyond);
    stopped = take_pages(o, output, number < o->frontier ? number : o->frontier, &h);
    if (stopped || number >= o->frontier) continue;
    uint64_t end = beyond < o->frontier ? beyond : o->frontier;
    stopped = take_straight(o, output, lane, first_ref(output, number + 1, end), &h);
  }
  /* Timers that are due, and that no earlier record can come before. */
  if (stopped != NO_ROOM) {
    uint64_t time = o->time < o->armed ? o->time : o->armed - 1;
    take_due(o, output, o->ended ? SD_DUE_AT_END : time, &h);
  }
  drop_pages(o, output);
  drop_chunks(o, index);
  return (h.to - to) / output->merged_bytes;
}
