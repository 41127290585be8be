/* Imbalance of the best quotes: of their sizes, and of the flow of orders to them.
 *
 *   queue   (bid_size - ask_size) / (bid_size + ask_size), if there are both sides; its mean is weighted by feed time
 *   ofi     sum of e_n = [b_n >= b_m] q_n - [b_n <= b_m] q_m - [a_n <= a_m] r_n + [a_n >= a_m] r_m
 *           where m = n - 1, b and q are the bid's price and size, a and r the ask's, and [x] is 1 where x holds, else 0
 *
 * R. Cont, A. Kukanov, S. Stoikov, The price impact of order book events, J. of Financial Econometrics 12 (2014), section 2.1. An empty
 * side has size 0 and the worst possible price. The first quote, and the first in a session, only says where flow starts from. Nothing
 * outside of sessions counts, and no time passes before the first time above 0.
 *
 * With `every`, the flow of each interval of that length is emitted when the interval ends, if it had an event. */
#pragma once

#include "measures/interval.h"

/* The emitted record, and the state of the interval under way. */
typedef struct sd_imbalance {
  int64_t start, end; /* ns, end not in it; cut by the session */
  int64_t ofi;
  double queue_mean; /* weighted by the time with both sides; not a number: there was no such time */
  int64_t bid, ask;  /* at the end; SD_UNDEF_PRICE: empty */
  int64_t bid_size, ask_size;
  int64_t events; /* changes of the top */
  uint64_t flags; /* SD_INTERVAL_PARTIAL */
} sd_imbalance;

typedef struct sd_imbalance_row {
  sd_top top; /* all 0 before the first quote */
  int64_t last_time;
  int64_t quotes;    /* those that changed the top */
  int64_t events;    /* how many of them were in sessions and have a flow */
  int64_t ofi;       /* of all of them */
  double queue;      /* now; 0 where a side is empty */
  double queue_mean; /* over all time in sessions with both sides */
  int64_t queue_ns;  /* that time */
  double queue_sum;  /* ns */
  sd_interval interval;
  int64_t accounted; /* the moment up to which time has been accounted to intervals; 0: none */
  int64_t interval_ofi;
  double interval_sum;
  int64_t interval_ns, interval_events;
  sd_stretch stretch;
  int64_t session; /* start of the stretch of the last change; INT64_MIN: the book was cleared since */
  int64_t outside; /* changes of the top outside of sessions, which have no flow */
} sd_imbalance_row;

/* The flow of one change of the top. */
sd_wide sd_order_flow(const sd_top *was, const sd_top *is);

/* cffi: begin */
/* Emits sd_imbalance to output 0. Its params are sd_measure_params. */
int64_t sd_handle_imbalance(void *rows, const sd_tick *ticks, int64_t n, sd_context *ctx);
int sd_wake_imbalance(void *rows, uint32_t key, int64_t time, sd_context *ctx);
int sd_finish_imbalance(void *rows, uint32_t key, sd_context *ctx);
/* cffi: end */
