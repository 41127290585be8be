#include "codec/files.h"

#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#include "base/clock.h"
#include "codec/merge/merge.h"

enum {
  STEP = 1 << 18, /* bytes of all files together from cut to cut, about */
  LEAST_STEP = STEP / 16,
  PROBE = STEP / 4,  /* so far ahead the pace of a file is looked at */
  LOOK = STEP / 32,  /* bytes that are read at once to look for a cut */
  EXTRA = STEP / 32, /* a part's bytes are read so far beyond where its end is expected */
  LOOKS = 40,
  WALK = 1 << 18, /* bytes that are walked over at once, */
  MOST_WALKED = 1 << 25,
  CHUNK = 32, /* ticks whose times are looked at together */
  AT_ONCE = 128,
  KEYS = 1 << 16
};

/* A part of a block, and what the thread that made it knew of its ends. */
typedef struct slot_part {
  sd_block block;
  uint64_t run;     /* that of sd_files_part in which its place is known */
  int64_t from, to; /* the times of the cuts */
} slot_part;

/* Homes for the lists of parts: the first one for all keys. */
static const uint8_t first_home[KEYS];

static slot_part *parts_of(const sd_block *b) { return (slot_part *)(void *)b->bytes; }

static uint64_t behind(const sd_files_part *p, uint32_t f) { return p->part[f].format->behind; }

static uint64_t read_part(const sd_files_part *p, uint32_t f, uint8_t *to, uint64_t size, uint64_t at, sd_block *b) {
  const uint64_t start = sd_now(), got = sd_read_at(p->part[f].fd, to, size, p->part[f].base + at);
  if (b) b->reading += sd_now() - start;
  return got;
}

/* A walk over a file's records: the time that is looked for, and that of the record before which makes ticks. */
typedef struct step {
  int64_t time, before;
  int turns; /* only where the time changes */
  uint64_t left;
} step;

/* Looks for the first record that makes ticks at s->time or later, in p[0 .. size), which begins with a record. Returns its place, and
 * s->time: its time. `size`: none. s->left: where the walk ended, because records end, or one has a fault or a time that runs backwards. */
static uint64_t walk_to(const sd_file_part *part, const uint8_t *p, uint64_t size, step *s) {
  const uint64_t last = part->format->behind;
  uint64_t at = 0;
  while (at + last <= size) {
    int64_t its;
    const uint32_t length = part->format->look(part, p + at, &its);
    if (!length) break;
    if (its != INT64_MIN) {
      if (its < s->before) break;
      if (its >= s->time && (!s->turns || (s->before != INT64_MIN && its > s->before))) {
        s->time = its;
        s->left = at;
        return at;
      }
      s->before = its;
    }
    at += length;
  }
  s->left = at;
  return size;
}

/* Looks for the first record that makes ticks. Returns its place, or `size`. */
static uint64_t walk_to_any(const sd_file_part *part, const uint8_t *p, uint64_t size, int64_t *time) {
  step s = {.time = INT64_MIN, .before = INT64_MIN};
  const uint64_t at = walk_to(part, p, size, &s);
  *time = s.time;
  return at;
}

/* The leader's n-th cut: where it is, and *time. UINT64_MAX: there is none. `bytes`: of the file, from `start` on. */
static uint64_t leader_cut(const sd_files_part *p, const uint8_t *bytes, uint64_t size, uint64_t start, uint64_t at,
                           int64_t *time) {
  const sd_file_part *part = &p->part[p->leader];
  const uint64_t room = (uint64_t)part->format->search + part->format->behind, here = at - start;
  if (here + 2 * room > size) return UINT64_MAX;
  const uint64_t first = part->format->find(part, bytes + here, part->format->search);
  if (first == part->format->search) return UINT64_MAX;
  step s = {.time = INT64_MIN, .before = INT64_MIN, .turns = 1};
  const uint64_t far = 2 * room - first, found = walk_to(part, bytes + here + first, far, &s);
  *time = s.time;
  return found == far ? UINT64_MAX : at + first + found;
}

