/* The merger: what lanes have, handed out in the order of the ticks it was emitted for. */
#include <stdlib.h>
#include <string.h>

#include "sd_clock.h"
#include "sd_dispatcher.h"
#include "sd_error.h"
#include "sd_timer.h"

enum { AHEAD = 16 /* numbers whose records are fetched while one is copied */ };

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

/* An entry of a chunk is done with. The lane being read is let go of when it is left. */
static inline void let_go(sd_outputs *o, uint32_t ref) {
  sd_chunk *chunk = o->pool.table[ref >> SD_REF_BITS];
  if (--chunk->left == 0 && chunk->lane->reading != chunk) put_chunk(&o->pool, chunk);
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

/* Pages below the one of output->next are done with: every reference in them is 0. */
static void drop_pages(sd_outputs *o, sd_output *output) {
  uint64_t low = output->next >> SD_PAGE_BITS;
  for (; output->low_page < low && output->low_page < output->high_page; output->low_page++) {
    sd_page **page = &output->pages[output->low_page & (output->n_pages - 1)];
    if (!*page) continue;
    sd_fetch_sub(&o->pool.bytes, sizeof **page, relaxed, E3);
    if (output->spare) free(*page);
    else output->spare = *page;
    *page = NULL;
  }
}

/* ---- reading lanes */

static int add_due(sd_output *output, const sd_emitted *e, uint32_t ref) {
  if (output->n_due == output->room_due) {
    uint64_t room = output->room_due ? 2 * output->room_due : 256;
    sd_due *due = realloc(output->due, room * sizeof *due);
    if (!due) return SD_E_NO_MEMORY;
    output->due = due;
    output->room_due = room;
  }
  output->due[output->n_due++] = (sd_due){e->time, e->number, e->key, ref, output->arrivals++};
  return SD_OK;
}

/* Puts an entry behind those of its number. */
static inline int add_entry(sd_outputs *o, sd_output *output, sd_emitted *e, uint32_t ref, sd_emitted *last) {
  e->link = 0;
  if (last && last->number == e->number && last->link == 0) {
    last->link = ref;
    return SD_OK;
  }
  sd_page *page = page_of(o, output, e->number);
  if (SD_UNLIKELY(!page)) return SD_E_NO_MEMORY;
  uint32_t *at = &page->ref[e->number & (SD_PAGE - 1)];
  while (SD_UNLIKELY(*at)) at = &entry_at(o, output, *at)->link;
  *at = ref;
  return SD_OK;
}

static int read_lane(sd_outputs *o, sd_output *output, sd_lane *lane) {
  /* E2: acquire; pairs with E1. After the watermark: who read that has all that was emitted below it. */
  uint64_t filled = sd_load(&lane->filled, acquire, E2);
  const uint32_t size = output->entry_bytes;
  sd_emitted *last = NULL;
  while (lane->read < filled) {
    if (!lane->reading) {
      lane->reading = lane->first;
      lane->at = entries_of(lane->reading);
    } else if (lane->at == entries_of(lane->reading) + lane->chunk_bytes) {
      sd_chunk *old = lane->reading;
      lane->reading = old->next;
      lane->at = entries_of(lane->reading);
      if (old->left == 0) {
        put_chunk(&o->pool, old);
        last = NULL;
      }
    }
    unsigned char *start = entries_of(lane->reading), *end = start + lane->chunk_bytes;
    if ((uint64_t)(end - lane->at) > filled - lane->read) end = lane->at + (filled - lane->read);
    uint32_t ref = lane->reading->index << SD_REF_BITS | (uint32_t)((lane->at - start) / size + 1);
    lane->read += (uint64_t)(end - lane->at);
    for (; lane->at < end; lane->at += size, ref++) {
      sd_emitted *e = (sd_emitted *)lane->at;
      sd_prefetch(lane->at + 8 * size);
      int code = SD_OK;
      if (SD_UNLIKELY(e->number == SD_VOID)) {
        lane->reading->left--;
        continue;
      }
      if (SD_UNLIKELY(e->number < output->next)) {
        lane->reading->left--;
        o->late++;
        continue;
      }
      if (SD_UNLIKELY(lane->timers)) code = add_due(output, e, ref);
      else code = add_entry(o, output, e, ref, last);
      if (SD_UNLIKELY(code)) return code;
      last = e;
    }
  }
  return SD_OK;
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
      int code = read_lane(o, &o->output[i % o->n], o->lane[slot * 2 * o->n + i]);
      if (code) return code;
    }
  return SD_OK;
}

uint64_t sd_outputs_late(sd_dispatcher *d) { return d->outputs->late; }

uint64_t sd_outputs_look_ns(sd_dispatcher *d) { return sd_clock_ns(d->outputs->looked); }

/* ---- handing out */

static int compare_due(const void *a, const void *b) {
  const sd_due *x = a, *y = b;
  /* The end's come after all timers'. */
  if (x->number != y->number) return x->number == SD_AT_END ? 1 : -1;
  if (x->number == SD_TIMER && x->time != y->time) return x->time < y->time ? -1 : 1;
  if (x->key != y->key) return x->key < y->key ? -1 : 1;
  return x->arrival < y->arrival ? -1 : 1;
}

