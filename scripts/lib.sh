# shellcheck shell=bash
# What scripts/run, test, check and freshetctl share. Sourced, never run; sets `root` to the checkout.

root=$(cd "$(dirname "${BASH_SOURCE[0]}")/.." && pwd)
readonly root
readonly release=$root/build/release

say() { printf '%s\n' "$*"; }

die() {
  printf '%s: %s\n' "${0##*/}" "$*" >&2
  exit 1
}

# usage FILE STATUS: prints the comment that opens a script, down to the first line that is none.
usage() {
  sed -n '2,/^[^#]/s/^#\( \|$\)//p' "$1"
  exit "$2"
}

# build_release TARGET…: configures once, then builds what changed; seconds when nothing did.
build_release() {
  [[ -f $release/build.ninja ]] || (cd "$root" && cmake --preset release) || die "cmake --preset release failed"
  (cd "$root" && cmake --build --preset release -j "$(nproc)" --target "$@") || die "the build failed"
}

# --- Processes, by pid ---------------------------------------------------------------------------------------------
# A pid can be handed out again, so what we started is remembered together with its start time.

# start_time PID: when the process began, in clock ticks since boot; fails when there is none or it is a zombie.
start_time() {
  local stat
  stat=$(cat "/proc/$1/stat" 2>/dev/null) || return 1
  local -a field
  read -ra field <<<"${stat##*) }"
  [[ ${field[0]} != [ZX] ]] || return 1
  echo "${field[19]}"
}

# is_same PID START_TIME: true while the process that we started lives.
is_same() { [[ $(start_time "$1") == "$2" ]]; }

# wait_for SECONDS COMMAND…: polls until the command succeeds; fails when time is up.
wait_for() {
  local deadline=$((SECONDS + $1))
  shift
  until "$@" >/dev/null 2>&1; do
    [[ $SECONDS -lt $deadline ]] || return 1
    sleep 0.05
  done
}

gone() { ! is_same "$1" "$2"; }

# end_process PID START_TIME SIGNAL: asks the process to end, and kills it when it has not after ten seconds.
end_process() {
  is_same "$1" "$2" || return 0
  kill "-$3" "$1" 2>/dev/null || true
  wait_for 10 gone "$1" "$2" && return
  is_same "$1" "$2" && kill -KILL "$1" 2>/dev/null
  wait_for 5 gone "$1" "$2" || true
}
