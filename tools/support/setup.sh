#!/usr/bin/env bash
# Makes a machine ready for levee: Debian packages, a Python environment in build/venv with PyTorch, and with --install the Python
# package itself. Can be run again: what is there stays, and nothing is downloaded twice.
#
#   tools/support/setup.sh [--demo] [--install] [--werror] [--torch VERSION]
#
#   --demo           leave out what only the tests need
#   --install        build and install the package `levee` into build/venv
#   --werror         with warnings as errors, as the preset ci builds it; stays so, since other flags would compile everything anew
#   --torch VERSION  another PyTorch than the default
set -euo pipefail
# shellcheck source=lib.sh
source "$(dirname "${BASH_SOURCE[0]}")/lib.sh"

on_terminal=0
[[ -t 1 ]] && on_terminal=1
for_tests=1
install=0
werror=0
settings=()
torch=${LEVEE_DEFAULT_TORCH}
while (($#)); do
  case $1 in
    --demo) for_tests=0 ;;
    --install) install=1 ;;
    --werror) werror=1 ;;
    --torch)
      shift
      torch=${1:-}
      [[ $torch =~ ^[0-9]+\.[0-9]+\.[0-9]+$ ]] || die "--torch takes a version such as $LEVEE_DEFAULT_TORCH, not \"$torch\"."
      ;;
    -h | --help)
      sed -n '2,/^set/{/^set/d;s/^# \{0,1\}//;p}' "${BASH_SOURCE[0]}"
      exit 0
      ;;
    *) die "unknown option $1; --help lists the options." ;;
  esac
  shift
done

build_packages=(cmake ninja-build gcc g++ ccache python3 python3-venv python3-dev libfmt-dev libzstd-dev zlib1g-dev)
test_packages=(libgtest-dev libgmock-dev libbenchmark-dev clang-14 libclang-rt-14-dev clang-format-14 shellcheck valgrind chromium)

# --- Debian packages ---------------------------------------------------------------------------------------------------------

