/* Numbers, the watermark, the feed's time, buffers and their merger, timers and the clock: the engine's own files under the checker.
 *
 * The models of tokens, lists and segments are elsewhere (drain.cpp, tasks.cpp); here it is what those who only read conclude. */
#include "engine.hpp"

/* Two publishers, a worker, and who asks for the watermark: what lies below it has been handled. */
template <bool has_positions, bool inlined> struct watermark : rl::test_suite<watermark<has_positions, inlined>, 4> {
  engine e;
  void before() { e.begin(has_positions, false, false, inlined); }
  void thread(unsigned index) {
    if (index == 0) {
      record first[] = {{0, 0, 10}}, second[] = {{1, 1, 20}};
      e.publish(1, first, 1);
      e.publish(1, second, 1);
      e.others++;
    } else if (index == 1) {
      record both[] = {{0, 2, 10}, {1, 3, 20}};
      e.publish(2, both, 2);
      e.others++;
    } else if (index == 2) {
      e.work(3);
    } else {
      for (int i = 0; i < 3; i++) {
        e.pass(sd_watermark(&e.d));
        sd_pause();
      }
      e.others++;
    }
  }
  void after() {
    RL_ASSERT(e.handled == 4 && sd_watermark(&e.d) >= 4);
    e.end();
  }
};

/* Nothing is handled: no watermark passes a record that waits. */
struct waiting : rl::test_suite<waiting, 2> {
  engine e;
  void before() { e.begin(false, false, false, false); }
  void thread(unsigned index) {
    if (index == 0) {
      record r[] = {{0, 0, 10}};
      e.publish(1, r, 1);
    } else {
      for (int i = 0; i < 3; i++) RL_ASSERT(sd_watermark(&e.d) == 0);
    }
  }
  void after() { e.end(); }
};

struct bound_first {
  static void publish(engine &e, const record *records, int64_t n) { e.publish(1, records, n); }
};
/* Wrong: the time is published before the bound. */
struct time_first {
  static void publish(engine &e, const record *records, int64_t n) {
    sd_participant *s = &e.d.participants[1];
    sd_publisher *p = publisher_of(&e.d, 1, 0);
    for (int64_t i = 0; i < n; i++) {
      sd_number_records(&e.d, p, (const unsigned char *)(records + i), 1);
      sd_store(&s->published_time, p->end_time, release, N2);
      sd_store(&s->publishing, p->number + 1, release, M1);
    }
    sd_store(&s->publishing, sd_not_publishing(&e.d), release, M1);
  }
};

/* The feed's time that goes with a lower bound of the numbers is not beyond it: records rise by 10. */
template <typename rules> struct bounds : rl::test_suite<bounds<rules>, 2> {
  engine e;
  void before() { e.begin(true, false, false, false); }
  void thread(unsigned index) {
    if (index == 0) {
      bound_with_positions(&e.d, 1, publisher_of(&e.d, 1, 0));
      record first[] = {{0, 0, 10}, {1, 1, 20}, {0, 2, 30}, {1, 3, 40}}, second[] = {{0, 4, 50}};
      rules::publish(e, first, 4);
      rules::publish(e, second, 1);
    } else {
      for (int i = 0; i < 6; i++) {
        uint64_t time, low = sd_lowest_unpublished(&e.d, &time);
        RL_ASSERT(low <= 5 && time <= 10 * low);
      }
    }
  }
  void after() {
    uint64_t time;
    RL_ASSERT(sd_lowest_unpublished(&e.d, &time) == 5 && time == 50);
    e.end();
  }
};

