#!/bin/bash
# The launcher: what it hands on, what it prints, and that wrong input is one sentence and exit code 2.
# usage: run_test.sh LAUNCHER LIBRARIES PYTHON
set -u
run=$1
export SIMGPU_LIB=$2
python=$3
failures=0

expect() {  # expect NAME WANTED_CODE WANTED_TEXT COMMAND...
  local name=$1 code=$2 text=$3 output status
  shift 3
  output=$("$@" 2>&1)
  status=$?
  if [[ $status -ne $code || $output != *"$text"* ]]; then
    echo "FAILED: $name: exit code $status (wanted $code), output: $output"
    failures=$((failures + 1))
  fi
}

count='import ctypes; print("cards", ctypes.CDLL("libsimgpu.so").simgpu_device_count())'
expect "runs a program on the card" 0 "cards 3" "$run" --gpu 2GiB,count=3 -- "$python" -c "$count"
expect "says what it is" 0 "values are zeros, times are modelled" "$run" --gpu 2GiB -- "$python" -c "$count"
expect "counts at the end" 0 "GPU 0 of 2.00 GiB" "$run" --gpu 2GiB --stats -- "$python" -c "$count"
expect "hands the exit code on" 7 "" "$run" -- "$python" -c 'raise SystemExit(7)'
expect "honours CUDA_VISIBLE_DEVICES" 0 "cards 1" env CUDA_VISIBLE_DEVICES=1 "$run" --gpu 2GiB,count=3 -- "$python" -c "$count"
expect "prints the environment" 0 "SIMGPU_GPU=2GiB" "$run" --print-env --gpu 2GiB
expect "prints what to preload" 0 "LD_PRELOAD=$SIMGPU_LIB/libsimgpu.so:" "$run" --print-env
expect "refuses a wrong card" 2 'SIMGPU_GPU: "24XB" is not a card' "$run" --gpu 24XB -- "$python" -c "$count"
expect "refuses a wrong plan" 2 'SIMGPU_FAULTS: "cudaMallok" is not a call' "$run" --faults cudaMallok:first=1 -- "$python" -c "$count"
expect "refuses an unknown option" 2 "--cpu is not an option" "$run" --cpu 1 -- "$python" -c "$count"
expect "misses a value" 2 "--gpu needs a value" "$run" --gpu
expect "misses a program" 2 "no program given" "$run" --gpu 2GiB
expect "misses the program" 2 "/no/such/program was not found" "$run" -- /no/such/program
expect "misses the libraries" 2 "were not found" env SIMGPU_LIB=/no/such/folder HOME=/ bash -c "cp '$run' /tmp/simgpu_run_test.$$ && /tmp/simgpu_run_test.$$ -- true; code=\$?; rm -f /tmp/simgpu_run_test.$$; exit \$code"

# A tree that has a sanitizer build, which comes first by name, and a plain one.
tree=$(mktemp -d)
mkdir -p "$tree"/tools/simgpu "$tree"/build/{asan-ubsan,ci}/simgpu/lib
cp "$run" "$tree/tools/simgpu/run"
touch "$tree"/build/{asan-ubsan,ci}/simgpu/lib/libsimgpu.so
expect "passes sanitizer builds over" 0 "SIMGPU_LIB=$tree/build/ci/simgpu/lib" env -u SIMGPU_LIB "$tree/tools/simgpu/run" --print-env
rm -rf "$tree"

lines=$("$run" --gpu 2GiB -- "$python" -c "$count; import subprocess, sys" 2>&1 | grep -c "times are modelled")
if [[ $lines -ne 1 ]]; then
  echo "FAILED: the start-up line came $lines times"
  failures=$((failures + 1))
fi

stats=$(mktemp)
"$run" --gpu 2GiB --stats="$stats" -- "$python" -c "$count" > /dev/null 2>&1
if ! "$python" -c "import json, sys; d = json.load(open(sys.argv[1])); assert d['devices'][0]['total_bytes'] == 2 << 30" "$stats"; then
  echo "FAILED: statistics in a file: $(cat "$stats")"
  failures=$((failures + 1))
fi
rm -f "$stats"

[[ $failures -eq 0 ]] && echo "all of the launcher's checks passed"
exit "$((failures > 0))"
