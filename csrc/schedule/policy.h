/* What a scheduling policy is: which of the ready strands comes next. It sees strand indices and lists, never queues or handlers.
 *
 * Free tasks stand in the lists too: entry n_strands + i is the task of index i. To a policy it is a strand like any other, that is listed
 * once for each of its uses. Where this header says strand it means an entry; only groups are counted by strands.
 *
 * Each worker has a list. All lists have the header that list.h describes, so that a worker can read a length without a call. What
 * else a policy keeps lies in its state, which is memory in the arena. Any participant may call any of the functions at any time. A
 * policy changes a list, and what it keeps of the strands listed there, with the list's lock held.
 *
 * Behind the workers' lists stands the deferred list. It has strands that were taken for a task of Python's while no permit was free
 * (worker/permit.h). They keep their place in the order, and only a worker that has a permit takes them.
 *
 * Times are readings of sd_now(). Readings of different threads may be a little out of order. */
#pragma once

#include <stdint.h>

#include "schedule/list.h"

/* Every policy: sd_policy_NAME, and its number below. All lists of policies come from this one. */
#define SD_POLICIES(X) X(fifo, SD_FIFO) X(levels, SD_LEVELS) X(aging, SD_AGING) X(fair, SD_FAIR)

/* cffi: begin */
enum { SD_FIFO, SD_LEVELS, SD_AGING, SD_FAIR, SD_POLICY_COUNT };
/* The most levels of a policy. */
enum { SD_MOST_LEVELS = 5 };

/* Levels, the highest first. A priority of SD_LEVELS has its level in the lowest byte. Above it a task of Python's has one more than its own
 * level, by which it is counted while it waits: the head of an order stands in the highest level of its order. */
enum { SD_IMMEDIATE = 0, SD_HIGH, SD_RETRY, SD_NORMAL, SD_LOW, SD_LEVEL_COUNT, SD_OWN_LEVEL = 8 };

/* Classes of SD_AGING, of which 0 is the lowest. A priority has its class in the upper two bits, and its base plus SD_AGING_USUAL in the
 * others; a base is at most SD_AGING_MAX to either side. A strand has the lowest class and the base 0 unless it is given another one. */
enum { SD_AGING_CLASSES = 3, SD_AGING_USUAL = 1 << 29, SD_AGING_MAX = 500000000 };
#define SD_AGING_BY_LOAD UINT32_MAX
/* cffi: end */

/* Why a strand is listed: nothing of it was pending; a visit left something pending; whoever took it could not visit it; or it has to wait
 * for a permit, on the deferred list. */
enum { SD_WAS_EMPTY = 0, SD_VISITED, SD_NOT_VISITED, SD_DEFERRED };

/* What to do with the deferred list: it was seen empty; its strands stay there, and rise as ever; or they may be taken. */
enum { SD_NONE_DEFERRED = 0, SD_LEAVE_DEFERRED, SD_TAKE_DEFERRED };

/* cffi: begin */
/* What may be short, and marks of strands that say how they use it. A set of either has a bit for each. */
enum { SD_CPU = 0, SD_MEMORY, SD_IO, SD_RESOURCE_COUNT };
enum { SD_MARK_IO = 1, SD_MARK_FREES_MEMORY = 2, SD_ALL_MARKS = 3 };

typedef struct sd_levels_config {
  uint64_t timeout_ns[SD_LEVEL_COUNT]; /* after such a wait a strand rises; none for SD_IMMEDIATE */
  int32_t since_listed;                /* a wait counts since the strand was listed, not since it entered its level */
} sd_levels_config;

typedef struct sd_aging_config {
  double coefficient[SD_AGING_CLASSES]; /* points per second of a wait, by class */
  uint64_t max_wait_ns;                 /* a strand that waits longer is taken first; 0: none */
  uint32_t n_classes;
  uint32_t low_every; /* one of the lowest class after so many of higher ones, or SD_AGING_BY_LOAD; 0: never */
} sd_aging_config;
/* Weights of groups are given in thousandths. There are so many groups more than strands, and so many strands with a long stretch are
 * named. */
