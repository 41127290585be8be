/* Blocks: a source's records, made and handled by all threads at once (blocks/window.h), while one thread publishes them.
 *
 * The publisher owns the strands by their publish locks, as in inline execution, if all are idle, until the run of blocks ends. So nobody
 * else enqueues meanwhile, and no worker owns a strand. Within the run a home's token says who may handle the strands
 * of the home. A worker that finds a run open takes part in it.
 *
 * Strands are dealt to homes by how many records they had. A thread first handles the homes that are its own; it handles another's when
 * they are behind. */
#pragma once

#include "blocks/window.h"
#include "state/state.h"

enum {
#if defined(SD_MODEL_BLOCK) /* other sizes, see tests/model/run.sh */
  SD_MAX_HOMES = SD_MODEL_HOMES,
  SD_HOMES_A_THREAD = SD_MODEL_HOMES / 4,
  SD_BLOCK_SLOTS = SD_MODEL_SLOTS,
#elif defined(SD_MODEL_SCHEDULER)
  SD_MAX_HOMES = 4,
  SD_HOMES_A_THREAD = 2,
  SD_BLOCK_SLOTS = 3,
#elif defined(SD_STRESS)
  SD_MAX_HOMES = 64,
  SD_HOMES_A_THREAD = 2,
  SD_BLOCK_SLOTS = 3,
#else
  SD_MAX_HOMES = 64,
  SD_HOMES_A_THREAD = 4,
  SD_BLOCK_SLOTS = 32,
#endif
  SD_NO_HOME = 255
};

/* Where a record lies in its block, as its source counts, and its key. Of two records, the later one has the greater place: by their places
 * those that were kept back are put in order again. */
typedef struct sd_block_entry {
  uint32_t place, key;
} sd_block_entry;

typedef struct sd_block {
  uint64_t number;
  uint64_t begin, end; /* its place in the source: bytes, or records */
  uint64_t start;      /* of its bytes, if it has any */
  uint64_t before;     /* what the source has to know when records are gathered; written as the block is adopted */
  uint64_t first_time, last_time;
  uint64_t reading;   /* clock counts that making it took to read the file */
  sd_position first;  /* with positions: the number of its first record, and the feed's time before it; likewise */
  int64_t latest;     /* with positions: the latest time of its records, which do not run backwards */
  uint32_t odd;       /* it may not be handled as a block, or not wholly */
  uint32_t notes[32]; /* the source's */
  unsigned char *bytes;
  uint16_t
      *numbers; /* with positions: by what sd_block_source says; NULL: a record's place is its number in the block */
  sd_block_entry *lists; /* one per home, with room for all the block's records each */
  uint32_t room;
  uint32_t n[SD_MAX_HOMES]; /* records in each list */
} sd_block;

/* Adds a record to the list of its key's home. Zero: the key has none, so the block is odd. */
static inline int sd_block_add(sd_block *b, const uint8_t *home_of, uint32_t keys, uint32_t place, uint32_t key) {
  const uint32_t home = SD_LIKELY(key < keys) ? home_of[key] : SD_NO_HOME;
  if (SD_UNLIKELY(home == SD_NO_HOME)) return 0;
  b->lists[(size_t)home * b->room + b->n[home]++] = (sd_block_entry){place, key};
  return 1;
}

/* What is cut into blocks. Several threads call `make` and `gather` at once, each for a block of its own; `adopt` is called by one thread
 * at a time, in the order of the blocks. */
typedef struct sd_block_source {
  uint64_t n_blocks;
  uint32_t keys;       /* all keys are below this one; others make a block odd */
  uint32_t most;       /* records in a block, at most */
  uint32_t slot_bytes; /* memory that a block needs for itself */
  int64_t *counts;     /* per key: a run adds what it handled, or failed on; or NULL */
  /* A place's bits from `numbered_at` on lead to an entry of block->numbers, and its lowest `added_bits` bits are added to it: the record's
   * number in the block. */
  uint32_t numbered_at, added_bits;
  /* Makes a block: `begin`, `end`, `odd` and its lists, which are empty. `exactly`: begins at block->begin, which is known; else the
   * source guesses. */
  void (*make)(void *self, uint64_t number, sd_block *block, int exactly, const uint8_t *home_of);
  /* Zero: the block is not part. If its guess was wrong, it sets block->begin, makes it once more, and judges that. */
  int (*adopt)(void *self, uint64_t number, sd_block *block, const uint8_t *home_of);
  /* Writes n records of a block to `to`. `left`: entries there are from `entry` on, whose records will be gathered next. */
  void (*gather)(const void *self, const sd_block *block, const sd_block_entry *entry, uint32_t n, uint32_t left,
                 unsigned char *to);
} sd_block_source;

/* The number of a place's record in its block, from 0, in the order of the source. With positions. */
static inline uint32_t sd_block_number(const sd_block_source *source, const sd_block *block, uint32_t place) {
  if (!block->numbers) return place;
  return block->numbers[place >> source->numbered_at] + (place & ((UINT32_C(1) << source->added_bits) - 1));
}

/* What a run did. */
typedef struct sd_blocks_done {
  uint64_t records; /* handled, or failed */
  /* Records of strands whose handler failed before. They belong into their strands, in this order. Valid until the participant's next
   * run. */
  const unsigned char *held;
  uint64_t *places;             /* of each: its block's number, and in the lower half its place there */
  const sd_position *positions; /* of each; NULL: records have none */
  uint64_t n_held;
} sd_blocks_done;

/* cffi: begin */
/* Why records may not be handled in blocks. */
enum {
  SD_BLOCKS_POSSIBLE = 0,
  SD_BLOCKS_ORDERED,     /* the policy orders strands */
  SD_BLOCKS_HANDLERS,    /* there are several handlers, or one that is not native, or that may publish */
  SD_BLOCKS_BOUND,       /* a strand at its bound does not block, or there are bounds over several */
  SD_BLOCKS_NO_DRAINING, /* publishers may not run handlers */
  SD_BLOCKS_ONE_CORE,    /* publishers have no core beside a worker's */
  SD_BLOCKS_TIMED        /* the time of each strand is measured */
};
/* After the handlers are set. */
int sd_blocks_reason(const struct sd_dispatcher *d);
/* cffi: end */
/* Decides whether blocks are possible, and makes what they need. After the handlers are set. Again once the time of strands is measured,
 * before workers run: they may be in the blocks that this frees. */
int sd_blocks_decide(sd_dispatcher *d);
void sd_blocks_destroy(sd_dispatcher *d);
/* Runs blocks until the source ends, one is odd, a handler fails, the dispatcher stops, `slice` clock counts are over, or publishers have
 * to wait for the merger. SD_OK; SD_AGAIN: a strand is not idle, or another publisher runs blocks; SD_E_FULL: a strand is paused or
 * quarantined, or a block's records may emit too much; SD_E_NO_MEMORY. In these cases nothing was done. By a publisher whose call is
 * announced. */
int sd_blocks_run(sd_dispatcher *d, uint32_t participant, const sd_block_source *source, void *self, uint64_t slice,
                  sd_blocks_done *done);
/* Lets those go on who wait for a strand, after the caller owned all: else it would own it again before they look. On a busy machine they
 * may have no core for so long, so after each time in vain they have twice the time. */
void sd_give_way(sd_dispatcher *d, uint32_t participant);
