/* Puts a chunk of records into their strands, in passes over these strands: lock, copy, add and list. Records that find no place there go
 * strand by strand (publish/one_by_one.c). */
#include "publish/chunk.h"

#include <string.h>

#include "base/clock.h"
#include "numbering/positions.h"
#include "publish/listing.h"
#include "publish/numbers.h"
#include "publish/one_by_one.h"

enum {
  RECORDS_AHEAD = 8, /* how many records, and strands' lines, ahead of their turn a prefetch asks for */
  LOCKS_AHEAD = 8,
  TOKENS_AHEAD = 12,
#if defined(SD_MODEL_SCHEDULER)
  LINKS_AHEAD = 1
#else
  LINKS_AHEAD = 16 /* the same for the places of records */
#endif
};

/* Sorts the records of a chunk into groups, up to the first key that is out of range. It keeps the keys, and writes them into the
 * segments over those of the records. Another thread may change the records' keys meanwhile, and keys find the rows. */
static inline void group_records(sd_dispatcher *d, sd_publisher *p, const unsigned char *records, int64_t n,
                                 size_t size, const int cache_cold) {
  const uint32_t *map = d->map, symbols = d->arena->n_symbols;
  uint32_t *group_of = p->group_of, n_groups = 0;
  group *groups = p->groups;
  const unsigned char *at = records + d->arena->key_offset;
  int64_t i;
  for (i = 0; i < n; i++, at += size) {
    const uint32_t key = sd_key_at(at);
    if (SD_UNLIKELY(key >= symbols)) break;
    sd_prefetch(at + RECORDS_AHEAD * size);
    if (cache_cold) prefetch_lookups(d, p, at, n - i);
    /* If every second record begins a group, a branch on it would be mispredicted as often. */
    uint32_t strand = map[key], number = group_of[strand], first = number == 0;
    n_groups += first;
    number |= n_groups & (0 - first);
    group_of[strand] = number;
    groups[number].strand = strand;
    groups[number].n++;
    p->in_group[i] = (uint16_t)number;
    p->keys[i] = key;
  }
  p->n_groups = n_groups;
  p->chunk = i;
}

/* Takes the publish lock of the group's strand, if it is free, and finds out where the strand's next record goes. The group stays closed
 * if another publisher holds the lock, or if the strand has no space for `maximum` records. */
static inline void open_group(sd_dispatcher *d, group *g, uint32_t maximum) {
  sd_strand *s = &d->strands[g->strand];
  g->missing = 0;
  g->to = g->end = NULL;
  g->locked = g->open = (uint8_t)sd_try_lock(&s->publish_lock);
  if (SD_UNLIKELY(!g->open)) return;
  if (SD_UNLIKELY(free_for(d, s, maximum) < maximum)) {
    sd_unlock(&s->publish_lock);
    g->locked = g->open = 0;
    return;
  }
  if (s->tail == SD_NONE) return;
  g->to = sd_segment_record(&d->pool, s->tail, s->fill);
  g->end = sd_segment_record(&d->pool, s->tail, d->pool.records);
  sd_prefetch_write(g->to);
}

/* Never waits for a lock, because it already holds some. */
static void open_groups(sd_dispatcher *d, sd_publisher *p) {
  const uint32_t n_groups = p->n_groups;
  for (uint32_t i = 1; i <= n_groups; i++) {
    if (i + LOCKS_AHEAD <= n_groups) prefetch_publisher_line(d, p->groups[i + LOCKS_AHEAD].strand);
    open_group(d, &p->groups[i], p->groups[i].n);
  }
}

/* Opens a group for a strand of which the chunk has had no record yet. Returns the group's number. */
static SD_NOINLINE uint32_t new_group(sd_dispatcher *d, sd_publisher *p, uint32_t strand, uint32_t maximum) {
  uint32_t number = p->group_of[strand] = ++p->n_groups;
  p->groups[number].strand = strand;
  open_group(d, &p->groups[number], maximum);
  return number;
}