/* Where a file has its first tick of `time` or later, which is expected at `guess`. UINT64_MAX: it was not found. */
static uint64_t seek(const sd_files_part *p, uint32_t f, uint64_t guess, int64_t time, uint8_t *room, sd_block *b) {
  const sd_file_part *part = &p->part[f];
  const uint64_t begin = part->begin, search = part->format->search, size = LOOK + search + behind(p, f);
  uint64_t least = begin, most = p->ends[f], back = LOOK;
  for (int i = 0; i < LOOKS; i++) {
    uint64_t at = guess > most ? most : guess;
    at -= at % 8;
    if (at < least) at = least;
    const uint64_t got = read_part(p, f, room, size, at, b);
    if (got < search + behind(p, f)) return UINT64_MAX;
    const uint64_t first = at == least ? 0 : part->format->find(part, room, search);
    if (first == search) return UINT64_MAX;
    int64_t its;
    const uint64_t any = walk_to_any(part, room + first, got - first, &its);
    if (any == got - first) return UINT64_MAX;
    if (its >= time) {
      if (at == least) return at + any;
      most = at;
      guess = at > least + back ? at - back : least;
      back *= 2;
      continue;
    }
    step s = {.time = time, .before = INT64_MIN};
    const uint64_t found = walk_to(part, room + first, got - first, &s);
    if (found != got - first) return at + first + found;
    least = at + first + s.left;
    /* Half way, if a place behind it is known; else further each time. */
    guess = most <= at + LOOK ? least
            : back > LOOK     ? least + (most - least) / 2
                              : least + (uint64_t)LOOK / 2 * (uint64_t)i;
  }
  return UINT64_MAX;
}

static uint64_t ahead(double rate, int64_t from, int64_t to) {
  const double bytes = rate * (double)(to - from);
  return to <= from || !(bytes > 0) ? 0 : bytes > 1e12 ? (uint64_t)1e12 : (uint64_t)bytes;
}

/* Where a file's part of a block is expected to begin, by what the slot had before, and *rate: how fast the file goes. */
static uint64_t expect(const sd_files_part *p, uint32_t f, const slot_part *old, int64_t time, double *rate) {
  *rate = p->rate[f];
  uint64_t at = p->part[f].begin;
  int64_t from = p->begun;
  if (old->run == p->run) {
    at = old->block.end;
    from = old->to;
    *rate = (double)(old->block.end - old->block.begin) / (double)(old->to - old->from);
  }
  at += ahead(*rate, from, time);
  return at > LOOK / 2 ? at - LOOK / 2 : 0;
}

/* Reads a part that begins at block->begin, up to the cut of `time`, which is expected `wanted` bytes further, and finds where it ends.
 * Zero: it is too long, or nothing was found. */
static int read_to(const sd_files_part *p, uint32_t f, sd_block *v, uint64_t wanted, int64_t time, uint64_t *end,
                   sd_block *b) {
  const sd_file_part *part = &p->part[f];
  const uint64_t room = p->bytes[f], search = part->format->search, over = wanted + wanted / 4 + EXTRA + behind(p, f);
  uint64_t want = over < room ? over : room, got = read_part(p, f, v->bytes, want, v->begin, b), walked = 0;
  v->start = v->begin;
  /* Most of it is passed over at once. */
  uint64_t at = wanted > EXTRA ? wanted - EXTRA / 2 : 0;
  for (at -= at % 8; at > 2 * search && at + search + behind(p, f) < got; at = at / 2 - at / 2 % 8) {
    const uint64_t first = part->format->find(part, v->bytes + at, search), size = got - at - first;
    int64_t its;
    if (first == search || walk_to_any(part, v->bytes + at + first, size, &its) == size) return 0;
    if (its >= time) continue;
    walked = at + first;
    break;
  }
  step s = {.time = time, .before = INT64_MIN};
  for (;;) {
    const uint64_t size = got - walked, found = walk_to(part, v->bytes + walked, size, &s);
    if (found != size) {
      *end = v->begin + walked + found;
      return 1;
    }
    walked += s.left;
    if (got < want || want == room || walked + behind(p, f) <= got) return 0;
    want = 2 * want < room ? 2 * want : room;
    got += read_part(p, f, v->bytes + got, want - got, v->begin + got, b);
  }
}