install_debian_packages() {
  local wanted=("${build_packages[@]}") missing=() package
  ((for_tests)) && wanted+=("${test_packages[@]}")
  if ! have dpkg-query; then
    say "This is not a Debian system; cmake, ninja, g++, python3, libfmt, libzstd and zlib (for the tests also GoogleTest, Google Benchmark and chromium) have to be there."
    return
  fi
  for package in "${wanted[@]}"; do
    dpkg-query -W -f='${Status}' "$package" 2>/dev/null | grep -q 'ok installed' || missing+=("$package")
  done
  if ((${#missing[@]} == 0)); then
    say "Debian packages: all there."
    return
  fi
  say "Debian packages missing: ${missing[*]}"
  need_space / 2 "the Debian packages"
  if ((EUID == 0)); then
    apt-get update -q
    DEBIAN_FRONTEND=noninteractive apt-get install -q -y --no-install-recommends "${missing[@]}"
  elif have sudo && sudo -n true 2>/dev/null; then
    sudo apt-get update -q
    sudo DEBIAN_FRONTEND=noninteractive apt-get install -q -y --no-install-recommends "${missing[@]}"
  else
    die "some Debian packages are missing and this user cannot install them; run: sudo apt-get install -y --no-install-recommends ${missing[*]}"
  fi
}

# --- disk ----------------------------------------------------------------------------------------------------------------------

# need_space FOLDER GIB WHAT: dies unless FOLDER's file system has that much room.
need_space() {
  local folder=$1 needed=$2 what=$3 free
  free=$(df -Pk "$folder" | awk 'NR == 2 {print int($4 / 1048576)}')
  ((free >= needed)) || die "too little disk: $what need $needed GiB in $(df -P "$folder" | awk 'NR == 2 {print $6}') and $free GiB are free; nothing was downloaded."
}

# --- Python environment --------------------------------------------------------------------------------------------------------

# The requirements of pyproject.toml: build, package, extras. PyTorch is listed with its exact version, so that nothing replaces it.
write_requirements() {
  "$LEVEE_VENV/bin/python" - "$LEVEE_ROOT/pyproject.toml" "$torch" "$for_tests" <<'PYTHON'
import re
import sys
import tomllib

path, torch, for_tests = sys.argv[1:]
with open(path, "rb") as file:
    project = tomllib.load(file)
extras = project["project"]["optional-dependencies"]
only_tests = {"black", "flake8", "playwright", "pytest", "pytest-xdist"}
wanted = set(project["build-system"]["requires"]) | set(project["project"]["dependencies"])
for names in extras.values():
    for requirement in names:
        name = re.match(r"[\w-]+", requirement).group()
        if name != "levee" and (for_tests == "1" or name not in only_tests):
            wanted.add(requirement)
print(f"torch=={torch}")
print("\n".join(sorted(wanted)))
PYTHON
}

make_environment() {
  local python requirements stamp
  python=$(command -v python3) || die "python3 was not found after the packages were installed."
  "$python" -c 'import sys; sys.exit(sys.version_info < (3, 11))' || die "Python 3.11 or newer is needed; $python is $("$python" -V 2>&1)."
  mkdir -p "$LEVEE_BUILD"
  if [[ ! -x $LEVEE_VENV/bin/python ]]; then
    "$python" -m venv "$LEVEE_VENV" || die "making the Python environment $LEVEE_VENV failed (Debian: apt install python3-venv)."
  fi
  requirements=$LEVEE_BUILD/requirements.txt
  stamp=$LEVEE_VENV/levee-requirements.txt
  write_requirements >"$requirements"
  if cmp -s "$requirements" "$stamp"; then
    say "Python packages: all there (PyTorch $torch)."
    return
  fi
  if ! "$LEVEE_VENV/bin/python" -c "import importlib.metadata as m, sys; sys.exit(m.version('torch') != '$torch')" 2>/dev/null; then
    # Measured with PyTorch 2.14.1: 6 GiB installed, and pip holds up to 3 GiB of wheels while it unpacks them.
    need_space "$LEVEE_BUILD" 10 "PyTorch and the other Python packages"
    need_space "${TMPDIR:-/tmp}" 4 "the downloads of PyTorch"
    say "Python packages: downloading about 3 GiB, the most of it PyTorch $torch with its CUDA libraries."
  fi
  install_requirements "$requirements" ||
    die "installing the Python packages failed; the reason is above. Running this again continues where it stopped."
  cp "$requirements" "$stamp"
}

# On a terminal pip draws its own progress.
install_requirements() {
  local pip=("$LEVEE_VENV/bin/pip" install --disable-pip-version-check -r "$1")
  if ((on_terminal)); then
    "${pip[@]}"
  else
    "${pip[@]}" --progress-bar off | show_lines pip_line
  fi
}

# --- progress --------------------------------------------------------------------------------------------------------------------

# show_lines FUNCTION: calls it for each line of the input, and says each half minute in which nothing was shown that all goes on.
# Functions set `shown` when they print.
show_lines() {
  local line='' part='' status shown quiet_since=$SECONDS
  while :; do
    if IFS= read -r -t 10 part; then status=0; else status=$?; fi
    line+=$part
    ((status == 1)) && [[ -z $line ]] && break
    if ((status <= 1)); then
      shown=0
      "$1" "$line"
      line=''
      ((shown)) && quiet_since=$SECONDS
    fi
    if ((SECONDS - quiet_since >= 30)); then
      ((on_terminal)) || say "  at work, $((SECONDS / 60)) min $((SECONDS % 60)) s"
      quiet_since=$SECONDS
    fi
    ((status == 1)) && break
  done
  return 0
}

pip_line() {
  [[ $1 == "Requirement already satisfied"* ]] && return
  say "$1"
  shown=1
}

# How far ninja is, from its lines "[12/345] Building ...": on a terminal one line that counts, elsewhere a line each tenth.
tenth=0
ninja_line() {
  local now
  [[ $1 =~ ^\ *\[([0-9]+)/([0-9]+)\]\  ]] || return 0
  if ((on_terminal)); then
    printf '\r  compiling [%d/%d]' "${BASH_REMATCH[1]}" "${BASH_REMATCH[2]}"
    ((BASH_REMATCH[1] == BASH_REMATCH[2])) && printf '\n'
    shown=1
    return
  fi
  now=$((10 * BASH_REMATCH[1] / BASH_REMATCH[2]))
  if ((now > tenth)); then
    say "  compiling [${BASH_REMATCH[1]}/${BASH_REMATCH[2]}]"
    tenth=$now
    shown=1
  fi
}

# --- the package -----------------------------------------------------------------------------------------------------------------

install_package() {
  say "Building and installing the package levee (the first time about ten minutes on two cores)."
  # The requirements are there already, hence --no-deps; PyTorch must be seen by the build, hence --no-build-isolation.
  # The names by which CMake finds the compilers: to a compiler cache g++ is another one, and all would be compiled twice.
  if have cc && have c++; then export CC=${CC:-cc} CXX=${CXX:-c++}; fi
  if ((werror)) || grep -qs '^LEVEE_WERROR:[A-Z]*=ON$' "$LEVEE_BUILD"/pip-*/CMakeCache.txt; then
    settings+=(--config-settings cmake.define.LEVEE_WERROR=ON)
  fi
  local log=$LEVEE_BUILD/package.log
  if ! CMAKE_BUILD_PARALLEL_LEVEL=$(levee_jobs) "$LEVEE_VENV/bin/pip" install --disable-pip-version-check -v \
    --no-build-isolation --no-deps "${settings[@]}" "$LEVEE_ROOT" 2>&1 | tee "$log" | show_lines ninja_line; then
    # Of what went wrong, not of all that follows from it.
    grep -m 5 -A 8 -E '(error|Error|FAILED|ERROR):?' "$log" >&2 || tail -n 20 "$log" >&2
    die "building the package failed; the reason is above, all of it in $log."
  fi
}

install_debian_packages
make_environment
if ((install)); then install_package; fi