/* Opens groups for the strands of the last chunk, which are probably those of the next one. */
static void open_repeat_groups(sd_dispatcher *d, sd_publisher *p, uint32_t maximum) {
  for (uint32_t i = 0; i < p->n_repeat_groups; i++) {
    if (i + LOCKS_AHEAD < p->n_repeat_groups) prefetch_publisher_line(d, p->repeat_groups[i + LOCKS_AHEAD]);
    new_group(d, p, p->repeat_groups[i], maximum);
  }
}

/* Continues the group's strand in a new segment. Zero: the group is closed, or the pool has no segment left. */
static SD_NOINLINE int next_segment(sd_dispatcher *d, uint32_t participant, group *g) {
  if (!g->open) {
    g->missing++;
    return 0;
  }
  sd_strand *s = &d->strands[g->strand];
  sd_segment_cache *cache = &d->participants[participant].cache;
  s->fill = d->pool.records;
  if (SD_UNLIKELY(!sd_strand_extend(s, &d->pool, cache))) {
    sd_strand_reclaim(s, &d->pool, cache);
    if (!sd_strand_extend(s, &d->pool, cache)) {
      g->open = 0;
      g->missing++;
      return 0;
    }
  }
  g->to = sd_segment_record(&d->pool, s->tail, 0);
  g->end = sd_segment_record(&d->pool, s->tail, d->pool.records);
  return 1;
}

/* Copies a record to its group's place. Returns where it went; NULL: there was no place. */
static inline unsigned char *link_one(sd_dispatcher *d, uint32_t participant, group *g, const unsigned char *from,
                                      size_t size, size_t key_offset, uint32_t key) {
  if (SD_UNLIKELY(g->to == g->end) && !next_segment(d, participant, g)) return NULL;
  unsigned char *to = g->to, *far = to + 2 * size;
  /* Another core drained these lines last, so ask for the strand's next line but one long before it is needed. By then it may have left
   * the first-level cache again, so ask once more a few records before its turn. */
  sd_prefetch_write(far < g->end ? far : to);
  sd_copy(to, from, size);
  /* Store only if it differs: stores wait here for lines of other cores, and this would be one more store per record. */
  if (SD_UNLIKELY(sd_key_at(to + key_offset) != key)) memcpy(to + key_offset, &key, sizeof key);
  g->to = to + size;
  return to;
}

/* How far the end of a segment's positions lies from the end of its records. */
static inline size_t past_records(const sd_dispatcher *d, size_t size) {
  return d->pool.positions_at - SD_SEGMENT_HEADER - d->pool.records * size + d->pool.records * sizeof(sd_position);
}

/* Writes the position of a record that went to `to` in its group's segment. It lies as many positions before their end as the record lies
 * records before the segment's end. */
static inline void place_one(const group *g, const unsigned char *to, size_t size, size_t past, sd_position its) {
  sd_position *end = (sd_position *)(g->end + past), *position = end - (size_t)(g->end - to) / size;
  sd_position *far = position + SD_LINE / sizeof *position;
  /* As in link_one, for the line after this one. */
  sd_prefetch_write(far < end ? far : position);
  *position = its;
}

/* Links the records of open groups in the order in which they lie. So it reads them sequentially, and no branch depends on how many
 * records a strand has. */
static inline void link_open(sd_dispatcher *d, uint32_t participant, sd_publisher *p, const unsigned char *from,
                             size_t size, const sd_position *positions) {
  const int64_t n = p->chunk;
  const size_t past = past_records(d, size), key_offset = d->arena->key_offset;
  for (int64_t i = 0; i < n; i++, from += size) {
    sd_prefetch_write(p->groups[p->in_group[i + LINKS_AHEAD < n ? i + LINKS_AHEAD : i]].to);
    group *g = &p->groups[p->in_group[i]];
    unsigned char *to = link_one(d, participant, g, from, size, key_offset, p->keys[i]);
    if (positions && to) place_one(g, to, size, past, positions[i]);
  }
}

/* Sorts into groups and links in one pass: it sorts a record when it links the one LINKS_AHEAD before it. With positions it also numbers
 * the record there. The positions of records that found no place stay in p->positions. */
