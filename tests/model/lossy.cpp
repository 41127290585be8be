#include "lossy.hpp"

static const model_program programs[] = {
    {"lossy_drop_oldest", "", model_simulate<lossy<right_lossy>>},
};

int main(int argc, char **argv) { return model_main(argc, argv, programs, sizeof programs / sizeof *programs); }