/* A failure that is counted is filled in, and who sees the stop sees why. */
struct failures : rl::test_suite<failures, 2> {
  engine e;
  SD_PLAIN(uint64_t) text;
  void before() { e.begin(false, false, false, false); }
  void thread(unsigned index) {
    if (index == 0) {
      text = 1;
      sd_fail(&e.d, 0, 0, NULL, 0, 7, "as told");
    } else {
      for (int i = 0; i < 3; i++) {
        sd_failure failure;
        int stopped = sd_dispatcher_stopping(&e.d), code = sd_failure_get(&e.d, 0, &failure);
        RL_ASSERT(!stopped || code == SD_OK);
        if (code == SD_OK) RL_ASSERT((uint64_t)text == 1);
      }
    }
  }
  void after() { e.end(); }
};

struct right_merging {
  static void work(engine &e, uint32_t others) { e.work(others); }
  static void merge(engine &e) { e.merge(); }
};
/* Wrong: buffers are read before the watermark is taken. */
struct buffers_first : right_merging {
  static void merge(engine &e) {
    for (sd_emit_buffer *buffer : e.buffer) RL_ASSERT(read_buffer(&e.outputs, &e.output, buffer, 1) == SD_OK);
    uint64_t time, frontier = sd_watermark_time(&e.d, &time);
    if (frontier >= e.outputs.frontier) e.outputs.frontier = frontier, e.outputs.time = time;
    e.look_at_buffers();
    e.give_out();
  }
};
/* Wrong: a visit is booked before what it emitted is committed. */
struct booked_first : right_merging {
  static void work(engine &e, uint32_t others) {
    while (e.others < others || e.anything_pending()) {
      uint32_t index, participant = 0;
      while (participant < PARTICIPANTS && !e.d.policy->pick(&e.d.ready, participant, &index, 1, 4)) participant++;
      if (participant == PARTICIPANTS) {
        sd_pause();
        continue;
      }
      RL_ASSERT(sd_own(&e.d, 0, index));
      sd_strand *s = &e.strands[index];
      sd_context ctx;
      sd_context_of(&e.d, 0, &e.handler, &ctx);
      const int64_t pending = sd_strand_pending(s);
      unsigned char *records;
      uint32_t run = sd_strand_front(s, &e.d.pool, &e.participants[0].cache, (uint32_t)pending, &records);
      const uint32_t at = sd_load(&s->at, relaxed, Q2);
      ctx.positions = sd_segment_position(&e.d.pool, sd_load(&s->head, relaxed, Q1), at);
      ctx.keys = records;
      handle(e.d.rows, (const sd_tick *)records, run, &ctx);
      sd_store(&s->at, at + run, relaxed, Q2);
      sd_account_visit(&e.d, 0, s, run, 0, 0, 0);
      finish(&e.d, 0, index, run, pending, 0);
      sd_writers_commit(&ctx);
    }
  }
};

/* Publishers, a worker, and the merger: what was emitted for numbers below the watermark is in the buffers, and comes out in order. */
template <typename rules, bool inlined> struct merging : rl::test_suite<merging<rules, inlined>, 4> {
  engine e;
  void before() { e.begin(true, true, false, inlined); }
  void thread(unsigned index) {
    if (index == 0) {
      record first[] = {{0, 0, 10}, {0, 1, 20}}, second[] = {{1, 2, 30}};
      e.publish(1, first, 2);
      e.publish(1, second, 1);
      e.others++;
    } else if (index == 1) {
      record both[] = {{0, 3, 10}, {1, 4, 20}};
      e.publish(2, both, 2);
      e.others++;
    } else if (index == 2) {
      rules::work(e, 3);
    } else {
      for (int i = 0; i < 3; i++) {
        rules::merge(e);
        sd_pause();
      }
      e.others++;
    }
  }
  void after() {
    e.end_merging();
    e.end();
  }
};

