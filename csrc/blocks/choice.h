/* Whether blocks pay: measured while publishing. The caller does what it does without blocks, tries blocks after a while, keeps what costs
 * less, and tries the other way again more and more rarely. */
#pragma once

#include "state/state.h"

/* cffi: begin */
/* Who chooses: the measured costs, or the user. */
enum { SD_INGEST_AUTO = 0, SD_INGEST_BLOCKS = 1, SD_INGEST_PUBLISH = 2 };
/* Blocks are tried if a record costs so many ns. Cheaper ones come as fast as one core gets them from memory, and threads
 * together are no faster. Dearer handlers gain nothing that workers do not give them, and a window of blocks of theirs takes too long to
 * stop. */
enum { SD_CHOICE_CHEAP_NS = 6, SD_CHOICE_DEAR_NS = 3000 };

typedef struct sd_choice {
  int blocks;              /* the way that is taken now */
  int on_trial;            /* and it is only tried */
  double cost[2];          /* of each way, in clock counts per record, as measured last; 0: not known */
  uint64_t spent, records; /* of the measurement under way */
  uint64_t left, interval; /* records until the next trial, or until a first trial measures, and between two trials */
} sd_choice;
/* cffi: end */

/* Records after which blocks are tried, with so many symbols. */
uint64_t sd_choice_tried_after(uint64_t symbols);
/* Whether the next records are to go in blocks. */
int sd_choice_blocks(const sd_choice *c, const sd_dispatcher *d);
/* How many of n records are to go in blocks at once: a trial is short. */
uint64_t sd_choice_most(const sd_choice *c, const sd_dispatcher *d, uint64_t n);
/* n records went the way that was asked for, or, if `possible` is 0, could not go in blocks. Counts in d what the ways cost. */
void sd_choice_learn(sd_choice *c, const sd_dispatcher *d, uint64_t counts, uint64_t n, int possible);
