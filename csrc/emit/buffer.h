/* What the merger's parts and the participants know of buffers: where entries lie, and the way along them; merge/rounds.h says what for. */
#ifndef SD_EMIT_BUFFER_H
#define SD_EMIT_BUFFER_H

#include <stddef.h>

#include "base/atomic.h"
#include "emit/alarm_merge.h"
#include "memory/space.h"
#include "sd_handler.h"

struct sd_dispatcher;
struct sd_handler;

enum {
#if defined(SD_SEEDED_MODULE) /* users' records are larger than the model's */
  SD_CHUNK_BYTES = 1 << 13,
  SD_SLAB_CHUNKS = 2,
  SD_PAGE_BITS = 3,
#elif defined(SD_MODEL_SCHEDULER) || defined(SD_STRESS)
  SD_CHUNK_BYTES = 256,
  SD_SLAB_CHUNKS = 2,
  SD_PAGE_BITS = 3,
#else
  SD_CHUNK_BYTES = 1 << 16,
  SD_SLAB_CHUNKS = 32, /* as large as a large page */
  SD_PAGE_BITS = 12,
#endif
  SD_CHUNK_HEADER = 64,
  SD_REF_BITS = 11, /* of a reference: the place in a chunk; the others name the chunk */
  SD_PAGE = 1 << SD_PAGE_BITS,
  /* Chunks, as a multiple of the bound at which publishers wait, from which on a handler that emits fails. */
  SD_OUTPUT_SLACK = 8
};

/* In the link of what Python emits for a tick: it comes after what is emitted in C, as a chain's end, of which the native part
 * may have been ahead on another participant. */
#define SD_BY_PYTHON (1u << 31)
/* The number of a record that was emitted for a tick its handler then failed on. */
#define SD_VOID (UINT64_MAX - 2)
/* Bytes of a merged record before its declared ones: number, sequence, time, key. */
#define SD_MERGED_HEAD 28

/* In the arena, as all that is emitted. A chunk is named by its index in the pool. */
typedef struct sd_chunk {
  uint32_t next; /* the buffer's next one; written before a buffer says that it is filled beyond this one */
  sd_a32 mixed;  /* its numbers do not rise from one entry to the next, beginning after those of the chunk before */
  uint64_t top;  /* the merger's: the greatest number in it, a timer's time, as far as it was read */
} sd_chunk;

/* Chunks of all buffers; those that are free go to who freed one last. In the arena. */
typedef struct sd_chunk_list {
  sd_a32 lock;
  uint32_t free;               /* SD_NONE: there is none */
  uint32_t n, filled, maximum; /* handed out so far, those there is memory for, and at most */
  sd_a64 bytes;                /* in use by buffers and by the merger's tables */
} sd_chunk_list;

/* One process's way to them. */
typedef struct sd_chunk_pool {
  sd_chunk_list *list;
  unsigned char *chunks;
  sd_space *space;
  uint64_t soft_bytes;
} sd_chunk_pool;

/* What one participant emitted to one output, for the merger. In the arena. */
typedef struct sd_emitted_so_far {
  SD_ALIGNED(2 * SD_LINE) sd_a64 filled; /* bytes of entries that may be read */
  uint32_t first;                        /* chunk; written before anything is said to be filled */
} sd_emitted_so_far;

/* A participant's way to what it emits to one output, and the merger's. */
typedef struct sd_emit_buffer {
  sd_output_writer writer; /* first: a writer is its buffer */
  struct sd_dispatcher *d;
  const sd_chunk_pool *pool;
  sd_emitted_so_far *so_far;
  sd_chunk *chunk;      /* the one being filled */
  uint64_t before;      /* bytes of entries in those before it */
  sd_chunk *done_chunk; /* where what is filled ends, ... */
  unsigned char *done;  /* ... and where in it */
  uint64_t minimum;     /* while numbers rise: the next one has to be at least this */
  uint32_t chunk_bytes; /* of entries in a chunk */
  /* the merger's */
  SD_ALIGNED(2 * SD_LINE) sd_chunk *reading;
  sd_chunk *oldest; /* from here to the one being read they have something that has not been handed out */
  uint64_t read;
  unsigned char *at;
  uint64_t straight; /* from `read` to here numbers rise, and entries are handed out where they lie; else `read` */
  int timers;
} sd_emit_buffer;