enum { SD_FAIR_UNIT_WEIGHT = 1000, SD_FAIR_MORE_GROUPS = 256, SD_LONG_STRETCHES = 16 };

typedef struct sd_fair_config {
  uint64_t slice_ns; /* on-CPU time after which a group of weight 1 waits its turn */
  uint64_t burst_ns; /* the bucket holds what so much time refills */
  double cpu_share;  /* of as many cores as there are workers; 0: no cap */
  uint32_t n_groups; /* at a time; 0: one for each strand, and SD_FAIR_MORE_GROUPS */
} sd_fair_config;

/* Which policy, and its options: those of others are ignored. */
typedef struct sd_policy_config {
  int32_t number; /* SD_FIFO and so on */
  uint64_t
      slack_ns; /* how long a worker keeps to its own list where the order allows it; a dispatcher takes a visit's time */
  sd_levels_config levels;
  sd_aging_config aging;
  sd_fair_config fair;
} sd_policy_config;

/* The strand's visits that took more on-CPU time than the slice of their group. */
typedef struct sd_long_stretch {
  uint32_t strand;
  uint32_t times; /* 0: nothing stands here */
  uint64_t longest_ns;
} sd_long_stretch;

/* What was charged to a group. */
typedef struct sd_group_counts {
  uint64_t on_cpu_ns;
  uint64_t slice_ends;     /* times that it used up its slice */
  uint64_t long_stretches; /* stretches beyond its slice, of visits and tasks */
  uint64_t longest_ns;     /* the longest of these; 0: there was none */
} sd_group_counts;

typedef struct sd_fair_counts {
  uint64_t holds;          /* times that the cap began to hold the pool */
  uint64_t long_stretches; /* those of all groups */
  sd_long_stretch longest[SD_LONG_STRETCHES];
} sd_fair_counts;

/* What a policy counts: levels by level, and aging by class. */
typedef struct sd_policy_counts {
  uint64_t promoted[SD_LEVEL_COUNT]; /* times that a strand rose out of the level */
  uint64_t starved[SD_LEVEL_COUNT];  /* waits that began in the level and took more than twice its timeout */
  uint64_t picked[SD_AGING_CLASSES]; /* strands taken, by class */
  uint64_t picked_low, picked_late;  /* those of them taken for low_every, and for max_wait */
  uint32_t n_classes;
} sd_policy_counts;
/* cffi: end */

/* What a policy sees. `state`: its own memory, `state_bytes` of the policy; zeros at first. */
typedef struct sd_ready {
  sd_list *lists;
  uint32_t n_lists, n_workers;   /* lists: the workers', and then the deferred one */
  uint32_t n_strands, n_entries; /* entries: strands, and then tasks */
  unsigned char *state;
} sd_ready;

/* The list at which a look with list `own` is i-th: the deferred one, if it may be taken from, then `own`, then those behind it. */
static inline uint32_t sd_list_in_turn(const sd_ready *ready, uint32_t own, uint32_t i, int deferred) {
  if (deferred == SD_TAKE_DEFERRED && i-- == 0) return ready->n_workers;
  return own + i < ready->n_workers ? own + i : own + i - ready->n_workers;
}

