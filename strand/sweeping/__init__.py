"""Many runs: one handler with many sets of parameters over many files, kept as one data set."""
