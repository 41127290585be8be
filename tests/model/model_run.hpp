/* How the programs of a file are run: model_main.cpp. */
#pragma once

typedef rl::test_result_e (*model_run)(rl::test_params &);
struct model_program {
  const char *name;
  const char *options; /* "full" when small enough to be searched to the end; "wrong" when it has to be caught */
  model_run run;
};
template <typename T> static rl::test_result_e model_simulate(rl::test_params &p) {
  rl::simulate<T>(p);
  return p.test_result;
}
int model_main(int argc, char **argv, const model_program *programs, unsigned n);
