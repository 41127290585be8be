/* Several files as blocks of their merged order: receive time, then file, then position.
 *
 * One file leads: its bytes, in equal steps, say at which times the merge is cut into blocks. In the others a block begins with the first
 * record that makes ticks at the time of the cut or later; a thread searches for it, from where it expects it. A block so has a part of
 * each file, all of the same time, and nobody else has to know how the files lie beside each other. A thread makes the parts' lists as if
 * each file were alone, and puts their ticks into the order of the merge, which is that of the block's lists.
 *
 * A block is adopted if each part begins where its file's decoder stands, and the block at the time of the last cut. What is found out
 * then is all that is relied on: parts end exactly at records, their ticks are in order and within the two cuts, and the record behind the
 * end, which makes ticks, is not before the second cut. So no tick that comes later belongs before one of the block. */
#pragma once

#include "codec/blocks.h"

/* cffi: begin */
enum { SD_MOST_FILES = 8 };

/* A file of a merge, which is read on from where its decoder stands. */
typedef struct sd_merged_file {
  /* written by the caller */
  void *decoder;
  sd_open_blocks *open_blocks;
  int32_t fd;
  uint64_t base;       /* byte of the file where the decoder's offset is 0 */
  const uint32_t *ids; /* of the merge, by the file's own, as in codec/merge/merge.h */
  uint64_t n_ids;
  int64_t latest; /* the time of its last tick, ns; written by blocks too */
  /* written by blocks */
  uint64_t ticks; /* adopted, of all runs */
  uint64_t cut;   /* see sd_cut_files: as the decoder's offset counts */
} sd_merged_file;

typedef struct sd_merged_files {
  sd_merged_file *file;
  uint32_t n;    /* 1 to SD_MOST_FILES */
  uint64_t keys; /* ids of the merge, from 0, that have been given */
} sd_merged_files;

/* Finds a time at which the merge can be cut: behind `after`, which is that of the latest tick that was read of any file, of those that have
 * ended too; and `bytes` further on in one of the files. And where that is in each file. Up to there the files are in order, and have no
 * fault in their frames. Zero: there is none nearby. */
int sd_cut_files(sd_merged_files *files, int64_t after, uint64_t bytes);
/* cffi: end */

/* Files under way, from where their decoders stand: the end of one merge of all that came before. `all`: as for one file. */
typedef struct sd_files_part {
  sd_file_part all;
  sd_merged_files *files;
  sd_file_part part[SD_MOST_FILES];
  uint32_t leader;
  uint32_t step;                    /* bytes of the leader from cut to cut */
  uint32_t bytes[SD_MOST_FILES];    /* of a part, at most, with what lies behind it */
  uint32_t slot_at[SD_MOST_FILES];  /* where a slot has the bytes of a part, */
  uint32_t flat_at[SD_MOST_FILES];  /* its ticks in their order, */
  uint32_t order_at, from_at, most; /* and, for the ticks of the block: places and keys, and files */
  uint64_t ends[SD_MOST_FILES];     /* the file's end, as the decoder's offset counts */
  double rate[SD_MOST_FILES];       /* bytes per ns */
  int64_t begun;                    /* the time of the first tick from there on */
  int64_t cut;                      /* the time at which the last adopted block ended */
  uint64_t run;                     /* a number of its own, by which a slot's old parts are known */
} sd_files_part;

/* Sets up blocks of the files, of which `all` and `files` say more. Zero: there are none from there on. */
int sd_open_files(sd_files_part *part, sd_block_source *source);
