/* A file's records as blocks: what a format that can be read from its middle offers beside its decoder. */
#ifndef SD_CODEC_BLOCKS_H
#define SD_CODEC_BLOCKS_H

#include "blocks/blocks.h"
#include "codec/count_by_symbol.h"

/* A file from where its decoder stands. */
typedef struct sd_file_part {
  void *decoder;
  int fd;
  uint64_t n_counts; /* as many symbols are counted */
  uint64_t limit;    /* ticks to make, at most */
  sd_seen *seen;     /* what was seen of the ticks before; added to as blocks are adopted */
  /* set as the blocks are opened */
  uint64_t begin; /* byte of the file where the decoder stands */
  uint64_t keys, midnight_ns;
  /* the result */
  uint64_t ticks; /* in adopted blocks */
} sd_file_part;

/* cffi: begin */
struct sd_file_part;
struct sd_block_source;
/* Sets up blocks of the file from there on. Zero: there are none. The decoder moves on as blocks are adopted. */
typedef int sd_open_blocks(struct sd_file_part *part, struct sd_block_source *source);
/* cffi: end */

#endif