/* state_bytes, start, ready, peek and count are needed, and `next`, or `pick` and `pick_if`: else there is no such policy. */
typedef struct sd_policy {
  const char *name;
  /* Whether a publisher may run the handlers of idle strands itself. Such strands are never listed, so no policy orders them. */
  int runs_inline;
  int one_list; /* all strands stand on list 0, with whichever worker they are listed */
  uint64_t (*state_bytes)(const sd_policy_config *config, uint32_t n_lists, uint32_t n_strands, uint32_t n_entries);
  /* What the policy keeps of each entry, if that lies at the end of its state: memory for tasks then comes when they are first used. */
  uint32_t entry_bytes;
  /* Visits are counted by so many levels, the highest first; 0: by one, ... */
  uint32_t n_levels;
  /* ... and this is the level of a strand that a participant has taken: the one to which it had risen. NULL: there is one level. */
  uint32_t (*taken_at)(const sd_ready *ready, uint32_t strand);
  /* Adds by level how many strands and tasks are listed, held back or not. It takes no lock, as `counts`. NULL: the lists' lengths say it. */
  void (*listed)(const sd_ready *ready, uint64_t *by_level);
  /* Prepares state and lists, once. */
  void (*start)(const sd_ready *ready, const sd_policy_config *config);
  /* Lists n strands, whose tokens the caller holds, with worker `list`, or on the deferred list. `why`: SD_WAS_EMPTY and so on. */
  void (*ready)(const sd_ready *ready, uint32_t list, const uint32_t *strands, uint32_t n, int why, uint64_t now);
  /* Takes up to `maximum` strands (and at most `share` quarters of what is there) of a list; returns how many.
   * NULL, if there is `next`. */
  uint32_t (*pick)(const sd_ready *ready, uint32_t list, uint32_t *strands, uint32_t maximum, uint32_t share);
  /* Takes the strand that comes first of those of a list, if can(who, it) says so. So it keeps its place if the caller
   * has no use for it. NULL, if there is `next`. */
  uint32_t (*pick_if)(const sd_ready *ready, uint32_t list, uint32_t *strand, sd_can_use can, const void *who);
  /* Takes the strand that comes first of those on all lists, and on a tie a deferred one, and then that of list `own`. `deferred`:
   * SD_NONE_DEFERRED and so on. SD_NONE: none is ready. NULL: the order between lists does not matter. A worker then keeps to its own list
   * as long as there is something on it, and steals after that; with a permit it takes from the deferred list first.
   * `can`: whoever asks has no use for all that is listed. If can(who, the first strand) says no, that keeps its place, and
   * SD_NONE is returned, as it may be where another participant took the first one meanwhile. NULL: it takes any. */
  uint32_t (*next)(const sd_ready *ready, uint32_t own, int deferred, uint64_t now, sd_can_use can, const void *who);
  /* Whether another strand would be taken before this one, which a participant with list `own` has taken and still has, if it stood on a
   * list as it did. A hint, for a participant that may let its strand go and list it again. NULL: never. */
  int (*gives_way)(const sd_ready *ready, uint32_t own, uint32_t strand, int deferred, uint64_t now);
  /* The strand that is picked after i others of a list that is not empty, for prefetching: a hint, read without the lock. */
  uint32_t (*peek)(const sd_ready *ready, uint32_t list, uint32_t i);
  /* Adds one to times[strand] for each strand of a list. Zero: the list is damaged. */
  int (*count)(const sd_ready *ready, uint32_t list, uint32_t *times);
  /* Gives a strand another priority; `for_backlog`: until nothing of it is pending. Zero: the policy has no such priority. NULL: it has
   * none. */
  int (*prioritise)(const sd_ready *ready, uint32_t strand, uint32_t priority, int for_backlog, uint64_t now);
  /* Whether there is such a priority. NULL: there are none. */
  int (*accepts)(const sd_ready *ready, uint32_t priority);
  /* Makes a task that is not listed as new: of this priority, or of the usual one if it is UINT32_MAX, and with these marks. By the one
   * thread that has the task. NULL: the policy keeps nothing of an entry. */
  void (*renew)(const sd_ready *ready, uint32_t task, uint32_t priority, uint32_t marks);
  /* A task that `renew` made is over, and its entry will be used again. What it used was charged before. NULL: nothing is kept of it. */
  void (*over)(const sd_ready *ready, uint32_t task);
  /* Takes a strand off the list on which it is. Nonzero: nobody else takes it any more. Zero: it is on no list, as somebody has taken it.
   * NULL: a strand leaves a list only by its turn. */
  int (*leave)(const sd_ready *ready, uint32_t strand);
  /* One more than the level to which a task has risen by its wait; 0: it has not risen. `taken`: by who has taken it off its list, and else
   * by a thread for which its entry is not used again meanwhile. NULL: nothing rises. */
  uint32_t (*rose)(const sd_ready *ready, uint32_t task, int taken);
  /* Adds by level how many tasks more there are than were submitted with it: of those that wait, and whose priority says a level of their
   * own (SD_OWN_LEVEL), those that have risen to it less those that have risen from it. Takes the lists' locks. NULL: nothing rises. */
  void (*risen)(const sd_ready *ready, int64_t *more);
  /* The strand's level as it was set, whatever it has risen to, by itself or for its backlog. NULL: there are no levels. */
  uint32_t (*level)(const sd_ready *ready, uint32_t strand);
  /* Takes the strand that comes last of those on all lists, if its level is lower than `level`; else SD_NONE. NULL: there are no levels. */
  uint32_t (*take_last)(const sd_ready *ready, uint32_t level);
  /* Adds what was counted so far. It takes no lock and writes no state, because another process may look, to which the arena is
   * read-only. NULL: nothing is counted. */
  void (*counts)(const sd_ready *ready, sd_policy_counts *counts);
  /* Marks a strand, before it is listed for the first time. NULL, as is `hold`: the policy holds no strands back. */
  void (*mark)(const sd_ready *ready, uint32_t strand, uint32_t marks);
  /* Holds strands back while a set of resources is short, and lets those of the others go. A strand that is held back stays listed, is not
   * taken, and is not counted in its list's length. Returns the resources that are not short, for which strands still wait that were let
   * go last. One thread at a time. It calls this again and again while strands are held back, and wakes a worker each time that there are
   * some to take: a strand that may be taken since its wait was long is listed already. */
  uint32_t (*hold)(const sd_ready *ready, uint32_t resources, uint64_t now);
  /* Gives levels other timeouts, in ns, by which waits count that are under way. NULL: there are no timeouts. */
  void (*retime)(const sd_ready *ready, const uint64_t *timeout_ns);
  /* Gives a group a weight, by which counts what is charged to it from here on. Zero: there is no such group or weight. NULL: there are no
   * groups. A strand's group is its priority. */
  int (*weigh)(const sd_ready *ready, uint32_t group, uint32_t weight);
  /* No task is submitted to the group any more. It is returned when its tasks are over and its debt is past. Zero: there is no such group.
   * NULL: there are no groups. */
  int (*close)(const sd_ready *ready, uint32_t group);
  /* Returns up to n groups that were closed, and what was counted of each: from here on each is as new. `all`: those too that have a debt.
   * NULL: there are no groups. */
  uint32_t (*returned)(const sd_ready *ready, uint32_t n, int all, uint32_t *groups, sd_group_counts *counts);
  /* What is counted of each of the first n groups, and of all, at one moment. It takes a lock: for the dispatcher's own process alone.
   * NULL: there are no groups. */
  void (*group_counts)(const sd_ready *ready, uint32_t n, sd_group_counts *groups, sd_fair_counts *all);
  /* Charges the on-CPU time of a visit to a strand. By the strand's owner, before it lets the token go. NULL: nothing is charged, and
   * nothing measured. */
  void (*charge)(const sd_ready *ready, uint32_t strand, uint64_t on_cpu_ns);
  /* For a worker to which `next` gave nothing: when to look again although nothing is listed meanwhile, a clock reading. UINT64_MAX:
   * nothing is held back, and the worker has to sleep, as its looking counts against a cap too. 0: it does as the options say. NULL:
   * likewise. */
  uint64_t (*due)(const sd_ready *ready, uint64_t now);
} sd_policy;

static inline uint32_t sd_levels_in(const sd_policy *policy) { return policy->n_levels ? policy->n_levels : 1; }

#define SD_POLICY_DECLARED(name, number) extern const sd_policy sd_policy_##name;
SD_POLICIES(SD_POLICY_DECLARED)

/* The policy of a number, SD_FIFO and so on; NULL: there is none, or it lacks what it needs. */
const sd_policy *sd_policy_of(int32_t number);

/* The number of a policy's name; SD_POLICY_COUNT: there is none. */
/* cffi: begin */
int32_t sd_policy_number(const char *name);
/* cffi: end */