/* Puts what has come since the last time into its places. What is far from being handed out is not touched again. */
static void sort_due(sd_output *output) {
  if (output->due_sorted == output->n_due) return;
  if (output->due_at > output->n_due / 2) {
    memmove(output->due, output->due + output->due_at, (output->n_due - output->due_at) * sizeof *output->due);
    output->n_due -= output->due_at;
    output->due_sorted -= output->due_at;
    output->due_at = 0;
  }
  sd_due *due = output->due, *fresh = due + output->due_sorted;
  uint64_t n = output->n_due - output->due_sorted, left = output->due_sorted;
  qsort(fresh, n, sizeof *fresh, compare_due);
  output->due_sorted = output->n_due;
  if (left == output->due_at || compare_due(&due[left - 1], fresh) < 0) return;
  sd_due *copy = malloc(n * sizeof *copy);
  if (!copy) {
    qsort(due + output->due_at, output->n_due - output->due_at, sizeof *due, compare_due);
    return;
  }
  memcpy(copy, fresh, n * sizeof *copy);
  for (sd_due *to = due + output->n_due; n;) {
    int old = left > output->due_at && compare_due(&copy[n - 1], &due[left - 1]) < 0;
    *--to = old ? due[--left] : copy[--n];
  }
  free(copy);
}

static inline void copy_out(const sd_output *output, const sd_emitted *e, unsigned char *to) {
  memcpy(to, e, SD_MERGED_HEAD);
  /* Whole words: the next record, or the 8 bytes to spare, lie behind. */
  const unsigned char *from = (const unsigned char *)(e + 1);
  to += SD_MERGED_HEAD;
  for (uint32_t i = 0; i < output->record_bytes; i += 8) memcpy(to + i, from + i, 8);
}

/* Where taking stands. */
typedef struct hand_out {
  unsigned char *to;
  int64_t n, room;
} hand_out;

/* Hands out timers before `time`; nonzero: there is no room for the next one. */
static int take_due(sd_outputs *o, sd_output *output, uint64_t time, int at_end, hand_out *h) {
  for (; output->due_at < output->n_due; output->due_at++) {
    const sd_due *due = &output->due[output->due_at];
    if (due->number == SD_TIMER ? due->time > time : !at_end) return 0;
    if (h->n == h->room) return 1;
    sd_emitted *e = entry_at(o, output, due->ref);
    copy_out(output, e, h->to);
    h->to += output->merged_bytes;
    h->n++;
    let_go(o, due->ref);
  }
  return 0;
}

/* Hands out the records that a reference leads to; returns the one that found no room, else 0. */
static inline uint32_t take_chain(sd_outputs *o, sd_output *output, uint32_t ref, hand_out *h) {
  while (ref) {
    if (h->n == h->room) return ref;
    const sd_emitted *e = entry_at(o, output, ref);
    uint32_t link = e->link;
    copy_out(output, e, h->to);
    h->to += output->merged_bytes;
    h->n++;
    let_go(o, ref);
    ref = link;
  }
  return 0;
}

enum { NO_ROOM = 1, NOT_YET = 2 };

/* Hands out what was emitted for the numbers of a page from output->next to below `end`. NOT_YET: a timer is armed for a time
 * that is not after the next record's. */
static int take_page(sd_outputs *o, sd_output *output, sd_page *page, uint64_t end, hand_out *h) {
  const uint32_t many = (uint32_t)(end - output->next), *ref = &page->ref[output->next & (SD_PAGE - 1)];
  for (uint32_t i = 0; i < many; i++) {
    if (i + AHEAD < many && ref[i + AHEAD]) {
      const unsigned char *coming = (const unsigned char *)entry_at(o, output, ref[i + AHEAD]);
      sd_prefetch(coming);
      sd_prefetch(coming + output->entry_bytes - 1);
    }
    if (!ref[i]) continue;
    const sd_emitted *e = entry_at(o, output, ref[i]);
    int early = e->time >= o->armed;
    if (SD_UNLIKELY(early || (output->due_at < output->n_due && take_due(o, output, e->time, 0, h)))) {
      output->next += i;
      return early ? NOT_YET : NO_ROOM;
    }
    uint32_t rest = take_chain(o, output, ref[i], h);
    page->ref[(output->next + i) & (SD_PAGE - 1)] = 0;
    if (SD_UNLIKELY(rest)) {
      output->rest = rest;
      output->next += i + 1;
      return NO_ROOM;
    }
  }
  output->next = end;
  return 0;
}

int64_t sd_outputs_take(sd_dispatcher *d, uint32_t index, unsigned char *to, int64_t room) {
  sd_outputs *o = d->outputs;
  sd_output *output = &o->output[index];
  hand_out h = {to, 0, room};
  sort_due(output);
  if (output->rest) output->rest = take_chain(o, output, output->rest, &h);
  int stopped = output->rest ? NO_ROOM : 0;
  while (!stopped && output->next < o->frontier) {
    uint64_t here = output->next >> SD_PAGE_BITS, end = (here + 1) << SD_PAGE_BITS;
    if (here >= output->high_page) {
      output->next = o->frontier;
      break;
    }
    if (end > o->frontier) end = o->frontier;
    sd_page *page = here < output->low_page ? NULL : output->pages[here & (output->n_pages - 1)];
    if (page) stopped = take_page(o, output, page, end, &h);
    else output->next = end;
  }
  drop_pages(o, output);
  /* Timers that are due, and that no earlier record can come before. */
  if (stopped != NO_ROOM) {
    uint64_t time = o->time < o->armed ? o->time : o->armed - 1;
    take_due(o, output, time, o->ended, &h);
  }
  return h.n;
}
