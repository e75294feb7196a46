#!/usr/bin/env bash
# What only a real GPU can tell, in under five minutes once levee is built: the contract tests on the hardware, what each driver call
# costs there (bench/micro, device calls), and native, expandable segments and levee side by side on variable-length work.
#
#   tools/dev gpu [--build-only]
#
# Results go to build/gpu-results. Without a GPU: one sentence, and exit code 77.
set -euo pipefail
# shellcheck source=lib.sh
source "$(dirname "${BASH_SOURCE[0]}")/lib.sh"

build_only=0
case ${1:-} in
  "") ;;
  --build-only) build_only=1 ;;
  *) die "unknown option $1; the only one is --build-only." ;;
esac

has_gpu() {
  "$LEVEE_PYTHON" - <<'PYTHON'
import ctypes
import sys

try:
    driver = ctypes.CDLL("libcuda.so.1")
except OSError:
    sys.exit(1)
count = ctypes.c_int(0)
sys.exit(not (driver.cuInit(0) == 0 and driver.cuDeviceGetCount(ctypes.byref(count)) == 0 and count.value > 0))
PYTHON
}

find_python
if ((!build_only)) && ! has_gpu; then
  say "There is no NVIDIA GPU (or no driver) on this machine, so nothing was measured; everything else is covered by tools/test, which runs on the simulated GPU."
  exit 77
fi

"$LEVEE_ROOT/tools/support/setup.sh" --install
find_python
configure ci
build ci
((build_only)) && exit 0

results=$LEVEE_BUILD/gpu-results
mkdir -p "$results"
deadline=$((SECONDS + 290))
failed=()

# limited NAME SECONDS COMMAND...: within its own limit and what is left of the five minutes.
limited() {
  local name=$1 limit=$2 left=$((deadline - SECONDS))
  shift 2
  ((left < limit)) && limit=$left
  if ((limit < 5)); then
    failed+=("$name (no time left)")
    return
  fi
  say "== $name"
  timeout "$limit" "$@" 2>&1 | tee "$results/${name// /-}.log" || failed+=("$name")
}

nvidia-smi --query-gpu=name,driver_version,memory.total,memory.used --format=csv,noheader 2>/dev/null | tee "$results/gpu.txt" || true
limited "contract tests" 80 ctest --test-dir "$LEVEE_BUILD/ci" --output-on-failure --no-tests=error -L '^gpu$'
device_bench=$(find "$LEVEE_BUILD/ci/bench/micro" -name 'device_calls_bench' -type f -executable | head -1)
if [[ -n $device_bench ]]; then
  limited "cost of driver calls" 60 "$device_bench" --benchmark_out="$results/device-calls.json" --benchmark_out_format=json
else
  failed+=("cost of driver calls (this build has no device_calls_bench)")
fi
limited "side by side" 140 "$LEVEE_VENV/bin/levee" bench --gpu real --workloads decoder --steps 40 --batch 8 --out "$results/bench"

say "Results: $results"
if ((${#failed[@]})); then die "failed: ${failed[*]}"; fi
