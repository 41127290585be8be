/* Protocols that look right and are not. Each one has to be caught: a model that passes them proves nothing. */
#include "free_tasks.hpp"
#include "lossy.hpp"
#include "park.hpp"
#include "permits.hpp"
#include "suspend.hpp"

/* ---- 1: a list edited in place: listed by the add that finds 0, unlisted by the subtraction that leaves 0, owner by CAS */
struct edited_in_place : rl::test_suite<edited_in_place, 4> {
  sd_a32 lock, listed;
  sd_ai64 pending;
  sd_a64 owner;
  SD_PLAIN(uint64_t) row;
  uint64_t handled;
  void before() {
    sd_init(&lock, 0u), sd_init(&listed, 0u), sd_init(&pending, 0), sd_init(&owner, 0u);
    row = 0u;
    handled = 0;
  }
  void list(uint32_t yes) {
    sd_lock(&lock);
    sd_store(&listed, yes, relaxed, V);
    sd_unlock(&lock);
  }
  void thread(unsigned index) {
    if (index < 2) {
      for (int i = 0; i < 2; i++)
        if (sd_fetch_add(&pending, 1, acq_rel, V) == 0) list(1);
    } else {
      while (handled < 4) {
        uint64_t idle = 0;
        if (!sd_load(&listed, acquire, V) || !sd_cas(&owner, &idle, index, acq_rel, V)) {
          sd_pause();
          continue;
        }
        int64_t n = sd_load(&pending, acquire, V);
        row = row + n;
        handled += n;
        if (n && sd_fetch_sub(&pending, n, acq_rel, V) == n) list(0);
        sd_store(&owner, 0, release, V);
      }
    }
  }
};

/* ---- 2: the list is popped, the owner word taken by a CAS of its own and given back last ---- */
struct owner_given_back_last : rl::test_suite<owner_given_back_last, 4> {
  world w;
  void before() { w.begin(); }
  void thread(unsigned index) {
    if (index < 2) {
      w.publish(0, 2 + index, index, 1, 1);
      w.publish(0, 2 + index, index, 2, 1);
      w.o.published++;
      return;
    }
    while (w.o.published < 2 || w.o.handled < w.o.accepted) {
      uint32_t s;
      uint64_t idle = 0;
      sd_strand *q = &w.strand[0];
      if (!w.take_off_list(index - 2, &s)) {
        sd_pause();
        continue;
      }
      w.let_go(s); /* the oracle has no say here: it is the CAS that should tell */
      if (!sd_cas(&q->owner, &idle, (uint64_t)index, acquire, W1)) continue;
      int64_t n = sd_strand_pending(q);
      for (int64_t left = n; left > 0;) {
        sd_byte *record;
        uint32_t run = sd_strand_front(q, &w.pool, &w.cache[index - 2], (uint32_t)left, &record);
        for (uint32_t i = 0; i < run; i++) w.handle(s, record[i]);
        sd_strand_advance(q, &w.pool, &w.cache[index - 2], run);
        left -= run;
      }
      q->last = index - 2;
      if (sd_fetch_sub(&q->pending, n, acq_rel, W4) != n) {
        w.got(s);
        w.put_on_list(s);
      }
      sd_store(&q->owner, 0, release, W3);
    }
  }
};

/* ---- 3: a flag cleared by a release store, the queue looked at again by an acquire load ---- */
struct flag_and_recheck : rl::test_suite<flag_and_recheck, 4> {
  sd_a32 scheduled, lock, runs;
  sd_ai64 pending;
  uint64_t handled;
  void before() {
    sd_init(&scheduled, 0u), sd_init(&lock, 0u), sd_init(&runs, 0u), sd_init(&pending, 0);
    handled = 0;
  }
  void schedule() {
    if (!sd_exchange(&scheduled, 1u, acq_rel, V)) {
      sd_lock(&lock);
      sd_store(&runs, 1u, relaxed, V);
      sd_unlock(&lock);
    }
  }
  void thread(unsigned index) {
    if (index < 2) {
      for (int i = 0; i < 2; i++) {
        sd_fetch_add(&pending, 1, release, V);
        /* The usual short cut: no exchange when it is scheduled already. */
        if (!sd_load(&scheduled, acquire, V)) schedule();
      }
    } else {
      while (handled < 4) {
        sd_lock(&lock);
        uint32_t run = sd_load(&runs, relaxed, V);
        sd_store(&runs, 0u, relaxed, V);
        sd_unlock(&lock);
        if (!run) {
          sd_pause();
          continue;
        }
        handled += sd_exchange(&pending, 0, acquire, V);
        sd_store(&scheduled, 0u, release, V);
        if (sd_load(&pending, acquire, V)) schedule();
      }
    }
  }
};

