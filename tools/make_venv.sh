#!/usr/bin/env bash
# Makes the virtual environment DIR from the first Python 3.11+ at hand, or from $PYTHON, after checking that what the
# build needs is there: a missing tool is named here, in words, and not by a compiler's or pip's last lines.
set -euo pipefail

dir=${1:?usage: make_venv.sh DIR}

refuse() {
  printf 'strand: %s\n' "$@" >&2
  exit 1
}

# A name found on PATH may be a shim that does not run: only an answer counts.
new_enough() {
  "$1" -c 'import sys; sys.exit(sys.version_info < (3, 11))' >/dev/null 2>&1
}

version_of() {
  "$1" -c 'import platform; print(platform.python_version())' 2>/dev/null || echo 'does not run'
}

python=${PYTHON:-}
if [[ -n $python ]]; then
  new_enough "$python" || refuse "PYTHON=$python cannot be used ($(version_of "$python")): Python 3.11 or newer is needed."
else
  for candidate in python3 python3.13 python3.12 python3.11 python3.14 python; do
    if command -v "$candidate" >/dev/null && new_enough "$candidate"; then
      python=$candidate
      break
    fi
  done
  [[ -n $python ]] || refuse \
    "no Python 3.11 or newer was found (python3: $(version_of python3))." \
    "Install one, or name it:  make install PYTHON=/path/to/python3.11"
fi

"$python" -c 'import ensurepip, venv' 2>/dev/null || refuse \
  "$python has no venv module. On Debian and Ubuntu:  apt-get install python3-venv"

headers=$("$python" -c 'import sysconfig; print(sysconfig.get_path("include"))')
[[ -f $headers/Python.h ]] || refuse \
  "$python has no C headers ($headers/Python.h). On Debian and Ubuntu:  apt-get install python3-dev"

cc=${CC:-$("$python" -c 'import sysconfig; print((sysconfig.get_config_var("CC") or "cc").split()[0])')}
command -v "${cc%% *}" >/dev/null || refuse \
  "no C compiler: $cc is not there. On Debian and Ubuntu:  apt-get install gcc libc6-dev" \
  "or name one:  make install CC=clang"
printf '#include <stdint.h>\nint main(void) { return 0; }\n' | $cc -x c -o /dev/null - 2>/dev/null || refuse \
  "the C compiler $cc cannot build a program. On Debian and Ubuntu:  apt-get install gcc libc6-dev"

"$python" -m venv "$dir"
