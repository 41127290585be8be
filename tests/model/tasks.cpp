/* Tasks keep their place among records, and those given up do nothing. */
#include "tasks.hpp"

static const model_program programs[] = {
    {"tasks", "", model_simulate<tasks<right_tasks, false>>},
    {"tasks_inline", "", model_simulate<tasks<right_tasks, true>>},
};

int main(int argc, char **argv) { return model_main(argc, argv, programs, sizeof programs / sizeof *programs); }
