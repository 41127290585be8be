/* The benchmarks' own threads, written by hand after csrc/lab/bench: each function has the name of the one it stands for, and the
 * same steps with the same labels and orders in the same order, which tests/unit/test_memory_order.py holds it to. */
#include "model.hpp"

enum { RING = 2, TICKS = 4 };

/* ---- route.c: one ring per worker */

struct ring {
  sd_a64 tail, head;
  SD_PLAIN(uint64_t) slots[RING];
};

struct static_route : rl::test_suite<static_route, 2> {
  sd_a32 ready, closed;
  ring r;
  SD_PLAIN(int) failed;        /* the worker's */
  SD_PLAIN(uint64_t) rows;     /* the handler's */
  uint64_t end_tail, end_head; /* the publisher's end of the ring */
  int served;                  /* the worker has returned, and is joined */
  void before() {
    sd_init(&ready, 0u), sd_init(&closed, 0u), sd_init(&r.tail, 0u), sd_init(&r.head, 0u);
    failed = -1, rows = 0u;
    end_tail = end_head = 0, served = 0;
  }
  void serve() {
    uint64_t head = 0;
    failed = 0;
    sd_fetch_add(&ready, 1u, release, BR1);
    for (;;) {
      uint64_t tail = sd_load(&r.tail, acquire, BR3);
      if (tail == head) {
        if (sd_load(&closed, acquire, BR7) && sd_load(&r.tail, acquire, BR3) == head) return;
        sd_pause();
        continue;
      }
      for (; head != tail; head++) {
        RL_ASSERT((uint64_t)r.slots[head % RING] == head + 1);
        rows = rows + 1;
      }
      sd_store(&r.head, head, release, BR5);
    }
  }
  void publish_ring() { sd_store(&r.tail, end_tail, release, BR4); }
  void wait_for_space() {
    publish_ring();
    for (;;) {
      end_head = sd_load(&r.head, acquire, BR6);
      if (end_tail - end_head < RING) break;
      sd_pause();
    }
  }
  void await_handled() {
    while (sd_load(&r.head, acquire, BR6) != end_tail) sd_pause();
  }
  void dismiss() { sd_store(&closed, 1u, release, BR8); }
  void muster() {
    while (sd_load(&ready, acquire, BR2) < 1) sd_pause();
  }
  void thread(unsigned index) {
    if (index == 0) {
      serve();
      served = 1;
      return;
    }
    muster();
    for (uint64_t i = 0; i < TICKS; i++) {
      if (end_tail - end_head >= RING) wait_for_space();
      r.slots[end_tail % RING] = end_tail + 1;
      end_tail++;
    }
    publish_ring();
    await_handled();
    RL_ASSERT((uint64_t)rows == TICKS); /* before the clock is stopped */
    dismiss();
  }
  void after() { RL_ASSERT(served && (int)failed == 0); }
};

/* ---- latency.c: a worker, and a publisher that waits for each tick. Between them is the engine: its queue is not modelled, but
 * that a tick is there when it is handled. */

struct ping : rl::test_suite<ping, 3> {
  sd_a64 arrived;
  sd_a32 up;
  sd_a32 lock, queued; /* the engine's */
  SD_PLAIN(int) worker_code;
  SD_PLAIN(uint64_t) latency[TICKS];
  int stop, started;
  void before() {
    sd_init(&arrived, 0u), sd_init(&up, 0u), sd_init(&lock, 0u), sd_init(&queued, 0u);
    stop = started = 0;
  }
  void arrive(uint64_t i) {
    latency[i] = i;
    sd_store(&arrived, i + 1, release, BL1);
  }
  void work() {
    worker_code = 0;
    sd_store(&up, 1u, release, BL3);
    for (uint64_t i = 0; !stop;) {
      sd_lock(&lock);
      uint64_t there = sd_load(&queued, relaxed, V);
      sd_unlock(&lock);
      if (i < there) arrive(i++);
      else sd_pause();
    }
  }
  void send_all() {
    for (uint32_t i = 0; i < TICKS; i++) {
      sd_lock(&lock);
      sd_store(&queued, i + 1, relaxed, V);
      sd_unlock(&lock);
      while (sd_load(&arrived, acquire, BL2) != (uint64_t)i + 1) sd_pause();
    }
    stop = 1;
  }
  void play() {
    while (!sd_load(&up, acquire, BL4)) sd_pause();
    RL_ASSERT((int)worker_code == 0);
    started = 1;
  }
  void thread(unsigned index) {
    if (index == 0) work();
    else if (index == 1) play();
    else {
      while (!started) sd_pause();
      send_all();
    }
  }
  /* Both threads are joined before anybody reads a latency. */
  void after() {
    for (uint64_t i = 0; i < TICKS; i++) RL_ASSERT((uint64_t)latency[i] == i);
  }
};

static const model_program programs[] = {
    {"bench_route", "", model_simulate<static_route>},
    {"bench_latency", "", model_simulate<ping>},
};

int main(int argc, char **argv) { return model_main(argc, argv, programs, sizeof programs / sizeof *programs); }