/* The same with timers, which the owner, a publisher or the merger finds due. */
template <bool inlined, bool merges> struct timers : rl::test_suite<timers<inlined, merges>, 3> {
  engine e;
  void before() {
    e.begin(true, merges, true, inlined);
    RL_ASSERT(sd_timers_connect(&e.d) == SD_OK);
  }
  void thread(unsigned index) {
    if (index == 0) {
      record first[] = {{0, 0, 10}, {1, 1, 12}}, second[] = {{0, 2, 15}}, third[] = {{1, 3, 25}, {0, 4, 40}};
      e.publish(1, first, 2);
      e.publish(1, second, 1);
      e.publish(1, third, 2);
      e.others++;
    } else if (index == 1) {
      e.work(2);
    } else {
      for (int i = 0; i < 4; i++) {
        if (merges) e.merge();
        else sd_overdue_scan_where_due(&e.d, sd_feed_time(&e.d), 0);
        sd_pause();
      }
      e.others++;
    }
  }
  void after() {
    /* An alarm that no overdue alarm covers is one that a look still finds. */
    for (uint32_t strand = 0; strand < STRANDS; strand++) {
      const sd_alarm_tree t = sd_alarm_tree_of(&e.d.alarms, strand);
      uint64_t alarm = sd_alarm_next(&t);
      RL_ASSERT(alarm == SD_NEVER || sd_load(&e.arena.next_alarm, relaxed, K5) <= alarm ||
                sd_load(&e.arena.overdue_later, relaxed, K8));
    }
    /* What is due fires without a record. */
    for (uint32_t due; (due = sd_overdue_sweep(&e.d)) > 0;) {
      e.work(2);
      if (merges) e.merge();
    }
    for (uint32_t key = 0; key < SYMBOLS; key++) RL_ASSERT(!e.alarm[key] || e.alarm[key] > 40);
    if (merges) e.end_merging();
    e.end();
  }
};

struct right_time {
  static void move(engine &e, uint64_t time) { sd_publish_time(&e.d, time); }
  /* As a worker that runs out of work. */
  static void look(engine &e) { sd_overdue_scan_where_due(&e.d, sd_feed_time(&e.d), 0); }
};
/* Wrong: a worker goes to sleep without a look for the timers that it set. */
struct sleeps_at_once : right_time {
  static void look(engine &) {}
};
/* Wrong: the time moves while a publisher numbers records. */
struct time_beside_numbers : right_time {
  static void move(engine &e, uint64_t time) {
    sd_lock(&e.arena.number_lock);
    if (sd_load(&e.arena.feed_time, relaxed, N1) < time) sd_store(&e.arena.feed_time, time, relaxed, N1);
    sd_unlock(&e.arena.number_lock);
    sd_overdue_scan_after(&e.d);
  }
};
/* Wrong: the time is looked at before the numbers are the caller's. */
struct looked_at_before : right_time {
  static void move(engine &e, uint64_t time) {
    const uint64_t now = sd_feed_time(&e.d);
    sd_numbers_begin(&e.d);
    sd_numbers_end(&e.d, 0, now > time ? now : time);
    sd_overdue_scan_after(&e.d);
  }
};
/* Wrong: behind the time, timers are looked for without the read-modify-write, so an alarm that is set meanwhile may be passed over. */
struct looks_too_early : right_time {
  static void move(engine &e, uint64_t time) {
    sd_numbers_end(&e.d, 0, max_of((uint64_t)sd_numbers_begin(&e.d).time, time));
    sd_overdue_scan_where_due(&e.d, sd_feed_time(&e.d), 0);
  }
  static uint64_t max_of(uint64_t one, uint64_t other) { return one > other ? one : other; }
};
/* Wrong: timers are looked for before the time moves. */
struct looks_first : right_time {
  static void move(engine &e, uint64_t time) {
    sd_overdue_scan_where_due(&e.d, time, 0);
    sd_numbers_end(&e.d, 0, max_of((uint64_t)sd_numbers_begin(&e.d).time, time));
  }
  static uint64_t max_of(uint64_t one, uint64_t other) { return one > other ? one : other; }
};

/* The feed's time is moved on while records are numbered. It does not go back. No record gets a time before one that was told with a
 * lower bound of its number, or that was reached before the record was published. What is due by then fires. */
