/* Heaps of strands that wait, one in the order of their priorities and one in the order of listing. All under the list's lock.
 *
 * A heap is a leftist tree of links in its strands: of all ways down the path to the right is the shortest. So joining two heaps takes at
 * most as many comparisons as both paths have strands, which is the logarithm of how many there are in the heaps. A list needs no places
 * of its own, and a strand leaves from anywhere. */
#pragma once

#include "base/atomic.h"

typedef __int128 sd_points; /* in units of 2^-64 points */

enum { SD_BY_PRIORITY = 0, SD_BY_AGE, SD_HEAPS };

/* A strand's place in a heap. Links are one more than an index, 0 for none. */
typedef struct sd_heap_node {
  sd_a32 left;
  uint32_t right, parent, rank; /* rank: strands on the path to the right */
} sd_heap_node;

/* Memory of zeros is a strand of the usual priority that is not listed. What is above `list` is the list's, under its lock. */
typedef struct sd_aging_strand {
  SD_ALIGNED(SD_LINE) sd_heap_node nodes[SD_HEAPS];
  sd_points key;          /* base - listed * coefficient: the greatest comes first */
  uint64_t listed, order; /* when, and as which of its list */
  uint32_t priority;      /* with which it is listed */
  uint32_t counted;       /* it was taken and counted since it was listed, and has come back unvisited */
  sd_a32 list;            /* one more than the list on which it is; 0: none */
  sd_a32 lock;            /* of what follows; taken after a list's lock */
  uint32_t own;           /* its own priority, exclusive or SD_AGING_USUAL */
  uint32_t raised;        /* its priority for its backlog; 0: not raised */
  uint64_t raised_at;
} sd_aging_strand;

/* `head`: one more than the strand that comes first; 0: none. `place`: one more than a strand. `heap`: SD_BY_PRIORITY or SD_BY_AGE. */
void sd_heap_add(sd_aging_strand *strands, sd_a32 *head, uint32_t place, int heap);
void sd_heap_remove(sd_aging_strand *strands, sd_a32 *head, uint32_t place, int heap);

/* Adds one to times[strand] for each strand of a heap of n, of n_strands; `times` may be NULL. Zero: it is damaged. */
int sd_heap_count(sd_aging_strand *strands, uint32_t n_strands, sd_a32 *head, uint32_t n, uint32_t *times, int heap);