static inline void link_repeat(sd_dispatcher *d, uint32_t participant, sd_publisher *p, const unsigned char *from,
                               int64_t n, size_t size, const int cache_cold, const int has_positions) {
  const size_t past = has_positions ? past_records(d, size) : 0;
  sd_position next_position = has_positions ? sd_numbers_begin(d) : (sd_position){0, 0};
  p->number = next_position.number;
  const uint32_t *map = d->map, symbols = d->arena->n_symbols, *group_of = p->group_of;
  const size_t key_offset = d->arena->key_offset;
  const unsigned char *at = from + key_offset;
  group *groups = p->groups;
  uint16_t *in_group = p->in_group;
  uint32_t *keys = p->keys;
  for (int64_t i = -LINKS_AHEAD; i < n; i++) {
    const int64_t next = i + LINKS_AHEAD;
    if (SD_LIKELY(next < n)) {
      const uint32_t key = sd_key_at(at);
      if (SD_LIKELY(key < symbols)) {
        sd_prefetch(at + RECORDS_AHEAD * size);
        if (cache_cold) prefetch_lookups(d, p, at, n - next);
        uint32_t strand = map[key], number = group_of[strand];
        if (SD_UNLIKELY(number == 0)) number = new_group(d, p, strand, (uint32_t)n);
        in_group[next] = (uint16_t)number;
        keys[next] = key;
        groups[number].n++;
        sd_prefetch_write(groups[number].to);
        at += size;
      } else {
        n = next;
      }
    }
    if (SD_LIKELY(i >= 0)) {
      group *g = &groups[in_group[i]];
      unsigned char *to = link_one(d, participant, g, from, size, key_offset, keys[i]);
      if (has_positions) {
        next_position.time = sd_time_at(d, from, next_position.time);
        if (SD_LIKELY(to != NULL)) place_one(g, to, size, past, next_position);
        else p->positions[i] = next_position;
        next_position.number++;
      }
      from += size;
    }
  }
  p->chunk = n;
  if (!has_positions) return;
  p->end_time = next_position.time;
  sd_numbers_end(d, (uint32_t)n, next_position.time);
}

/* Adds what was linked, gives the locks back, and lists the strands that became ready. Nonzero: a record found no place. */
static int add_groups(sd_dispatcher *d, uint32_t participant, sd_publisher *p, uint64_t now) {
  const uint32_t n_groups = p->n_groups, size = d->pool.record_size;
  uint32_t missing = 0;
  for (uint32_t i = 1; i <= n_groups; i++) {
    if (i + TOKENS_AHEAD <= n_groups) prefetch_token_line(d, p->groups[i + TOKENS_AHEAD].strand);
    group *g = &p->groups[i];
    missing |= g->missing;
    if (SD_UNLIKELY(!g->locked)) continue;
    sd_strand *s = &d->strands[g->strand];
    uint32_t linked = g->n - g->missing;
    uint32_t bytes_left = (uint32_t)(g->end - g->to);
    s->fill = d->pool.records - (size == 64 ? bytes_left / 64 : bytes_left / size);
    s->free_records = s->free_records - linked;
    if (p->positions && linked) d->last_number[g->strand] = p->number;
    sd_bump(&s->accepted, linked);
    add_and_unlock(d, participant, p, g->strand, linked, now);
  }
  return missing != 0;
}

/* Counts the records after they are linked and before they are added. So they are counted before any of them can be handled, and pending,
 * the difference, is never seen below 0. */
static void add_chunk(sd_dispatcher *d, uint32_t participant, sd_publisher *p, const unsigned char *records,
                      uint64_t now) {
  sd_bump(&d->participants[participant].counters.accepted, (uint64_t)p->chunk);
  p->missed = add_groups(d, participant, p, now);
  if (SD_UNLIKELY(p->missed)) sd_enqueue_missing(d, participant, p, records, now);
}

/* Makes three passes over the strands: lock, copy, add. In separate passes, the copies' stores wait for their lines in parallel. An
 * atomic operation between two groups would wait for each line in turn. */
