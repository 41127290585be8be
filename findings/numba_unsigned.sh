#!/bin/sh
# numba: an unsigned number plus a signed one is signed, where numpy makes a float of it
#
# Ids of orders are unsigned numbers of 64 bits, and ids from a hash use the top bit.
# In compiled code such an id plus or minus 1 is int64: above 2^63 it becomes negative.
# The same expression in numpy is a float64, which loses the last digits. Only two unsigned numbers stay unsigned in both.
# Seen with numba 0.68.1, numpy 2.4.6.
set -eu
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
cd "$folder"
python3 -m venv venv
venv/bin/pip install --quiet numba==0.68.1 numpy==2.4.6
venv/bin/python - <<'END'
import numba, numpy as np

@numba.njit
def add(a, b):
    return a + b

order, one = np.uint64(2**63 + 1025), np.int64(1)
compiled, plain = add(order, one), order + one
unsigned = add(order, np.uint64(1))
print("numba", numba.__version__, "numpy", np.__version__)
print("numba:", compiled, "numpy:", repr(plain), "both unsigned:", unsigned, "the sum is", 2**63 + 1026)
assert compiled == 2**63 + 1026 - 2**64
assert isinstance(plain, np.float64) and int(plain) != 2**63 + 1026
assert unsigned == 2**63 + 1026
END
