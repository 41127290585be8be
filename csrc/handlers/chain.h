/* Several handlers, one after another on each record: the later ones see what the earlier ones made of it. */
#pragma once

#include "sd_handler.h"
#include "state/state.h"

/* measures/tape.h; the engine knows chains without it. */
struct sd_source;
struct sd_tape_reader;

/* cffi: begin */
enum { SD_CHAIN_MAX = 16 };

/* Asks for the memory that n records will touch. The parts handle them one by one, and could not ask in time. */
typedef void (*sd_ahead_fn)(void *rows, const sd_tick *ticks, int64_t n, const sd_context *ctx);

typedef struct sd_chain_part {
  sd_handler_fn fn;
  sd_ahead_fn ahead;   /* may be NULL */
  sd_wake_fn wake;     /* may be NULL: it has no timers */
  sd_finish_fn finish; /* may be NULL */
  const void *params;
  uint64_t row_offset;              /* of its row in the chain's */
  uint32_t first_output, n_outputs; /* its own ones of the chain's */
  uint64_t shares;                  /* not 0: it reads the chain's tape */
} sd_chain_part;

/* Each part has its own timer for a symbol. The engine knows only the chain's, which is the earliest of them. */
typedef struct sd_chain {
  uint64_t n;
  /* Of the parts that share a tape, and what opens it, which the core has; NULL: none do. */
  const struct sd_source *source;
  void (*open)(struct sd_tape_reader *r, const struct sd_source *source, const sd_tick *ticks, int64_t n,
               const sd_context *ctx);
  /* By symbol, `alarm_stride` apart: when each part's timer is due, 0: never. NULL: no part has timers. Only the strand's owner uses
   * them. */
  uint64_t *alarms;
  uint64_t alarm_stride; /* in u64; large enough that symbols share no cache line */
  sd_chain_part part[SD_CHAIN_MAX];
} sd_chain;

/* If a part fails on a record, the parts before it have handled that record. */
int64_t sd_handle_chain(void *rows, const sd_tick *ticks, int64_t n, sd_context *ctx);
/* Fires the due timers of all parts, in the parts' order. Those behind one that fails are due in the next ns. */
int sd_wake_chain(void *rows, uint32_t key, int64_t time, sd_context *ctx);
int sd_finish_chain(void *rows, uint32_t key, sd_context *ctx);
/* When the next timer of a symbol is due; 0: there is none. */
uint64_t sd_chain_alarm(const sd_chain *chain, uint32_t key);
/* cffi: end */

/* ---- for a chain with a Python handler at its end */

/* cffi: begin */
/* Runs a chain of native handlers over records of a strand that participant `participant` owns, one by one, and copies the first `width`
 * bytes of the row after each record to `after`. Returns how many it handled. If these are fewer than n, it stopped before a timer, or
 * failed on the next record: then *failed is not 0, and `failure` says why. */
int64_t sd_chain_track(sd_dispatcher *d, uint32_t participant, const sd_handler *handler, const void *records,
                       int64_t n, uint64_t width, void *after, int32_t *failed, sd_failure *failure);
/* Fires its due timers for a symbol of such a strand, or (`at_end`) runs its end. Nonzero: it failed, and `failure` says why. */
int sd_chain_act(sd_dispatcher *d, uint32_t participant, const sd_handler *handler, uint32_t key, uint64_t time,
                 int at_end, sd_failure *failure);
/* cffi: end */
