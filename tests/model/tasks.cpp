/* Tasks keep their place among records, and those given up do nothing. Free tasks run once, or are told once how they ended. Some give their
 * participant back and go on later. */
#include "free_tasks.hpp"
#include "suspend.hpp"

static const model_program programs[] = {
    {"tasks", "", model_simulate<tasks<right_tasks, false>>},
    {"free_tasks", "", model_simulate<free_tasks<keeps_its_place>>},
    {"free_tasks_leave", "", model_simulate<free_tasks<leaves_its_list>>},
    {"suspended", "", model_simulate<suspended<right_pauses>>},
    {"suspended_free", "", model_simulate<suspended_free<right_pauses>>},
    {"tasks_inline", "", model_simulate<tasks<right_tasks, true>>},
};

int main(int argc, char **argv) { return model_main(argc, argv, programs, sizeof programs / sizeof *programs); }