template <typename rules, bool inlined> struct moving : rl::test_suite<moving<rules, inlined>, 4> {
  enum { LOOKS = 4 };
  engine e;
  uint64_t low[LOOKS], time[LOOKS];
  void before() {
    e.begin(true, false, true, inlined);
    RL_ASSERT(sd_timers_connect(&e.d) == SD_OK);
    memset(time, 0, sizeof time);
  }
  void thread(unsigned index) {
    if (index == 0) {
      record first[] = {{0, 0, 10}, {1, 1, 12}}, second[] = {{0, 2, 15}};
      e.publish(1, first, 2);
      e.publish(1, second, 1);
      e.others++;
    } else if (index == 1) {
      rules::move(e, 11);
      RL_ASSERT(sd_feed_time(&e.d) >= 11);
      record late[] = {{1, 3, 9}};
      e.least_time[3] = 11;
      e.publish(2, late, 1);
      rules::move(e, 30);
      e.others++;
    } else if (index == 2) {
      do {
        e.work(3);
        rules::look(e);
      } while (e.anything_pending());
    } else {
      for (int i = 0; i < LOOKS; i++) low[i] = sd_lowest_unpublished(&e.d, &time[i]);
      e.others++;
    }
  }
  void after() {
    RL_ASSERT(sd_feed_time(&e.d) == 30 && e.handled == 4);
    /* Some numbers stay unused: a record that waited gets another one. */
    uint64_t latest = 0;
    for (uint64_t number = 0; number < MOST; number++) {
      if (!e.was_done[number]) continue;
      RL_ASSERT(e.time_of[number] >= latest);
      latest = e.time_of[number];
      for (int i = 0; i < LOOKS; i++) RL_ASSERT(number < low[i] || latest >= time[i]);
    }
    for (uint64_t alarm : e.alarm) RL_ASSERT(!alarm || alarm > 30);
    rules::move(e, 60);
    e.work(0);
    for (uint64_t alarm : e.alarm) RL_ASSERT(!alarm || alarm > 60);
    e.end();
  }
};

struct root_first {
  static void arm(engine &e) { e.work(0); }
};
/* Wrong: next_alarm is lowered before the root is stored. */
struct lowered_first {
  static void arm(engine &e) {
    sd_lower_next_alarm(&e.d, 14);
    const sd_alarm_tree t = sd_alarm_tree_of(&e.d.alarms, 0);
    sd_alarm_set(&t, e.d.alarms.place[0].leaf, 14);
  }
};

/* The owner asks for a timer while somebody looks for alarms: either the look sees it, or the next one will. */
template <typename rules> struct arming : rl::test_suite<arming<rules>, 2> {
  engine e;
  void before() {
    e.begin(true, false, true, false);
    RL_ASSERT(sd_timers_connect(&e.d) == SD_OK);
    record r[] = {{0, 0, 10}};
    e.publish(1, r, 1);
  }
  void thread(unsigned index) {
    if (index == 0) rules::arm(e);
    else
      for (int i = 0; i < 2; i++) sd_overdue_scan(&e.d);
  }
  void after() {
    const sd_alarm_tree t = sd_alarm_tree_of(&e.d.alarms, 0);
    RL_ASSERT(sd_alarm_next(&t) == 14 && sd_load(&e.arena.next_alarm, relaxed, K5) <= 14);
    e.end();
  }
};

/* Somebody attaches while a dispatcher is still being made, and asks for a name: what is said to be there is. */
struct attaching : rl::test_suite<attaching, 2> {
  engine e;
  SD_PLAIN(uint32_t) text, described;
  void before() {
    e.begin(false, false, false, false);
    e.arena.names = sd_space_offset(&e.space, e.until);
    for (auto &name : e.until) sd_init(&name, 0u);
  }
  void thread(unsigned index) {
    const uint32_t key = 1, length = 1;
    if (index == 0) {
      described = 1;
      sd_dispatcher_show(&e.d);
      text = 7;
      RL_ASSERT(sd_dispatcher_name(&e.d, &key, &length, 1, "x") == SD_OK);
      return;
    }
    for (int i = 0; i < 3; i++) {
      if (!sd_load(&e.head.root, acquire, D1)) continue;
      RL_ASSERT((uint32_t)described == 1);
      if (sd_load(&e.until[key], acquire, D2)) RL_ASSERT((uint32_t)text == 7);
    }
  }
  void after() { e.end(); }
};

