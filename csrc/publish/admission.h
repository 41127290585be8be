/* Bounds over strands: on what waits on all of them, and on those of each level.
 *
 * A publisher asks once per chunk how many records of each level may go in, and gives back afterwards what it did not use. Under one lock it
 * adds up what all participants have admitted and what has ended (sd_admitted), and admits what there is room for. Records are admitted
 * under the lock alone, and a record ends only after it was admitted. So the sum is never too small, and the bounds are never exceeded.
 * The highest level has the first choice.
 *
 * A record counts to the level that its strand had when something became pending on it. Tasks do not count, nor do records that are
 * handled inline. Neither do records that wait for room: those are still the publisher's. */
#pragma once

#include "publish/publisher.h"

/* Fills in p->granted and p->denied for the records in p->waiting. With SD_SHED it drops pending records of lower levels, if that makes
 * room in all: it takes the last strand of the lowest level that is ready, and drops its oldest records. The caller holds no lock, and has
 * listed what it made ready. */
void sd_admit(sd_dispatcher *d, uint32_t participant, sd_publisher *p);
/* Gives back what was granted and not used. */
void sd_admit_end(sd_dispatcher *d, uint32_t participant, sd_publisher *p);
/* The level to which the strand's records count, under its publish lock: `asked` if nothing is pending. */
uint32_t sd_settle_level(sd_dispatcher *d, sd_strand *s, uint32_t asked);