static void enqueue_many(sd_dispatcher *d, uint32_t participant, sd_publisher *p, const unsigned char *records,
                         int64_t n, uint64_t now) {
  const size_t size = d->pool.record_size;
  if (d->cache_cold) group_records(d, p, records, n, size, 1);
  else group_records(d, p, records, n, size, 0);
  open_groups(d, p);
  if (p->positions) sd_number_records(d, p, records, (uint32_t)p->chunk);
  if (size == 64 && !p->positions) link_open(d, participant, p, records, 64, NULL);
  else if (size == 64) link_open(d, participant, p, records, 64, p->positions);
  else link_open(d, participant, p, records, size, p->positions);
  add_chunk(d, participant, p, records, now);
}

/* Makes the same three passes, but reads the records once: it locks the strands of the last chunk. With positions only this publisher
 * takes numbers, from when it holds these locks to the last record. So a strand that it meets and finds unlocked meanwhile holds no
 * higher number, and no other publisher has one that it has not finished with. */
static void enqueue_repeat(sd_dispatcher *d, uint32_t participant, sd_publisher *p, const unsigned char *records,
                           int64_t n, uint64_t now) {
  const size_t size = d->pool.record_size;
  open_repeat_groups(d, p, (uint32_t)n);
  if (size != 64) link_repeat(d, participant, p, records, n, size, 0, p->positions != NULL);
  else if (d->cache_cold) link_repeat(d, participant, p, records, n, 64, 1, p->positions != NULL);
  else if (p->positions) link_repeat(d, participant, p, records, n, 64, 0, 1);
  else link_repeat(d, participant, p, records, n, 64, 0, 0);
  add_chunk(d, participant, p, records, now);
}

/* Lossy strands go one by one, because the lock covers their heads too. So do strands with a bound over several of them, because how many
 * records of a strand may go in is known only when the chunk has been grouped; and records that have numbers, because another publisher may
 * have put a later one there. */
static void enqueue_by_strand(sd_dispatcher *d, uint32_t participant, sd_publisher *p, const unsigned char *records,
                              int64_t n, uint64_t now) {
  group_records(d, p, records, n, d->pool.record_size, 0);
  if (SD_UNLIKELY(p->given != NULL)) memcpy(p->positions, p->given + p->at, (size_t)p->chunk * sizeof *p->positions);
  else if (p->positions) sd_number_records(d, p, records, (uint32_t)p->chunk);
  for (uint32_t i = 1; i <= p->n_groups; i++) p->groups[i].missing = p->groups[i].n;
  sd_bump(&d->participants[participant].counters.accepted, (uint64_t)p->chunk);
  sd_enqueue_missing(d, participant, p, records, now);
}

/* Whether to open the strands of the last chunk: there must be groups left for all others. With positions this publisher keeps the others
 * from numbering until it ends, so it must be the only one at work. */
static int groups_repeat(const sd_dispatcher *d, uint32_t participant, const sd_publisher *p, int64_t n) {
  uint64_t groups = p->n_repeat_groups + (uint64_t)n;
  if (groups > d->arena->n_strands) groups = d->arena->n_strands;
  return p->n_repeat_groups != 0 && groups <= p->max_groups && (!p->positions || sd_publishes_alone(d, participant));
}

/* Notes the chunk's strands for the next chunk, if they were few and had space. */
static void keep_repeat_groups(sd_publisher *p) {
  const uint32_t maximum = p->missed ? 0 : (uint32_t)p->chunk / SD_REPEAT_RECORDS;
  uint32_t n_repeat_groups = 0;
  for (uint32_t i = 1; i <= p->n_groups && n_repeat_groups < maximum; i++)
    if (p->groups[i].n) p->repeat_groups[n_repeat_groups++] = p->groups[i].strand;
  p->n_repeat_groups = n_repeat_groups < maximum ? n_repeat_groups : 0;
}

void sd_enqueue_chunk(sd_dispatcher *d, uint32_t participant, sd_publisher *p, int64_t n) {
  const unsigned char *records = p->records + (size_t)p->at * d->pool.record_size;
  uint64_t now = sd_now();
  if (SD_UNLIKELY(d->by_strand || p->given)) enqueue_by_strand(d, participant, p, records, n, now);
  else if (groups_repeat(d, participant, p, n)) enqueue_repeat(d, participant, p, records, n, now);
  else enqueue_many(d, participant, p, records, n, now);
  keep_repeat_groups(p);
  sd_forget_groups(p);
  sd_list_chains(d, participant, p, now);
}