/* Makes a part's list: of the ticks of records in [begin, end). Zero: it is odd. */
static int list_part(const sd_files_part *p, uint32_t f, sd_block *v, uint64_t end) {
  memset(v->notes, 0, sizeof v->notes);
  v->n[0] = 0;
  v->numbers = NULL;
  v->odd = 0;
  if (v->begin == end) {
    v->end = end;
    return 1;
  }
  v->odd = 1;
  p->part[f].format->walk(&p->part[f], v, v->bytes + (v->begin - v->start), v->bytes + (end - v->start), first_home);
  return !v->odd && v->end == end && v->notes[SD_NOTE_TICKS] == v->n[0];
}

/* The next tick of a part on its way into the merge. */
typedef struct head {
  int64_t time;
  const sd_block_entry *entry, *end;
  uint32_t at, n;
  int64_t times[CHUNK];
} head;

static void fill(const sd_files_part *p, uint32_t f, const sd_block *v, head *h) {
  const uint64_t left = (uint64_t)(h->end - h->entry);
  h->n = left < CHUNK ? (uint32_t)left : CHUNK;
  h->at = 0;
  if (!h->n) {
    h->time = INT64_MAX;
    return;
  }
  p->part[f].format->times(&p->part[f], v, h->entry, h->n, h->times);
  h->time = h->times[0];
}

/* Puts the ticks of all parts into the block's lists, in the order of the merge. Zero: one has no number. */
static int merge_parts(const sd_files_part *p, sd_block *b, const uint8_t *home_of) {
  head heads[SD_MOST_FILES];
  const slot_part *parts = parts_of(b);
  sd_block_entry *order = (sd_block_entry *)(void *)(b->bytes + p->order_at);
  uint8_t *from = b->bytes + p->from_at;
  const uint32_t n = p->files->n, keys = (uint32_t)p->all.keys;
  uint32_t rank = 0;
  for (uint32_t f = 0; f < n; f++) {
    const sd_block *v = &parts[f].block;
    heads[f].entry = v->lists;
    heads[f].end = v->lists + v->n[0];
    fill(p, f, v, &heads[f]);
  }
  for (;;) {
    /* Of equal times the first file's comes first. */
    uint32_t best = 0;
    int64_t next = INT64_MAX;
    for (uint32_t f = 1; f < n; f++) {
      const int is_less = heads[f].time < heads[best].time;
      const int64_t other = is_less ? heads[best].time : heads[f].time;
      best = is_less ? f : best;
      next = other < next ? other : next;
    }
    head *h = &heads[best];
    if (h->entry == h->end) return 1;
    const sd_merged_file *file = &p->files->file[best];
    do {
      const sd_block_entry *e = h->entry++;
      const uint32_t key = e->key < file->n_ids ? file->ids[e->key] : SD_MERGE_UNMAPPED;
      if (rank == p->most || !sd_block_add(b, home_of, keys, rank, key)) return 0;
      from[rank] = (uint8_t)best;
      order[rank++] = (sd_block_entry){e->place, key};
      if (++h->at == h->n) fill(p, best, &parts[best].block, h);
      else h->time = h->times[h->at];
    } while (h->time < next);
  }
}

