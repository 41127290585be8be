/* A file's records as blocks, for formats that can be read from their middle.
 *
 * Where a block's first record begins is guessed. A block is adopted if the one before it ends exactly there; else it is made again.
 * Blocks have records that make ticks, or none, and that change nothing else: whatever changes the decoder's state otherwise (a name, a
 * fault, a time that runs backwards) ends them, and the decoder takes it in turn. */
#pragma once

#include "blocks/blocks.h"
#include "codec/count_by_symbol.h"

/* The first of a block's notes: of its records, of the ticks that they make, and of those of a kind. The format's own notes follow. */
enum {
  SD_NOTE_RECORDS,
  SD_NOTE_TICKS,
  SD_NOTE_ORDERS,
  SD_NOTE_TRADES,
  SD_NOTE_QUOTES,
  SD_NOTE_ZERO_SIZES, /* of trades */
  SD_FORMAT_NOTES
};

/* A file from where its decoder stands. */
typedef struct sd_file_part {
  void *decoder;
  int fd;
  uint64_t base;     /* byte of the file where the decoder's offset is 0 */
  uint64_t n_counts; /* as many symbols are counted */
  uint64_t limit;    /* ticks to make, at most */
  int64_t until;     /* of times up to this one */
  sd_seen *seen;     /* what was seen of the ticks before; added to as blocks are adopted */
  int numbered;      /* ticks get positions */
  /* set as the blocks are opened */
  const struct sd_block_format *format;
  uint64_t *offset; /* the decoder's */
  uint64_t begin;   /* its value then */
  uint64_t keys;
  uint64_t numbers_at; /* where a slot has its numbers */
  /* the result */
  uint64_t ticks, blocks; /* adopted */
} sd_file_part;

/* What a format says of its blocks. Offsets count as its decoder's do. */
typedef struct sd_block_format {
  uint32_t bytes;   /* records that begin in so many bytes are a block */
  uint32_t behind;  /* what lies behind them may be read so far, for the last of them */
  uint32_t search;  /* a block's first record is searched for in so many bytes */
  uint32_t most;    /* ticks in a block, at most */
  uint32_t room;    /* bytes of a slot that it needs for itself, behind those of the file */
  uint32_t records; /* in a block, at most */
  /* Of a tick's place: where the number of its record begins, and how many bits the tick's among the record's has; see sd_block_source. */
  uint32_t record_at, tick_bits;
  /* Where a record may begin in p[0 .. size), with `behind` bytes after them; `size`: nowhere. */
  uint64_t (*find)(const sd_file_part *part, const uint8_t *p, uint64_t size);
  /* Walks over the records that begin in [p, stop), puts their ticks in lists, and notes them. The block is odd, and has no result, unless
   * this clears `odd` and sets `end`, and the first and last ts_recv if it has ticks: none of its ticks is before the one before it. If
   * the block has `numbers`, it notes by record how many ticks came before. */
  void (*walk)(const sd_file_part *part, sd_block *b, const uint8_t *p, const uint8_t *stop, const uint8_t *home_of);
  /* Of a block that begins where the decoder stands. Zero: it has to be taken in turn. NULL: none has. */
  int (*check)(sd_file_part *part, const sd_block *b);
  /* Takes such a block into the decoder's counts. */
  void (*accept)(sd_file_part *part, sd_block *b);
  /* For merges. The length of the record at p, with `behind` bytes after p, and *time: the ts_recv of its ticks, INT64_MIN if it makes
   * none. Zero: it has to be taken in turn. */
  uint32_t (*look)(const sd_file_part *part, const uint8_t *p, int64_t *time);
  /* The ts_recv of n ticks of a block. */
  void (*times)(const sd_file_part *part, const sd_block *b, const sd_block_entry *entry, uint32_t n, int64_t *to);
  void (*gather)(const void *part, const sd_block *b, const sd_block_entry *entry, uint32_t n, uint32_t left,
                 unsigned char *to);
} sd_block_format;

/* Opens blocks of a format, for the keys below `keys`. Zero: the file has none from there on. */
int sd_open_file_blocks(sd_file_part *part, const sd_block_format *format, uint64_t *offset, uint64_t keys,
                        sd_block_source *source);

/* Fills p from byte `at` on; with fewer bytes if the file ends or cannot be read further. */
uint64_t sd_read_at(int fd, uint8_t *p, uint64_t size, uint64_t at);

/* cffi: begin */
struct sd_file_part;
struct sd_block_source;
/* Sets up blocks of the file from where the decoder stands. Zero: there are none. The decoder moves on as blocks are adopted. */
typedef int sd_open_blocks(struct sd_file_part *part, struct sd_block_source *source);
/* cffi: end */
