# What the shell tools share: where things are, how progress and failures are shown. Sourced, not run.
# shellcheck shell=bash disable=SC2034

LEVEE_ROOT=$(cd "$(dirname "${BASH_SOURCE[0]}")/../.." && pwd)
# Everything that the tools make lies here; git ignores it and `rm -r build` undoes it all.
LEVEE_BUILD=$LEVEE_ROOT/build
LEVEE_VENV=$LEVEE_BUILD/venv
# The PyTorch that the set-up installs. Its wheels on PyPI are CUDA builds and bring the CUDA headers.
LEVEE_DEFAULT_TORCH=2.14.1
# pip's Python sets LC_CTYPE where no locale is set, and the compiler cache, which takes a locale for another compiler, would
# then know none of what was compiled before.
export CCACHE_SLOPPINESS=${CCACHE_SLOPPINESS:+$CCACHE_SLOPPINESS,}locale

say() { printf '%s\n' "$*"; }

# One clear sentence, and out.
die() {
  printf '%s: %s\n' "${0##*/}" "$*" >&2
  exit 1
}

have() { command -v "$1" >/dev/null 2>&1; }

# Compilers need about 2 GiB each for the files that include PyTorch's headers, so memory limits the number of jobs too.
levee_jobs() {
  local cores memory_gib by_memory
  cores=$(nproc)
  memory_gib=$(awk '/MemAvailable/ {print int($2 / 1048576)}' /proc/meminfo)
  by_memory=$((memory_gib / 2))
  ((by_memory < 1)) && by_memory=1
  echo $((cores < by_memory ? cores : by_memory))
}

# Sets LEVEE_PYTHON to the Python of the set-up if there is one, else to the one in use.
find_python() {
  if [[ -x $LEVEE_VENV/bin/python ]]; then
    LEVEE_PYTHON=$LEVEE_VENV/bin/python
  else
    LEVEE_PYTHON=$(command -v python3) || die "python3 was not found; run tools/support/setup.sh, which installs what is missing."
  fi
}

# configure PRESET [cmake arguments]: into build/PRESET, for the Python of the set-up.
configure() {
  local preset=$1
  shift
  have cmake || die "cmake was not found; run tools/support/setup.sh, which installs what is missing."
  find_python
  (cd "$LEVEE_ROOT" && cmake --preset "$preset" -DPython3_EXECUTABLE="$LEVEE_PYTHON" "$@") ||
    die "configuring the preset $preset failed; the reason is above."
}

# build PRESET [cmake --build arguments]
build() {
  local preset=$1
  shift
  cmake --build "$LEVEE_BUILD/$preset" -j "$(levee_jobs)" "$@" || die "the build of the preset $preset failed."
}
