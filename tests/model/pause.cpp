/* Holding strands back and resuming them, for two reasons at once, beside publishers and workers. */
#include "model.hpp"

template <int workers, int reasons, bool inlined>
struct pausing : rl::test_suite<pausing<workers, reasons, inlined>, 1 + workers + reasons> {
  world w;
  void before() { w.begin(); }

  bool duty(uint32_t me) {
    uint32_t s;
    if (!w.take_off_list(me, &s)) return false;
    if (sd_strand_set_aside(&w.strand[s])) {
      w.let_go(s);
      w.o.aside[s] = 1;
      return true;
    }
    w.drain(s, me, me, false, 1);
    return true;
  }
  void hold(uint32_t s, uint32_t why) {
    for (unsigned i = rl::rand(6); i; i--) sd_pause();
    sd_strand_hold(&w.strand[s], why);
    /* Long enough, mostly, for the token to be set aside: the oracle looks, the model sees nothing of it. */
    for (int i = 0; i < 12 && !w.o.aside[s]; i++) sd_pause();
    if (sd_strand_resume(&w.strand[s], why)) {
      RL_ASSERT(w.o.aside[s] == 1);
      w.o.aside[s] = 0;
      w.got(s);
      w.put_on_list(s);
    }
  }
  void thread(unsigned index) {
    if (index == 0) {
      for (uint32_t i = 1; i <= 2; i++)
        if (!inlined || !w.handle_inline(0, 3, 0, i, 1)) w.publish(0, 3, 0, i, 1);
      w.o.published++;
    } else if (index <= workers) {
      while (w.o.published < 1 + reasons || w.o.handled < w.o.accepted)
        if (!duty(index - 1)) sd_pause();
    } else {
      hold(0, index - workers == 1 ? SD_PAUSED : SD_QUARANTINED);
      if (reasons == 1) hold(0, SD_PAUSED);
      w.o.published++;
    }
  }
  void after() { w.end(); }
};

static const model_program programs[] = {
    {"pause_two_workers", "", model_simulate<pausing<2, 1, false>>},
    {"pause_two_reasons", "", model_simulate<pausing<1, 2, false>>},
    {"pause_two_and_two", "", model_simulate<pausing<2, 2, false>>},
    {"pause_inline", "", model_simulate<pausing<1, 1, true>>},
};

int main(int argc, char **argv) { return model_main(argc, argv, programs, sizeof programs / sizeof *programs); }
