/* What the parts of the merger and the participants share about emit buffers: where entries lie, and how to walk along them.
 * merge/rounds.h explains their purpose. */
#pragma once

#include <stddef.h>

#include "base/atomic.h"
#include "emit/alarm_merge.h"
#include "memory/space.h"
#include "sd_handler.h"

/* cffi: begin */
typedef struct sd_dispatcher sd_dispatcher;
/* A handler that emits fails when there are this many times the chunks at which publishers begin to wait. */
enum { SD_OUTPUT_SLACK = 8 };
/* cffi: end */
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
  SD_SLAB_CHUNKS = 32, /* a slab is as large as a huge page */
  SD_PAGE_BITS = 12,
#endif
  SD_CHUNK_HEADER = 64,
  SD_REF_BITS = 11, /* bits of a reference: these name the place in a chunk, the other bits name the chunk */
  SD_PAGE = 1 << SD_PAGE_BITS
};

/* Set in the link of what Python emitted for a tick. Such a record comes after those that C emitted for that tick, at the end of its
 * chain; another participant may have run the native part. */
#define SD_BY_PYTHON (1u << 31)
/* The number of a record that was emitted for a tick on which the handler then failed. */
#define SD_VOID (UINT64_MAX - 2)
/* cffi: begin */
/* Bytes of a merged record before its declared ones: number, sequence, time, key. */
#define SD_MERGED_HEAD 28
/* cffi: end */

/* In the arena, like everything that is emitted. The index in the pool names a chunk. */
typedef struct sd_chunk {
  uint32_t next; /* the buffer's next chunk; written before the buffer says that it is filled beyond this one */
  sd_a32 mixed;  /* the numbers do not rise along its entries, or do not continue above those of the chunk before */
  uint64_t top;  /* the merger's: the greatest number, and the greatest time of a timer, of what it has read */
} sd_chunk;

/* The chunks of all buffers. Free chunks form a LIFO. In the arena. */
typedef struct sd_chunk_list {
  sd_a32 lock;
  uint32_t free;               /* the first free chunk; SD_NONE: there is none */
  uint32_t n, filled, maximum; /* chunks given out so far, chunks that have memory, and the bound on both */
  sd_a64 bytes;                /* in use by buffers and by the merger's tables */
} sd_chunk_list;

/* One process's access to the chunks. */
typedef struct sd_chunk_pool {
  sd_chunk_list *list;
  unsigned char *chunks;
  sd_space *space;
  uint64_t soft_bytes;
} sd_chunk_pool;

/* What one participant emitted to one output, for the merger. In the arena. */
typedef struct sd_emitted_so_far {
  SD_ALIGNED(2 * SD_LINE) sd_a64 filled; /* bytes of entries that may be read */
  uint32_t first;                        /* the first chunk; written before the buffer says that anything is filled */
} sd_emitted_so_far;

/* How a participant writes what it emits to one output, and how the merger reads it. */
typedef struct sd_emit_buffer {
  sd_output_writer writer; /* first, so that a writer's address is its buffer's */
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
  sd_chunk *oldest; /* from here to the chunk being read, each has entries that have not been given out */
  uint64_t read;
  unsigned char *at;
  uint64_t
      straight; /* from `read` to here numbers rise, so entries are given out where they lie; `read` if they do not */
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
  uint64_t n_pages, low_page, high_page; /* the capacity of `pages`, and the pages in use: from low, below high */
  uint64_t next;                         /* all that was emitted for lower numbers has been given out, but for `rest` */
  uint32_t rest; /* the rest of the last tick's records, for which the caller's array had no space; 0: none */
  sd_alarm_records timers;
} sd_output;

/* All that was emitted for lower numbers has been given out. */
static inline uint64_t sd_output_below(const sd_output *o) { return o->next - (o->rest != 0); }

typedef struct sd_outputs {
  uint32_t n, n_participants;
  sd_output *output;
  sd_emit_buffer **buffer; /* [participant * 2n + output], and timers' buffers n further on */
  sd_output_writer **
      *writers;         /* per participant: the writers of all handlers, in each handler's own order, two per output */
  size_t *first_writer; /* per handler: where its writers begin */
  sd_chunk_pool pool;
  uint64_t frontier, time, armed; /* the last round's */
  uint64_t looked;                /* clock counts spent on finding the frontier */
  uint64_t passed;                /* how often quarantined strands were passed over */
  uint64_t late;                  /* records that came after their place had been given out: on such a strand */
  uint64_t tick_bytes;            /* bytes that the caller keeps for each tick until the frontier has passed it */
  uint64_t beside;                /* what the caller kept for all ticks in the last round; part of pool.bytes */
  int ended;
} sd_outputs;

/* How many bytes ahead of the reader a buffer's entries are prefetched. */
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

/* Moves on to the chunk that has the next entry, if there is one. */
static inline void find_next(sd_emit_buffer *buffer) {
  if (!buffer->reading) {
    buffer->reading = buffer->oldest = chunk_at(buffer->pool, buffer->so_far->first);
    buffer->at = entries_of(buffer->reading);
  } else if (buffer->at == entries_of(buffer->reading) + buffer->chunk_bytes) {
    buffer->reading = chunk_at(buffer->pool, buffer->reading->next);
    buffer->at = entries_of(buffer->reading);
  }
}

/* Where the entries that lie in one piece from buffer->at on end; only those before byte `to` of the buffer. */
static inline unsigned char *end_of_row(const sd_emit_buffer *buffer, uint64_t to) {
  unsigned char *end = entries_of(buffer->reading) + buffer->chunk_bytes;
  return (uint64_t)(end - buffer->at) > to - buffer->read ? buffer->at + (to - buffer->read) : end;
}

static inline void pass(sd_emit_buffer *buffer, unsigned char *at) {
  buffer->read += (uint64_t)(at - buffer->at);
  buffer->at = at;
}
