/* Looking at a strand's row from outside, without a lock, beside visits and inline execution.
 *
 * A row is two words that every record makes greater by one. They are atomic and relaxed here, as plain stores are to who looks from
 * another process.
 */
#include "model.hpp"

#include "memory/samples.h"

struct honest {
  static uint64_t begin(sd_strand *s) { return sd_strand_look(s); }
  static int unchanged(sd_strand *s, uint64_t word) { return sd_strand_unchanged(s, word); }
};

/* Wrong: whether somebody owns it is all that is asked. A whole visit lies between the two. */
struct no_count {
  static uint64_t begin(sd_strand *s) { return sd_strand_look(s); }
  static int unchanged(sd_strand *s, uint64_t word) {
    sd_fence(acquire, O3);
    return !sd_owner_in(word) && !sd_owner_in(sd_load(&s->owner, relaxed, O4));
  }
};

/* Wrong: an owner is overlooked that was there before. */
struct owned_is_fine {
  static uint64_t begin(sd_strand *s) { return sd_strand_look(s); }
  static int unchanged(sd_strand *s, uint64_t word) {
    sd_fence(acquire, O3);
    return sd_load(&s->owner, relaxed, O4) == word;
  }
};

/* One publisher, which handles inline what it can; one worker; one that looks. */
template <typename rules> struct looking : rl::test_suite<looking<rules>, 3> {
  world w;
  sd_a64 shown[2];
  void before() {
    w.begin();
    for (auto &word : shown) sd_init(&word, 0u);
  }
  void write() {
    for (auto &word : shown) word.store(word.load(rl::mo_relaxed, $) + 1, rl::mo_relaxed, $);
  }
  bool handle_inline(uint32_t n) {
    sd_strand *s = &w.strand[0];
    if (!sd_strand_own_idle(s, 2)) return false;
    for (uint32_t i = 0; i < n; i++) write();
    sd_strand_disown(s);
    return true;
  }
  void visit() {
    uint32_t which;
    if (!w.take_off_list(0, &which)) return sd_pause();
    sd_strand *s = &w.strand[which];
    RL_ASSERT(sd_strand_take(s, 0));
    const int64_t n = sd_strand_pending(s);
    for (int64_t left = n; left > 0;) {
      sd_byte *record;
      const uint32_t run = sd_strand_front(s, &w.pool, &w.cache[0], (uint32_t)left, &record);
      for (uint32_t i = 0; i < run; i++) write();
      sd_strand_advance(s, &w.pool, &w.cache[0], run);
      left -= run;
    }
    w.o.handled += n;
    s->last = 0;
    if (sd_strand_release(s, n)) w.put_on_list(which);
    else w.let_go(which);
  }
  void thread(unsigned index) {
    if (index == 0) {
      for (uint32_t i = 0; i < 4; i++)
        if (i == 0 || !handle_inline(1)) w.publish(0, 2, 0, i + 1, 1);
      w.o.published++;
    } else if (index == 1) {
      while (w.o.published < 1 || w.o.handled < w.o.accepted) visit();
    } else {
      for (int i = 0; i < 4; i++) {
        const uint64_t word = rules::begin(&w.strand[0]);
        const uint64_t first = shown[0].load(rl::mo_relaxed, $), second = shown[1].load(rl::mo_relaxed, $);
        if (rules::unchanged(&w.strand[0], word)) RL_ASSERT(first == second);
      }
    }
  }
};

/* A ring of samples of two words, which have the sample's number, as `written` does after it. */
enum { SLOTS = 2, WORDS = 2, SAMPLES = 3 };

struct sampled {
  sd_samples ring;
  sd_a64 slots[SLOTS * WORDS];
};

/* Wrong: a reader does not look whether its slot was used again. */
struct looks_once {
  static bool get(sampled *s, uint64_t back, uint64_t *to, uint64_t *number) {
    const uint64_t written = sd_load(&s->ring.written, acquire, G2);
    if (back >= written) return false;
    *number = written - 1 - back;
    for (int i = 0; i < WORDS; i++) to[i] = sd_load(&s->slots[*number % SLOTS * WORDS + i], acquire, G1);
    return true;
  }
};

struct looks_twice {
  static bool get(sampled *s, uint64_t back, uint64_t *to, uint64_t *number) {
    return sd_samples_get(&s->ring, SLOTS, WORDS, back, to, number);
  }
};

template <typename rules> struct sampling : rl::test_suite<sampling<rules>, 2> {
  sampled s;
  void before() {
    sd_init(&s.ring.written, 0u);
    s.ring.slots = SLOTS, s.ring.words = WORDS;
    for (auto &word : s.slots) sd_init(&word, 0u);
  }
  void thread(unsigned index) {
    for (uint64_t i = 0; i < SAMPLES; i++) {
      uint64_t words[WORDS] = {i + 1, i + 1}, number;
      if (index == 0) sd_samples_put(&s.ring, words);
      else if (rules::get(&s, 0, words, &number)) RL_ASSERT(words[0] == number + 1 && words[1] == number + 1);
    }
  }
};

static const model_program programs[] = {
    {"samples", "", model_simulate<sampling<looks_twice>>},
    {"samples_looked_once", "wrong", model_simulate<sampling<looks_once>>},
    {"look", "", model_simulate<looking<honest>>},
    {"look_without_count", "wrong", model_simulate<looking<no_count>>},
    {"look_while_owned", "wrong", model_simulate<looking<owned_is_fine>>},
};

int main(int argc, char **argv) { return model_main(argc, argv, programs, sizeof programs / sizeof *programs); }
