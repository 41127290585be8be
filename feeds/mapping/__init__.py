"""How columns become ticks: exact numbers in units of a power of ten, whatever file the columns come from."""
