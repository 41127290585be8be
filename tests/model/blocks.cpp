/* A window of blocks (blocks/window.h): three threads make, adopt and handle them, and one of the three opens the window twice.
 *
 * A source is a row of places. Block b begins at place 10 * b, which only those who adopted the block before know; a thread that makes a
 * block guesses, and in each round one guess is wrong. A block's list for a home is one number, which comes from where the block begins.
 * The rows of a home are the number that it handles next.
 */
#include "model.hpp"

#include "blocks/window.h"

enum { SLOTS = 2, HOMES = 2, ROUNDS = 2, NO_PLACE = 7 };

struct a_block {
  SD_PLAIN(uint64_t) number; /* of its first record; written as the block is adopted */
  SD_PLAIN(uint64_t) begin;
  SD_PLAIN(uint64_t) list[HOMES];
  SD_PLAIN(uint64_t) before; /* written as the block is adopted */
};

/* What one opening of the window is to do. */
struct a_round {
  uint64_t n_blocks, wrong_guess, odd;
};
static const a_round rounds[ROUNDS] = {{4, 1, 99}, {4, 2, 3}};

struct blocks_world {
  sd_window w;
  sd_home home[HOMES];
  sd_a64 made[SLOTS];
  a_block slot[SLOTS];
  SD_PLAIN(uint64_t) first;  /* written before the window opens: the number of the round's first record */
  SD_PLAIN(uint64_t) odd;    /* likewise: the block that is not part */
  SD_PLAIN(uint64_t) wrong;  /* likewise: the block that is guessed wrongly */
  SD_PLAIN(uint64_t) offset; /* the decoder's: where the next block to be adopted begins */
  SD_PLAIN(uint64_t) next;   /* the next number, under `numbering` */
  sd_a32 numbering;          /* the dispatcher's, which other publishers take too */
  SD_PLAIN(uint64_t) row[HOMES];
  sd_a32 joins;             /* workers may join, as sd_blocks_decide says while they run already */
  SD_PLAIN(uint64_t) there; /* what was created before that */
  int done;                 /* the oracle's: the threads need not come back */

  void begin() {
    sd_init(&w.inside, 0u);
    sd_init(&w.adopting, 0u);
    sd_init(&numbering, 0u);
    for (auto &h : home) sd_init(&h.token, 0u);
    for (auto &r : row) r = 0u;
    sd_init(&joins, 0u);
    there = 0u;
    w.home = home;
    w.made = made;
    done = 0;
  }
};

struct right {
  static int enter(sd_window *w) { return sd_window_is_open(w) && sd_window_enter(w); }
  static uint64_t take(sd_window *w) { return sd_window_take(w); }
  static uint64_t begin_adopting(sd_window *w) { return sd_window_begin_adopting(w); }
  static void end_adopting(sd_window *w, uint64_t block, int is_part) { sd_window_end_adopting(w, block, is_part); }
  static uint64_t begin(sd_window *w, uint32_t h, uint64_t *from) { return sd_home_begin(w, h, from); }
  static void end(sd_window *w, uint32_t h) { sd_home_end(w, h); }
  static void passed(sd_window *w, uint32_t h, uint64_t block) { sd_home_passed(w, h, block); }
  static int empty(sd_window *w) { return sd_window_empty(w); }
  enum { verifies = 1, peeks = 0, numbers_late = 0 };
};

/* Wrong: a slot is used again when all homes but one are through with it. */
struct one_home_early : right {
  static uint64_t take(sd_window *w) {
    uint64_t block = sd_load(&w->taken, relaxed, H5);
    do {
      const uint64_t slowest = sd_load(&w->home[0].next, acquire, H4);
      if (block >= w->n_blocks || block - slowest >= w->n_slots) return SD_NO_BLOCK;
    } while (!sd_cas(&w->taken, &block, block + 1, relaxed, H5));
    return block;
  }
};

/* Wrong: a home says that it is through with a block before it has handled it. */
struct passes_first : right {
  static uint64_t begin(sd_window *w, uint32_t h, uint64_t *from) {
    const uint64_t to = sd_home_begin(w, h, from);
    if (to) sd_home_passed(w, h, to - 1);
    return to;
  }
  static void passed(sd_window *, uint32_t, uint64_t) {}
};

