/* Whether blocks pay: measured while publishing. The caller does what it does without blocks, tries blocks after a while, keeps what costs
 * less, and tries the other way again more and more rarely. */
#ifndef SD_BLOCKS_CHOICE_H
#define SD_BLOCKS_CHOICE_H

#include <stdint.h>

/* cffi: begin */
/* Who chooses: the measured costs, or the user. */
enum { SD_INGEST_AUTO = 0, SD_INGEST_BLOCKS = 1, SD_INGEST_PUBLISH = 2 };

typedef struct sd_choice {
  int blocks;              /* the way that is taken now */
  int on_trial;            /* and it is only tried */
  double cost[2];          /* of each way, in clock counts per record, as measured last; 0: not known */
  uint64_t spent, records; /* of the measurement under way */
  uint64_t left, interval; /* records until the next trial, and between two trials */
} sd_choice;
/* cffi: end */

/* Whether the next records are to go in blocks. */
int sd_choice_blocks(const sd_choice *c, int32_t ingest);
/* How many of n records are to go in blocks at once: a trial is short. */
uint64_t sd_choice_most(const sd_choice *c, uint64_t n);
/* n records went the way that was asked for, or, if `possible` is 0, could not go in blocks. */
void sd_choice_learn(sd_choice *c, uint64_t counts, uint64_t n, int possible);

#endif
