# shellcheck shell=bash
# What scripts/run, test, check and freshetctl share. Sourced, never run; sets `root` to the checkout.

root=$(cd "$(dirname "${BASH_SOURCE[0]}")/.." && pwd)
readonly root
# FRESHET_BUILD_DIR: use the programs of that build tree as they are, and build nothing (the tests of a tree do this).
readonly release=${FRESHET_BUILD_DIR:-$root/build/release}

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

# configure [OPTION…]: the release tree.
configure() {
  local version
  version=$(cmake --version 2>/dev/null | sed -n '1s/^cmake version //p') || true
  [[ $(printf '%s\n' 3.25 "${version:-0}" | sort -V | head -n 1) == 3.25 ]] ||
    die "CMake 3.25 or later is needed, as in Debian 12; here it is ${version:-not there}"
  (cd "$root" && cmake --preset release "$@") || die "cmake --preset release failed"
}

# build_release TARGET…: configures once, then builds what changed; seconds when nothing did.
build_release() {
  [[ -z ${FRESHET_BUILD_DIR:-} ]] || return 0
  [[ -f $release/build.ninja ]] || configure -DBUILD_TESTING=OFF
  (cd "$root" && cmake --build --preset release -j "$(nproc)" --target "$@") || die "the build failed"
}

# --- Processes, by pid ---------------------------------------------------------------------------------------------
# A pid can be handed out again, so what we started is remembered together with its start time.

# start_time PID: when the process began, in clock ticks since boot; fails when there is none or it is a zombie.
start_time() {
  local stat
  { read -r stat <"/proc/$1/stat"; } 2>/dev/null || return 1
  local -a field
  read -ra field <<<"${stat##*) }"
  [[ ${field[0]} != [ZX] ]] || return 1
  echo "${field[19]}"
}

# is_same PID START_TIME: true while the process that we started lives.
is_same() { [[ $(start_time "$1") == "$2" ]]; }

# pause SECONDS: as sleep, in this shell: a poll that starts a program each time costs more than what it waits for.
exec {nothing}<> <(:)
pause() { read -rt "$1" -u "$nothing" || true; }

# wait_for SECONDS COMMAND…: polls until the command succeeds; fails when time is up.
wait_for() {
  local deadline=$((SECONDS + $1))
  shift
  until "$@" >/dev/null 2>&1; do
    [[ $SECONDS -lt $deadline ]] || return 1
    pause 0.05
  done
}

gone() { ! is_same "$1" "$2"; }

# end_process PID START_TIME SIGNAL: asks the process to end, and kills it when it has not after 40 seconds: freshetd gives
# its workers 30, and Redis may still be writing.
end_process() {
  is_same "$1" "$2" || return 0
  kill "-$3" "$1" 2>/dev/null || true
  wait_for 40 gone "$1" "$2" && return 0  # a bare return in a trap gives the status from before it
  is_same "$1" "$2" && kill -KILL "$1" 2>/dev/null
  wait_for 5 gone "$1" "$2" || true
}

# --- nginx -----------------------------------------------------------------------------------------------------------

# render_nginx DIR ADDRESS PORT INTERNAL_PORT USER LIMITS: writes the shipped configuration to DIR/etc/nginx with paths under
# DIR and ports of the address. USER: empty when nginx is not started by root. LIMITS: 0 leaves out limit_req and limit_conn.
# FRESHET_NGINX_EDIT: one more expression for sed, of tests that want shorter times.
render_nginx() {
  local state=$1
  local -a edits=(
    -e "s#/etc/nginx/freshet/#$state/etc/nginx/#g"
    -e "s#/usr/share/freshet/html#$state/html#g"
    -e "s#/run/freshet/#$state/run/#g"
    -e "s#/run/nginx.pid#$state/run/nginx.pid#"
    -e "s#/var/log/nginx/#$state/log/#g"
    -e "s#/var/cache/freshet-model\b#$state/model#g"
    -e "s#/var/lib/nginx/freshet_hot#$state/cache/hot#g"
    -e "s#/var/lib/nginx/#$state/tmp/#g"
    -e "s#^\( *listen \)80\b#\1$2:$3#"
    -e "/^ *listen \[::\]:80\b/d"
    -e "s#^\( *listen \)127.0.0.1:8081\b#\1$2:$4#"
  )
  if [[ -n $5 ]]; then edits+=(-e "s#^user .*#user $5;#"); else edits+=(-e '/^user /d'); fi
  [[ $6 -eq 1 ]] || edits+=(-e '/^ *limit_\(req\|conn\) /d')
  [[ -z ${FRESHET_NGINX_EDIT:-} ]] || edits+=(-e "$FRESHET_NGINX_EDIT")
  cp "$root"/nginx/*.conf "$state/etc/nginx/"
  sed -i "${edits[@]}" "$state"/etc/nginx/*.conf
}