static void make(void *self, uint64_t number, sd_block *b, int exactly, const uint8_t *home_of) {
  const sd_files_part *p = (const sd_files_part *)self;
  const uint32_t n = p->files->n, lead = p->leader;
  slot_part *parts = parts_of(b), *led = &parts[lead];
  const uint64_t start = p->part[lead].begin + number * p->step, room = p->bytes[lead];
  /* Nobody else adopts meanwhile, if the place is to be exact; else another thread may. */
  const uint64_t known = exactly ? *p->part[lead].offset : 0;
  int64_t from = exactly ? p->cut : INT64_MIN, to;
  uint64_t end[SD_MOST_FILES];
  b->odd = 1;
  b->begin = UINT64_MAX;
  for (uint32_t f = 0; f < n; f++) {
    sd_block *v = &parts[f].block;
    v->bytes = b->bytes + p->slot_at[f];
    v->lists = (sd_block_entry *)(void *)(b->bytes + p->flat_at[f]);
    v->room = p->part[f].format->most;
  }
  /* The leader says when the block begins and ends. */
  const uint64_t start_now = exactly ? known : start;
  if (exactly && known > start + p->step) return;
  const uint64_t size = start + p->step - start_now + 2 * (uint64_t)(p->part[lead].format->search + behind(p, lead));
  if (size > room || read_part(p, lead, led->block.bytes, size, start_now, b) != size) return;
  const uint64_t begin = exactly ? known : leader_cut(p, led->block.bytes, size, start_now, start, &from);
  end[lead] = leader_cut(p, led->block.bytes, size, start_now, start + p->step, &to);
  if (begin == UINT64_MAX || end[lead] == UINT64_MAX || end[lead] < begin) return;
  if (from > INT64_MIN && from >= to) return;
  led->block.start = start_now;
  led->block.begin = begin;
  led->run = 0;
  const int64_t since = from == INT64_MIN ? p->begun : from;
  for (uint32_t f = 0; f < n; f++) {
    if (f == lead) continue;
    slot_part *part = &parts[f];
    double rate;
    const uint64_t guess = expect(p, f, part, since, &rate);
    part->run = 0;
    part->block.begin = exactly ? *p->part[f].offset : seek(p, f, guess, from, part->block.bytes, b);
    if (part->block.begin == UINT64_MAX) return;
    const uint64_t wanted = ahead(rate, since, to);
    if (!read_to(p, f, &part->block, wanted, to, &end[f], b)) return;
  }
  uint64_t ticks = 0;
  for (uint32_t f = 0; f < n; f++) {
    sd_block *v = &parts[f].block;
    if (!list_part(p, f, v, end[f])) return;
    if (v->n[0] && ((int64_t)v->first_time < from || (int64_t)v->last_time >= to)) return;
    ticks += v->n[0];
    parts[f].from = since;
    parts[f].to = to;
    parts[f].run = p->run;
  }
  if (ticks > p->most || !merge_parts(p, b, home_of)) return;
  b->begin = begin;
  b->end = end[lead];
  b->first_time = (uint64_t)from;
  b->last_time = (uint64_t)to;
  b->odd = 0;
}

/* Whether a block follows on all that was adopted: its parts begin where the decoders stand. So it has all records from there on, and
 * begins at the time of the last cut, which is that of the leader's record there. */
static int follows(const sd_files_part *p, const sd_block *b) {
  if (b->odd) return 0;
  for (uint32_t f = 0; f < p->files->n; f++)
    if (parts_of(b)[f].block.begin != *p->part[f].offset) return 0;
  return 1;
}

static int adopt(void *self, uint64_t number, sd_block *b, const uint8_t *home_of) {
  sd_files_part *p = (sd_files_part *)self;
  sd_seen *seen = p->all.seen;
  const uint32_t n = p->files->n;
  if (!follows(p, b)) {
    memset(b->n, 0, sizeof b->n);
    make(self, number, b, 1, home_of);
    if (!follows(p, b)) return 0;
  }
  slot_part *parts = parts_of(b);
  uint64_t ticks = 0;
  int64_t first = INT64_MAX, last = seen->latest;
  for (uint32_t f = 0; f < n; f++) {
    const sd_block *v = &parts[f].block;
    if (!v->n[0]) continue;
    ticks += v->n[0];
    if ((int64_t)v->first_time < first) first = (int64_t)v->first_time;
    if ((int64_t)v->last_time > last) last = (int64_t)v->last_time;
  }
  /* In turn, what makes no tick is not read behind the last tick of the limit. */
  if (ticks >= p->all.limit - p->all.ticks || (ticks && (first < seen->latest || last > p->all.until))) return 0;
  for (uint32_t f = 0; f < n; f++) {
    const sd_block_format *format = p->part[f].format;
    const sd_block *v = &parts[f].block;
    /* Only a walk makes notes: those of an empty part are older. */
    if (v->begin != v->end && format->check && !format->check(&p->part[f], v)) return 0;
  }
  for (uint32_t f = 0; f < n; f++) {
    sd_block *v = &parts[f].block;
    if (v->begin != v->end) p->part[f].format->accept(&p->part[f], v);
    *p->part[f].offset = v->end;
    p->files->file[f].ticks += v->n[0];
    if (v->n[0]) p->files->file[f].latest = (int64_t)v->last_time;
    seen->orders += v->notes[SD_NOTE_ORDERS];
    seen->trades += v->notes[SD_NOTE_TRADES];
    seen->quotes += v->notes[SD_NOTE_QUOTES];
    seen->zero_sizes += v->notes[SD_NOTE_ZERO_SIZES];
  }
  p->cut = (int64_t)b->last_time;
  p->all.ticks += ticks;
  p->all.blocks++;
  seen->ticks += (int64_t)ticks;
  seen->latest = last;
  b->latest = last;
  return 1;
}

