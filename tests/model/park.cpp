/* Parking: no wake-up is lost, whichever sleeper the futex picks, and nobody sleeps through a stop, or beside a free permit. */
#include "park.hpp"
#include "permits.hpp"

static const model_program programs[] = {
    {"park_one_worker", "", model_simulate<park<right_parking, 2, 1, 2>>},
    {"park_two_workers", "", model_simulate<park<right_parking, 2, 2, 2>>},
    {"park_held_one_worker", "", model_simulate<park<right_parking, 2, 1, 2, true>>},
    {"park_held_two_workers", "", model_simulate<park<right_parking, 2, 2, 2, true>>},
    {"park_three_workers", "", model_simulate<park<right_parking, 1, 3, 3>>},
    {"permits_three_workers", "", model_simulate<permits<right_deferring, 3>>},
    {"permits_four_workers", "", model_simulate<permits<right_deferring, 4>>},
};

int main(int argc, char **argv) { return model_main(argc, argv, programs, sizeof programs / sizeof *programs); }