/* ---- 5: a publisher that looks for sleepers before it pushes ---- */
struct looks_before_it_pushes : right_parking {
  static void list_and_wake(world &w, uint32_t s) {
    uint32_t seen = sd_load(&w.idle.state, relaxed, I3);
    w.put_on_list(s);
    if (seen) sd_idle_wake_one(&w.idle);
  }
};

/* ---- 6: a sleeper that clears the bit before it takes itself off the count ---- */
/* What is held back is there all the same, and nobody lists it once more when its time comes. */
struct sleeps_without_a_time_out : right_parking {
  static void sleep_for(world *w, uint32_t epoch, sd_a32 *) { sd_idle_sleep(&w->idle, epoch); }
};

struct clears_before_it_leaves : right_parking {
  static void leave(sd_idle *idle) {
    sd_fetch_and(&idle->state, ~SD_WAKING, acq_rel, I4);
    sd_fetch_sub(&idle->state, 1u, acq_rel, I4);
  }
};

/* ---- 7: inline execution that trusts the lock alone ---- */
struct owns_without_pending : rl::test_suite<owns_without_pending, 3> {
  world w;
  void before() { w.begin(); }
  void thread(unsigned index) {
    if (index == 0) {
      w.publish(0, 2, 0, 1, 1);
      w.o.published++;
    } else if (index == 1) {
      sd_strand *q = &w.strand[0];
      if (sd_try_lock(&q->publish_lock)) {
        w.handle(0, record_of(1, 1));
        w.o.accepted++;
        sd_unlock(&q->publish_lock);
      }
      w.o.published++;
    } else {
      while (w.o.published < 2 || w.o.handled < w.o.accepted)
        if (!w.work(0, 0)) sd_pause();
    }
  }
  void after() { w.end(); }
};

/* ---- 8: what is discarded is subtracted before what is linked is added: the count passes through 0 ---- */
struct discards_first {
  static int add(sd_strand *q, int64_t linked, int64_t discarded) {
    if (discarded) sd_fetch_sub(&q->pending, discarded, acq_rel, V);
    return sd_strand_add(q, linked);
  }
};

/* ---- 9: sleepers registered and lists looked at without their locks ---- */
struct looks_without_locks : rl::test_suite<looks_without_locks, 2> {
  world w;
  sd_a32 got;
  void before() {
    w.begin();
    model_waiters.n = 0;
  }
  void thread(unsigned index) {
    uint32_t s = 0, none;
    if (index == 0) {
      sd_list_push(&w.list[0], w.ring[0], NULL, &s, 1);
      sd_idle_wake_one(&w.idle);
      return;
    }
    while (!sd_list_pop(&w.list[0], w.ring[0], NULL, &none, 1, 4)) {
      uint32_t epoch = sd_idle_enter(&w.idle);
      if (!sd_list_length(&w.list[0])) sd_idle_sleep(&w.idle, epoch);
      sd_idle_leave(&w.idle);
    }
  }
};

/* ---- 10: an owner that looks for tasks before it counts what is pending: one may be among what it counts */
struct looks_before_it_counts : right_tasks {
  static int64_t count(sd_task *table, sd_strand *q) {
    uint32_t tasks = sd_strand_tasks(q);
    int64_t pending = sd_strand_pending(q);
    return tasks ? right_tasks::count(table, q) : pending;
  }
};

/* ---- 11: who gives a task up takes it out and subtracts it: the owner may have counted it as a record */
struct takes_it_out_at_once : right_tasks {
  static int64_t count(sd_task *tasks, sd_strand *q) {
    int64_t pending = sd_strand_pending(q);
    if (!sd_strand_tasks(q)) return pending;
    sd_lock(&q->publish_lock);
    int64_t ahead = sd_strand_tasks(q) ? (int64_t)sd_task_ahead(tasks, q) : sd_strand_pending(q);
    sd_unlock(&q->publish_lock);
    return ahead;
  }
  static int give_up(sd_task *tasks, sd_strand *q, uint64_t handle) {
    sd_lock(&q->publish_lock);
    int done = out(tasks, q, handle);
    sd_unlock(&q->publish_lock);
    return done;
  }
  static int out(sd_task *tasks, sd_strand *q, uint64_t handle) {
    uint32_t task = sd_strand_tasks(q);
    if (!task || (uint32_t)tasks[task - 1].next != task || !sd_task_cancel(&tasks[task - 1], handle)) return 0;
    int64_t pending = sd_load(&q->pending, relaxed, V);
    /* Never the last one: somebody else has the token. */
    while (pending > 1)
      if (sd_cas(&q->pending, &pending, pending - 1, acq_rel, V)) {
        sd_task_unlink(tasks, q);
        break;
      }
    return 1;
  }
};