/* For each number of a page the first record emitted there; 0: none. */
typedef struct sd_page {
  uint32_t ref[SD_PAGE];
} sd_page;

typedef struct sd_output {
  uint32_t record_bytes, entry_bytes, merged_bytes;
  /* numbers: pages[number >> SD_PAGE_BITS & mask] */
  sd_page **pages, *spare;
  uint64_t n_pages, low_page, high_page; /* room, and the pages in use: from low, below high */
  uint64_t next;                         /* all that was emitted for lower numbers has been handed out */
  uint32_t rest;                         /* the rest of a tick's records that found no room; 0: none */
  sd_alarm_records timers;
} sd_output;

typedef struct sd_outputs {
  uint32_t n, n_participants;
  sd_output *output;
  sd_emit_buffer **buffer; /* [participant * 2n + output], and timers' buffers n further on */
  sd_output_writer **
      *writers;         /* a participant: all handlers' writers, each handler's in its own order, two an output */
  size_t *first_writer; /* a handler: where its writers begin */
  sd_chunk_pool pool;
  uint64_t frontier, time, armed; /* the last round's */
  uint64_t looked;                /* clock counts that finding out the frontier took */
  uint64_t passed;                /* times that quarantined strands were passed */
  uint64_t late;                  /* records that came after their place had been handed out: on such a strand */
  uint64_t tick_bytes;            /* that the caller keeps for each tick until all below it is final */
  uint64_t beside;                /* in pool.bytes: what it keeps of all ticks by the last round */
  int ended;
} sd_outputs;

/* Bytes of a buffer that are fetched while one is read. */
enum { SD_BUFFER_AHEAD = 1024 };

static inline unsigned char *entries_of(sd_chunk *chunk) { return (unsigned char *)chunk + SD_CHUNK_HEADER; }

static inline sd_chunk *chunk_at(const sd_chunk_pool *pool, uint32_t index) {
  return (sd_chunk *)(void *)(pool->chunks + (size_t)index * SD_CHUNK_BYTES);
}

static inline uint32_t index_of(const sd_chunk_pool *pool, const sd_chunk *chunk) {
  return (uint32_t)((size_t)((const unsigned char *)chunk - pool->chunks) / SD_CHUNK_BYTES);
}

static inline sd_emitted *entry_at(const sd_outputs *o, const sd_output *output, uint32_t ref) {
  sd_chunk *chunk = chunk_at(&o->pool, ref >> SD_REF_BITS);
  return (sd_emitted *)(entries_of(chunk) + (size_t)((ref & ((1u << SD_REF_BITS) - 1)) - 1) * output->entry_bytes);
}

static inline uint32_t next_of(const sd_emitted *e) { return e->link & ~SD_BY_PYTHON; }

/* Goes on to the chunk that has the next entry, where there is one. */
static inline void find_next(sd_emit_buffer *buffer) {
  if (!buffer->reading) {
    buffer->reading = buffer->oldest = chunk_at(buffer->pool, buffer->so_far->first);
    buffer->at = entries_of(buffer->reading);
  } else if (buffer->at == entries_of(buffer->reading) + buffer->chunk_bytes) {
    buffer->reading = chunk_at(buffer->pool, buffer->reading->next);
    buffer->at = entries_of(buffer->reading);
  }
}

/* Where a buffer's entries lie in a row from buffer->at on, of those that come before byte `to` of it. */
static inline unsigned char *end_of_row(const sd_emit_buffer *buffer, uint64_t to) {
  unsigned char *end = entries_of(buffer->reading) + buffer->chunk_bytes;
  return (uint64_t)(end - buffer->at) > to - buffer->read ? buffer->at + (to - buffer->read) : end;
}

static inline void pass(sd_emit_buffer *buffer, unsigned char *at) {
  buffer->read += (uint64_t)(at - buffer->at);
  buffer->at = at;
}

#endif