/* Wrong: nothing keeps two threads from adopting a block. */
struct adopts_unlocked : right {
  static uint64_t begin_adopting(sd_window *w) {
    const uint64_t block = sd_load(&w->adopted, relaxed, H7);
    if (block >= sd_load(&w->end, relaxed, H7)) return SD_NO_BLOCK;
    return sd_load(&w->made[block % w->n_slots], acquire, H6) == block + 1 ? block : SD_NO_BLOCK;
  }
};

/* Wrong: a block is handled where it was guessed to begin. */
struct believes : right {
  enum { verifies = 0, peeks = 0 };
};

/* Wrong: a home's lists are handled by whoever comes by. */
struct without_token : right {
  static uint64_t begin(sd_window *w, uint32_t h, uint64_t *from) {
    *from = sd_load(&w->home[h].next, relaxed, H7);
    const uint64_t to = sd_load(&w->adopted, acquire, H8);
    return to > *from ? to : 0;
  }
  static void end(sd_window *, uint32_t) {}
};

/* Wrong: a thread looks at a home's next list to learn whether it is worth while. */
struct looks_without_token : right {
  enum { verifies = 1, peeks = 1 };
};

/* Wrong: who opened the window sets it up anew while others are in it. */
struct waits_for_nobody : right {
  static int empty(sd_window *) { return 1; }
};

/* Wrong: whoever saw the window open takes part. */
struct comes_too_late : right {
  static int enter(sd_window *w) {
    if (!sd_window_is_open(w)) return 0;
    sd_fetch_add(&w->inside, UINT64_C(1), acq_rel, H1);
    return 1;
  }
};

/* Wrong: a block that is not part ends nothing. */
struct goes_on : right {
  static void end_adopting(sd_window *w, uint64_t block, int) { sd_window_end_adopting(w, block, 1); }
};

/* Wrong: a block's records get their numbers when it has been adopted. */
struct numbers_later : right {
  enum { numbers_late = 1 };
};