/* ---- 12: a task that left its list is over, though it was not seized: a stop, or a thread that changes it, has it too */
struct leaves_without_seizing : leaves_its_list {
  int give_up(sd_task_pool *pool, SD_PLAIN(uint32_t) * kept, uint64_t its, uint32_t *left) {
    const uint32_t index = (uint32_t)its - 1;
    sd_task *t = &pool->tasks[index];
    const uint64_t word = sd_task_word(t);
    if (!sd_task_is_named(word, its) || sd_task_state(word) != SD_TASK_WAITS) return 0;
    if (!leave(index)) return sd_task_cancel(t, its);
    kept[index] = 0u;
    ++*left;
    sd_task_end(t);
    sd_guest_gives_up(pool, index, SD_FREE_TASKS);
    return 1;
  }
};

/* ---- 13: the entry of a task that left its list goes back to the pool before the task is over */
struct gives_back_before_it_ends : leaves_its_list {
  int give_up(sd_task_pool *pool, SD_PLAIN(uint32_t) * kept, uint64_t its, uint32_t *left) {
    const uint32_t index = (uint32_t)its - 1;
    sd_task *t = &pool->tasks[index];
    if (!sd_task_seize(t, its)) return 0;
    if (!leave(index)) {
      sd_task_let_go(t, SD_TASK_GIVEN_UP);
      return 1;
    }
    kept[index] = 0u;
    ++*left;
    sd_guest_gives_up(pool, index, SD_FREE_TASKS);
    sd_task_end(t);
    return 1;
  }
};

/* ---- 14: a worker has taken the task, which is let go as if it were on its list still */
struct lets_go_what_was_taken : leaves_its_list {
  int give_up(sd_task_pool *pool, SD_PLAIN(uint32_t) * kept, uint64_t its, uint32_t *left) {
    sd_task *t = &pool->tasks[(uint32_t)its - 1];
    if (!sd_task_seize(t, its)) return 0;
    if (!leave((uint32_t)its - 1)) {
      sd_task_let_go(t, SD_TASK_WAITS);
      return 1;
    }
    kept[(uint32_t)its - 1] = 0u;
    ++*left;
    sd_task_end(t);
    sd_guest_gives_up(pool, (uint32_t)its - 1, SD_FREE_TASKS);
    return 1;
  }
};

/* What is deferred is seen by nobody who gave a permit back at the same time. */
struct defers_and_goes_on : right_deferring {
  static void defer(world &w, sd_permits *) { w.put_on_list(0); }
};
/* A worker sleeps without a look at what is deferred. */
struct sleeps_beside_permits : right_deferring {
  static int wanted(sd_permits *, sd_list *) { return 0; }
};

static const model_program programs[] = {
    {"list_edited_in_place", "wrong", model_simulate<edited_in_place>},
    {"owner_given_back_last", "wrong", model_simulate<owner_given_back_last>},
    {"flag_and_recheck", "wrong", model_simulate<flag_and_recheck>},
    {"looks_before_it_pushes", "wrong", model_simulate<park<looks_before_it_pushes, 2, 2, 2>>},
    {"sleeps_without_a_time_out", "wrong", model_simulate<park<sleeps_without_a_time_out, 2, 2, 2, true>>},
    {"clears_before_it_leaves", "wrong", model_simulate<park<clears_before_it_leaves, 2, 1, 2>>},
    {"owns_without_pending", "wrong", model_simulate<owns_without_pending>},
    {"discards_before_it_links", "wrong", model_simulate<lossy<discards_first>>},
    {"looks_before_it_counts", "wrong", model_simulate<tasks<looks_before_it_counts, false>>},
    {"takes_it_out_at_once", "wrong", model_simulate<tasks<takes_it_out_at_once, false>>},
    {"leaves_without_seizing", "wrong", model_simulate<free_tasks<leaves_without_seizing>>},
    {"gives_back_before_it_ends", "wrong", model_simulate<free_tasks<gives_back_before_it_ends>>},
    {"lets_go_what_was_taken", "wrong", model_simulate<free_tasks<lets_go_what_was_taken>>},
    {"lists_before_it_says", "wrong", model_simulate<suspended<lists_before_it_says>>},
    {"ends_behind_a_stop", "wrong", model_simulate<suspended_free<ends_behind_a_stop>>},
    {"pauses_by_a_store", "wrong", model_simulate<suspended_free<pauses_by_a_store>>},
    {"looks_without_locks", "wrong", model_simulate<looks_without_locks>},
    {"defers_and_goes_on", "wrong", model_simulate<permits<defers_and_goes_on, 3>>},
    {"sleeps_beside_permits", "wrong", model_simulate<permits<sleeps_beside_permits, 3>>},
};

int main(int argc, char **argv) { return model_main(argc, argv, programs, sizeof programs / sizeof *programs); }