static void gather(const void *self, const sd_block *b, const sd_block_entry *entry, uint32_t n, uint32_t left,
                   unsigned char *to) {
  const sd_files_part *p = (const sd_files_part *)self;
  const slot_part *parts = parts_of(b);
  const sd_block_entry *order = (const sd_block_entry *)(const void *)(b->bytes + p->order_at);
  const uint8_t *from = b->bytes + p->from_at;
  const size_t size = sizeof(sd_tick);
  (void)left;
  SD_ALIGNED(SD_LINE) unsigned char made[AT_ONCE * sizeof(sd_tick)];
  for (uint32_t done = 0; done < n; done += AT_ONCE) {
    const uint32_t some = n - done < AT_ONCE ? n - done : AT_ONCE;
    sd_block_entry of[SD_MOST_FILES][AT_ONCE];
    uint8_t at[SD_MOST_FILES][AT_ONCE];
    uint32_t found[SD_MOST_FILES] = {0};
    for (uint32_t i = 0; i < some; i++) {
      const uint32_t rank = entry[done + i].place, f = from[rank];
      of[f][found[f]] = order[rank];
      at[f][found[f]++] = (uint8_t)i;
    }
    for (uint32_t f = 0; f < p->files->n; f++) {
      if (!found[f]) continue;
      p->part[f].format->gather(&p->part[f], &parts[f].block, of[f], found[f], found[f], made);
      for (uint32_t i = 0; i < found[f]; i++) {
        sd_tick *tick = (sd_tick *)(void *)(to + (done + at[f][i]) * size);
        memcpy(tick, made + i * size, size);
        tick->instrument_id = of[f][i].key;
      }
    }
  }
}

/* ---- opening */

/* How fast a file goes from where it stands, and when it is PROBE bytes further. Zero: it ends before. */
static int probe(sd_files_part *p, uint32_t f, uint8_t *room, int64_t *then) {
  const sd_file_part *part = &p->part[f];
  const uint64_t size = LOOK + part->format->search + behind(p, f);
  int64_t now;
  if (read_part(p, f, room, size, part->begin, NULL) != size) return 0;
  if (walk_to_any(part, room, size, &now) == size) return 0;
  if (read_part(p, f, room, size, part->begin + PROBE, NULL) != size) return 0;
  const uint64_t first = part->format->find(part, room, part->format->search);
  if (first == part->format->search) return 0;
  if (walk_to_any(part, room + first, size - first, then) == size - first) return 0;
  if (now < p->begun) p->begun = now;
  p->rate[f] = PROBE / (double)(*then > now ? *then - now : 1);
  return 1;
}

/* Where a file has its next cut, at least `skip` bytes further on. UINT64_MAX: nowhere near. */
static uint64_t cut_of(const sd_file_part *part, uint8_t *room, uint64_t skip, step *s) {
  const int64_t time = s->time;
  uint64_t at = part->begin;
  while (at - part->begin < MOST_WALKED) {
    const uint64_t left = part->begin + skip - at, passing = at < part->begin + skip;
    const uint64_t size = passing && left < WALK ? left + part->format->behind : WALK + part->format->behind;
    const uint64_t got = sd_read_at(part->fd, room, size, part->base + at);
    s->time = passing ? INT64_MAX : time;
    const uint64_t found = walk_to(part, room, got, s);
    if (found != got) return at + found;
    if (!s->left) break;
    at += s->left;
  }
  return UINT64_MAX;
}

int sd_cut_files(sd_merged_files *files, int64_t after, uint64_t bytes) {
  sd_file_part part[SD_MOST_FILES];
  uint32_t furthest = 0;
  uint64_t behind = 0;
  for (uint32_t f = 0; f < files->n; f++) {
    sd_merged_file *file = &files->file[f];
    sd_block_source one;
    part[f] = (sd_file_part){.decoder = file->decoder, .fd = file->fd, .base = file->base, .n_counts = KEYS};
    if (!file->open_blocks(&part[f], &one)) return 0;
    if (file->latest > files->file[furthest].latest) furthest = f;
    if (part[f].format->behind > behind) behind = part[f].format->behind;
  }
  uint8_t *room = malloc(WALK + behind);
  if (!room) return 0;
  step first = {.time = after + 1, .before = files->file[furthest].latest, .turns = 1};
  files->file[furthest].cut = cut_of(&part[furthest], room, bytes, &first);
  int found = files->file[furthest].cut != UINT64_MAX;
  for (uint32_t f = 0; f < files->n && found; f++) {
    if (f == furthest) continue;
    step s = {.time = first.time, .before = files->file[f].latest};
    files->file[f].cut = cut_of(&part[f], room, 0, &s);
    found = files->file[f].cut != UINT64_MAX;
  }
  free(room);
  return found;
}