template <typename rules> struct blocks : rl::test_suite<blocks<rules>, 3> {
  blocks_world s;
  void before() { s.begin(); }

  void make(uint64_t number, a_block *b, uint64_t begin) {
    b->begin = begin;
    for (uint32_t h = 0; h < HOMES; h++) b->list[h] = s.first + begin / 10 * HOMES + h + (begin % 10 ? 500 : 0);
  }
  bool make_one() {
    const uint64_t number = rules::take(&s.w);
    if (number == SD_NO_BLOCK) return false;
    make(number, &s.slot[number % SLOTS], number == s.wrong ? 10 * number + NO_PLACE : 10 * number);
    sd_window_made(&s.w, number);
    return true;
  }
  /* Gives the records of a block their numbers, one to each home. */
  void number(a_block *b) {
    sd_lock(&s.numbering);
    const uint64_t first = s.next;
    b->number = first;
    s.next = first + HOMES;
    sd_unlock(&s.numbering);
  }
  bool adopt() {
    const uint64_t number = rules::begin_adopting(&s.w);
    if (number == SD_NO_BLOCK) return false;
    a_block *b = &s.slot[number % SLOTS];
    const uint64_t offset = s.offset;
    RL_ASSERT(offset == 10 * number);
    if (rules::verifies && b->begin != offset) make(number, b, offset);
    const int is_part = number != s.odd;
    if (is_part && !rules::numbers_late) this->number(b);
    if (is_part) {
      b->before = number;
      s.offset = offset + 10;
    }
    rules::end_adopting(&s.w, number, is_part);
    if (is_part && rules::numbers_late) this->number(b);
    return true;
  }
  bool visit(uint32_t h) {
    uint64_t from;
    if (rules::peeks && sd_home_behind(&s.w, h)) {
      const uint64_t next = sd_load(&s.home[h].next, relaxed, H7);
      if ((uint64_t)s.slot[next % SLOTS].list[h] == 0) return false;
    }
    const uint64_t to = rules::begin(&s.w, h, &from);
    if (!to) return false;
    RL_ASSERT(from < to);
    for (uint64_t number = from; number < to; number++) {
      a_block *b = &s.slot[number % SLOTS];
      RL_ASSERT(b->before == number && number != s.odd);
      RL_ASSERT(b->list[h] == s.first + number * HOMES + h);
      RL_ASSERT(b->number == number * HOMES);
      RL_ASSERT(s.row[h] == number);
      s.row[h] = number + 1;
      rules::passed(&s.w, h, number);
    }
    rules::end(&s.w, h);
    return true;
  }
  /* As take_part in blocks/blocks.c. A thread begins at a home of its own. */
  void take_part(uint32_t me, bool closes) {
    while (!sd_window_over(&s.w)) {
      bool any = false;
      if (closes && rl::rand(4) == 0) sd_window_close(&s.w);
      for (uint32_t i = 0; i < HOMES; i++) any |= visit((me + i) % HOMES);
      any |= adopt();
      if (!any && !make_one()) sd_pause();
    }
  }
  void run(const a_round *r, uint64_t first, bool closes) {
    s.first = first;
    s.odd = r->odd;
    s.wrong = r->wrong_guess;
    s.offset = 0;
    s.next = 0;
    s.w.n_blocks = r->n_blocks;
    s.w.n_homes = HOMES;
    s.w.n_slots = SLOTS;
    for (auto &row : s.row) row = 0;
    sd_window_open(&s.w);
    take_part(0, closes);
    sd_window_shut(&s.w);
    while (!rules::empty(&s.w)) sd_pause();
    const uint64_t taken = sd_window_taken(&s.w), part = taken < r->odd ? taken : r->odd;
    RL_ASSERT(closes || taken == r->n_blocks);
    RL_ASSERT(s.offset == 10 * part && s.next == HOMES * part);
    for (auto &row : s.row) RL_ASSERT(row == part);
    /* All memory is the opener's again. */
    for (auto &slot : s.slot) slot.begin = 0;
  }
  void thread(unsigned index) {
    if (index == 0) {
      s.there = 1;
      sd_store(&s.joins, 1u, release, H9);
      /* A window that is closed early, in one of three runs. */
      const uint32_t closed = rl::rand(3);
      for (uint32_t i = 0; i < ROUNDS; i++) run(&rounds[i], 1000 * (i + 1), closed == i);
      s.done = 1;
    } else {
      while (!s.done) {
        /* As sd_join_blocks in state/state.h. */
        const int joins = sd_load(&s.joins, acquire, H9);
        if (joins) RL_ASSERT(s.there == 1);
        if (!joins || !rules::enter(&s.w)) {
          sd_pause();
          continue;
        }
        take_part(index, false);
        sd_window_leave(&s.w);
      }
    }
  }
};

static const model_program programs[] = {
    {"blocks", "", model_simulate<blocks<right>>},
    {"blocks_slot_one_home_early", "wrong", model_simulate<blocks<one_home_early>>},
    {"blocks_passed_before_handled", "wrong", model_simulate<blocks<passes_first>>},
    {"blocks_adopted_twice", "wrong", model_simulate<blocks<adopts_unlocked>>},
    {"blocks_guess_not_verified", "wrong", model_simulate<blocks<believes>>},
    {"blocks_without_token", "wrong", model_simulate<blocks<without_token>>},
    {"blocks_list_looked_at", "wrong", model_simulate<blocks<looks_without_token>>},
    {"blocks_nobody_waited_for", "wrong", model_simulate<blocks<waits_for_nobody>>},
    {"blocks_entered_too_late", "wrong", model_simulate<blocks<comes_too_late>>},
    {"blocks_numbered_after_adoption", "wrong", model_simulate<blocks<numbers_later>>},
    {"blocks_odd_goes_on", "wrong", model_simulate<blocks<goes_on>>},
};

int main(int argc, char **argv) { return model_main(argc, argv, programs, sizeof programs / sizeof *programs); }