/* Handlers are set while somebody merges already. */
struct connecting : rl::test_suite<connecting, 2> {
  engine e;
  void before() { e.begin(true, true, true, false); }
  void thread(unsigned index) {
    if (index == 0) {
      RL_ASSERT(sd_timers_connect(&e.d) == SD_OK);
    } else {
      while (!sd_timed(&e.d)) sd_pause();
      RL_ASSERT(sd_earliest_alarm(&e.d) == SD_NEVER);
    }
  }
  void after() { e.end(); }
};

/* An alarm taken back by an overdue alarm, while all that was published has been handled: who merges finds the alarm, or what its timer
 * emitted. */
struct taking_back : rl::test_suite<taking_back, 2> {
  engine e;
  void before() {
    e.begin(true, true, true, false);
    RL_ASSERT(sd_timers_connect(&e.d) == SD_OK);
    record both[] = {{0, 0, 10}, {1, 2, 20}};
    e.publish(1, both, 2);
    e.work(0);
  }
  void thread(unsigned index) {
    if (index == 0) {
      sd_overdue_sweep(&e.d);
      e.work(1);
    } else {
      for (int i = 0; i < 3; i++) e.merge();
      e.others++;
    }
  }
  void after() {
    RL_ASSERT(e.fires > 0);
    e.end_merging();
    e.end();
  }
};

static const model_program programs[] = {
    {"bounds", "", model_simulate<bounds<bound_first>>},
    {"failures", "", model_simulate<failures>},
    {"timers_connect", "", model_simulate<connecting>},
    {"timers_take_back", "", model_simulate<taking_back>},
    {"attaching", "", model_simulate<attaching>},
    {"timers_arm", "", model_simulate<arming<root_first>>},
    {"watermark_waits", "", model_simulate<waiting>},
    {"watermark", "", model_simulate<watermark<false, false>>},
    {"watermark_positions", "", model_simulate<watermark<true, false>>},
    {"watermark_inline", "", model_simulate<watermark<true, true>>},
    {"merge", "", model_simulate<merging<right_merging, false>>},
    {"merge_inline", "", model_simulate<merging<right_merging, true>>},
    {"time_moves", "", model_simulate<moving<right_time, false>>},
    {"time_moves_inline", "", model_simulate<moving<right_time, true>>},
    {"timers", "", model_simulate<timers<false, false>>},
    {"timers_inline", "", model_simulate<timers<true, false>>},
    {"timers_merge", "", model_simulate<timers<false, true>>},
    {"timers_inline_merge", "", model_simulate<timers<true, true>>},
    {"time_before_bound", "wrong", model_simulate<bounds<time_first>>},
    {"buffers_before_watermark", "wrong", model_simulate<merging<buffers_first, false>>},
    {"booked_before_committed", "wrong", model_simulate<merging<booked_first, false>>},
    {"time_moves_beside_numbers", "wrong", model_simulate<moving<time_beside_numbers, false>>},
    {"time_looked_at_before", "wrong", model_simulate<moving<looked_at_before, false>>},
    {"time_looks_too_early", "wrong", model_simulate<moving<looks_too_early, false>>},
    {"worker_sleeps_at_once", "wrong", model_simulate<moving<sleeps_at_once, false>>},
    {"timers_looked_for_first", "wrong", model_simulate<moving<looks_first, false>>},
    {"lowered_before_stored", "wrong", model_simulate<arming<lowered_first>>},
};

int main(int argc, char **argv) { return model_main(argc, argv, programs, sizeof programs / sizeof *programs); }