static uint64_t in_lines(uint64_t bytes) { return (bytes + SD_LINE - 1) / SD_LINE * SD_LINE; }

int sd_open_files(sd_files_part *p, sd_block_source *source) {
  const uint32_t n = p->files->n;
  int64_t earliest = INT64_MAX;
  p->begun = INT64_MAX;
  uint64_t all = 0, most = 0, largest = 0, room = 0;
  uint8_t *looked = NULL;
  int found = 0;
  for (uint32_t f = 0; f < n; f++) {
    const sd_merged_file *file = &p->files->file[f];
    sd_block_source one;
    p->part[f] = (sd_file_part){
        .decoder = file->decoder, .fd = file->fd, .base = file->base, .n_counts = KEYS, .seen = p->all.seen};
    if (!file->open_blocks(&p->part[f], &one)) goto end;
    const sd_block_format *format = p->part[f].format;
    struct stat now;
    if (fstat(file->fd, &now) != 0) goto end;
    p->ends[f] = (uint64_t)now.st_size - file->base;
    const uint64_t around = format->search + (uint64_t)format->behind;
    if (around > room) room = around;
    if (LOOK + 4 * around > format->bytes) goto end;
    if (format->most > largest) largest = format->most;
    most += format->most;
  }
  looked = malloc(LOOK + room);
  if (!looked) goto end;
  for (uint32_t f = 0; f < n; f++) {
    int64_t then;
    if (!probe(p, f, looked, &then)) goto end;
    if (then >= earliest) continue;
    earliest = then;
    p->leader = f;
  }
  double rates = 0;
  for (uint32_t f = 0; f < n; f++) rates += p->rate[f];
  const sd_file_part *lead = &p->part[p->leader];
  const uint64_t around = 2 * (uint64_t)(lead->format->search + lead->format->behind);
  const double step = STEP * (p->rate[p->leader] / rates);
  p->step = step > LEAST_STEP ? (uint32_t)step : LEAST_STEP;
  p->step -= p->step % 8;
  const uint64_t longest = (lead->format->bytes - 2 * around) / 4 * 3;
  if (p->step > longest) p->step = (uint32_t)(longest - longest % 8);
  if (p->ends[p->leader] < lead->begin + p->step + around) goto end;
  /* A block may have as many ticks as two of one file. */
  p->most = (uint32_t)(2 * largest < most ? 2 * largest : most);
  uint64_t at = in_lines(n * sizeof(slot_part));
  for (uint32_t f = 0; f < n; f++) {
    const sd_block_format *format = p->part[f].format;
    p->bytes[f] = format->bytes + format->behind;
    p->slot_at[f] = (uint32_t)at;
    at += in_lines((uint64_t)p->bytes[f] + format->room);
    p->flat_at[f] = (uint32_t)at;
    at += in_lines(format->most * sizeof(sd_block_entry));
  }
  p->order_at = (uint32_t)at;
  at += in_lines(p->most * sizeof(sd_block_entry));
  p->from_at = (uint32_t)at;
  at += in_lines(p->most);
  all = (p->ends[p->leader] - lead->begin - around) / p->step;
  p->all.keys = p->files->keys < p->all.n_counts ? p->files->keys : p->all.n_counts;
  if (!p->all.keys) goto end;
  p->cut = INT64_MIN;
  p->run = sd_now();
  *source = (sd_block_source){.n_blocks = all,
                              .keys = (uint32_t)p->all.keys,
                              .most = p->most,
                              .slot_bytes = (uint32_t)at,
                              .make = make,
                              .adopt = adopt,
                              .gather = gather};
  found = 1;
end:
  free(looked);
  return found;
}
