/* Gives out the records that rounds have put in order, record by record, and lets go of what has been given out. */
#include "merge/merge.h"

#include <stdlib.h>
#include <string.h>

#include "state/state.h"

enum { AHEAD = 16 }; /* numbers whose records are fetched ahead of the one that is copied */

/* Copies `bytes` in whole words. It may write up to 8 bytes too many: over the place of the next record, or over the bytes that the
 * caller spares. */
SD_INLINE void copy_out(unsigned char *to, const sd_emitted *e, uint32_t bytes) {
  memcpy(to, e, SD_MERGED_HEAD + 4);
  if (__builtin_constant_p(bytes)) memcpy(to + SD_MERGED_HEAD, e + 1, bytes);
  else
    for (uint32_t i = 0; i < bytes; i += 8) memcpy(to + SD_MERGED_HEAD + i, (const unsigned char *)(e + 1) + i, 8);
}

/* How far sd_outputs_take has come. */
typedef struct output_cursor {
  unsigned char *to, *end;
} output_cursor;

static inline void hand(const sd_output *output, const sd_emitted *e, output_cursor *h) {
  copy_out(h->to, e, output->record_bytes);
  h->to += output->merged_bytes;
}

/* Gives out timers up to `time`. Nonzero: there is no space for the next one. */
static int take_due(sd_outputs *o, sd_output *output, uint64_t time, output_cursor *h) {
  sd_alarm_records *timers = &output->timers;
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

/* Gives out the records that a reference leads to. Returns the one for which there was no space, or 0. */
static uint32_t take_chain(sd_outputs *o, sd_output *output, uint32_t ref, output_cursor *h) {
  for (; ref; ref = next_of(entry_at(o, output, ref))) {
    if (h->to == h->end) return ref;
    hand(output, entry_at(o, output, ref), h);
  }
  return 0;
}

enum { NO_SPACE = 1, NOT_YET = 2 };

/* The time from which on a tick's record has to wait: for the records of timers that come first, or for an armed timer that has not fired
 * yet. */
static uint64_t stop_at(const sd_outputs *o, const sd_output *output) {
  uint64_t due = sd_alarm_records_time(&output->timers);
  return due < o->armed ? due : o->armed;
}

/* Gives out the timers that precede a tick's record of this time, from stop_at() on. */
static SD_NOINLINE int take_before(sd_outputs *o, sd_output *output, uint64_t time, output_cursor *h) {
  return time >= o->armed ? NOT_YET : take_due(o, output, time, h) ? NO_SPACE : 0;
}

/* Gives out what was emitted for `many` numbers from output->next on; `refs` are their references. NOT_YET: a timer is armed for a time
 * at or before that of the next record. */
SD_INLINE int take_refs(sd_outputs *o, sd_output *output, const uint32_t *ref, uint32_t many, uint32_t bytes,
                        output_cursor *h) {
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
    if (SD_UNLIKELY((uint64_t)head->time >= stop)) {
      h->to = to;
      stopped = take_before(o, output, (uint64_t)head->time, h);
      to = h->to;
      stop = stop_at(o, output);
      if (stopped) break;
    }
    if (SD_UNLIKELY(to == end)) {
      stopped = NO_SPACE;
      break;
    }
    copy_out(to, head, bytes);
    to += merged;
    if (SD_LIKELY(!next_of(head))) continue;
    h->to = to;
    output->rest = take_chain(o, output, next_of(head), h);
    to = h->to;
    if (!output->rest) continue;
    stopped = NO_SPACE;
    i++;
    break;
  }
  h->to = to;
  output->next += i;
  return stopped;
}

/* The same for the numbers of a page below `end`. Each usual size has its own loop. */
static int take_page(sd_outputs *o, sd_output *output, const sd_page *page, uint64_t end, output_cursor *h) {
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

/* Among the buffers whose entries are given out where they lie, the one whose next entry has the lowest number, and that number: at least
 * output->next. *beyond: the next buffer's number. NULL: there is no such buffer. */
static sd_emit_buffer *lowest_buffer(sd_outputs *o, sd_output *output, uint32_t index, uint64_t *number,
                                     uint64_t *beyond) {
  sd_emit_buffer *lowest = NULL;
  *number = *beyond = UINT64_MAX;
  for (uint32_t participant = 0; participant < o->n_participants; participant++) {
    sd_emit_buffer *buffer = o->buffer[participant * 2 * o->n + index];
    for (; buffer->read < buffer->straight; pass(buffer, buffer->at + output->entry_bytes)) {
      find_next(buffer);
      const uint64_t its = ((const sd_emitted *)buffer->at)->number;
      if (SD_UNLIKELY(its < output->next)) {
        o->late++;
        continue;
      }
      if (its < *number) {
        *beyond = *number;
        *number = its;
        lowest = buffer;
      } else if (its < *beyond) {
        *beyond = its;
      }
      break;
    }
  }
  return lowest;
}

/* Gives out the entries from `at` to `end`, which lie next to each other with rising numbers, as far as these are below `below`. Returns
 * where it ends; *stopped as for take_refs. */
SD_INLINE const unsigned char *take_row(sd_outputs *o, sd_output *output, const unsigned char *at,
                                        const unsigned char *end, uint64_t below, uint32_t bytes, output_cursor *h,
                                        int *stopped) {
  const uint32_t size = output->entry_bytes, merged = output->merged_bytes;
  unsigned char *to = h->to, *const full = h->end;
  uint64_t stop = stop_at(o, output);
  for (; at < end; at += size) {
    const sd_emitted *head = (const sd_emitted *)at;
    sd_prefetch(at + SD_BUFFER_AHEAD);
    if (head->number >= below) break;
    if (SD_UNLIKELY((uint64_t)head->time >= stop)) {
      h->to = to;
      *stopped = take_before(o, output, (uint64_t)head->time, h);
      to = h->to;
      stop = stop_at(o, output);
      if (*stopped) break;
    }
    if (SD_UNLIKELY(to == full)) {
      *stopped = NO_SPACE;
      break;
    }
    copy_out(to, head, bytes);
    to += merged;
  }
  h->to = to;
  return at;
}

/* The same, with a loop for each usual size. */
static const unsigned char *take_sized_row(sd_outputs *o, sd_output *output, const unsigned char *at,
                                           const unsigned char *end, uint64_t below, output_cursor *h, int *stopped) {
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

/* Gives out, from a buffer whose numbers rise, the entries with numbers below `below`. */
static int take_straight(sd_outputs *o, sd_output *output, sd_emit_buffer *buffer, uint64_t below, output_cursor *h) {
  int stopped = 0;
  while (!stopped && buffer->read < buffer->straight) {
    find_next(buffer);
    unsigned char *end = end_of_row(buffer, buffer->straight);
    unsigned char *at = (unsigned char *)take_sized_row(o, output, buffer->at, end, below, h, &stopped);
    if (at > buffer->at) {
      const uint64_t top = ((const sd_emitted *)(at - output->entry_bytes))->number;
      if (top > buffer->reading->top) buffer->reading->top = top;
      output->next = top + 1;
    }
    pass(buffer, at);
    if (at < end) break;
  }
  return stopped;
}

/* Gives out what the references of numbers below `end` lead to. */
static int take_pages(sd_outputs *o, sd_output *output, uint64_t end, output_cursor *h) {
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

/* The first number in [from, end) that has a reference; else `end`. */
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

/* ---- letting go */

/* Frees the pages below the one of output->next. */
static void drop_pages(sd_outputs *o, sd_output *output) {
  uint64_t low = output->next >> SD_PAGE_BITS;
  for (; output->low_page < low && output->low_page < output->high_page; output->low_page++) {
    sd_page **page = &output->pages[output->low_page & (output->n_pages - 1)];
    if (!*page) continue;
    sd_fetch_sub(&o->pool.list->bytes, sizeof **page, relaxed, E3);
    if (output->spare) free(*page);
    else output->spare = memset(*page, 0, sizeof **page);
    *page = NULL;
  }
}

static void put_chunk(const sd_chunk_pool *pool, sd_chunk *chunk) {
  sd_chunk_list *list = pool->list;
  sd_lock(&list->lock);
  chunk->next = list->free;
  list->free = index_of(pool, chunk);
  sd_unlock(&list->lock);
  sd_fetch_sub(&list->bytes, (uint64_t)SD_CHUNK_BYTES, relaxed, E3);
}

/* Frees the chunks of an output from which everything has been given out, except those being read. */
static void drop_chunks(sd_outputs *o, uint32_t index) {
  const sd_output *output = &o->output[index];
  const uint64_t number = sd_output_below(output);
  const uint64_t time = sd_alarm_records_time(&output->timers);
  for (uint32_t i = 0; i < 2 * o->n_participants; i++) {
    sd_emit_buffer *buffer = o->buffer[i * o->n + index];
    while (buffer->oldest != buffer->reading && buffer->oldest->top < (buffer->timers ? time : number)) {
      sd_chunk *done = buffer->oldest;
      buffer->oldest = chunk_at(buffer->pool, done->next);
      put_chunk(&o->pool, done);
    }
  }
}

int64_t sd_outputs_take(sd_dispatcher *d, uint32_t index, unsigned char *to, int64_t capacity) {
  sd_outputs *o = d->outputs;
  sd_output *output = &o->output[index];
  output_cursor h = {to, to + capacity * output->merged_bytes};
  sd_alarm_records_sort(&output->timers);
  if (output->rest) output->rest = take_chain(o, output, output->rest, &h);
  int stopped = output->rest ? NO_SPACE : 0;
  while (!stopped && output->next < o->frontier) {
    uint64_t number, beyond;
    sd_emit_buffer *buffer = lowest_buffer(o, output, index, &number, &beyond);
    stopped = take_pages(o, output, number < o->frontier ? number : o->frontier, &h);
    if (stopped || number >= o->frontier) continue;
    uint64_t end = beyond < o->frontier ? beyond : o->frontier;
    /* Two buffers with one number would be a fault of the numbering. They are given out all the same: this loop has to end. */
    if (SD_UNLIKELY(end <= number)) end = number + 1;
    stopped = take_straight(o, output, buffer, first_ref(output, number + 1, end), &h);
  }
  /* Give out the timers that are due and that no earlier record can precede. */
  if (stopped != NO_SPACE) {
    uint64_t time = o->time < o->armed ? o->time : o->armed - 1;
    take_due(o, output, o->ended ? SD_ALARM_AT_END : time, &h);
  }
  drop_pages(o, output);
  drop_chunks(o, index);
  return (h.to - to) / output->merged_bytes;
}
