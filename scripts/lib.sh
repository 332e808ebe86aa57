# shellcheck shell=bash
# Functions shared by scripts/run, test, check and freshetctl. To be sourced; sets `root` to the checkout.

root=$(cd "$(dirname "${BASH_SOURCE[0]}")/.." && pwd)
readonly root
# FRESHET_BUILD_DIR: use the programs of this build tree and build nothing (set by the tests of a tree).
readonly release=${FRESHET_BUILD_DIR:-$root/build/release}

say() { printf '%s\n' "$*"; }

die() {
  printf '%s: %s\n' "${0##*/}" "$*" >&2
  exit 1
}

# usage FILE STATUS: prints the comment block at the top of a script.
usage() {
  sed -n '2,/^[^#]/s/^#\( \|$\)//p' "$1"
  exit "$2"
}

# configure [OPTION…]: configures the release tree.
configure() {
  local version
  version=$(cmake --version 2>/dev/null | sed -n '1s/^cmake version //p') || true
  [[ $(printf '%s\n' 3.25 "${version:-0}" | sort -V | head -n 1) == 3.25 ]] ||
    die "CMake 3.25 or later is required, as in Debian 12; found ${version:-none}"
  (cd "$root" && cmake --preset release "$@") || die "cmake --preset release failed"
}

# build_release TARGET…: configures once, then builds what changed.
build_release() {
  [[ -z ${FRESHET_BUILD_DIR:-} ]] || return 0
  [[ -f $release/build.ninja ]] || configure -DBUILD_TESTING=OFF
  (cd "$root" && cmake --build --preset release -j "$(nproc)" --target "$@") || die "the build failed"
}

# --- Processes, by pid ---------------------------------------------------------------------------------------------
# A pid can be reused, so a process is identified by its pid and start time.

# read_start_time PID: sets `start_time`, in clock ticks since boot; fails if there is no such process or it is a zombie.
# Sets a variable because a subshell for every poll would cost more than the wait.
read_start_time() {
  local stat
  { read -r stat <"/proc/$1/stat"; } 2>/dev/null || return 1
  local -a field
  read -ra field <<<"${stat##*) }"
  [[ ${field[0]} != [ZX] ]] || return 1
  start_time=${field[19]}
}

# is_same PID START_TIME: true while the process is alive.
is_same() { read_start_time "$1" && [[ $start_time == "$2" ]]; }

# pause SECONDS: sleep within this shell. Starting a program for every poll would cost more than the wait.
exec {idle_fd}<> <(:)
pause() { read -rt "$1" -u "$idle_fd" || true; }

# wait_for SECONDS COMMAND…: polls until the command succeeds; fails after the timeout.
wait_for() {
  local deadline=$((SECONDS + $1))
  shift
  until "$@" >/dev/null 2>&1; do
    [[ $SECONDS -lt $deadline ]] || return 1
    pause 0.05
  done
}

has_ended() { ! is_same "$1" "$2"; }

# end_process PID START_TIME SIGNAL: sends the signal, and SIGKILL after 40 seconds: freshetd gives its workers 30, and
# Redis may still be writing.
end_process() {
  is_same "$1" "$2" || return 0
  kill "-$3" "$1" 2>/dev/null || true
  wait_for 40 has_ended "$1" "$2" && return 0  # a bare return in a trap would return the status from before it
  is_same "$1" "$2" && kill -KILL "$1" 2>/dev/null
  wait_for 5 has_ended "$1" "$2" || true
}

# --- nginx -----------------------------------------------------------------------------------------------------------

# provide_pages DIR: links DIR to the pages of the build tree, which has links to them and their compressed forms. Makes
# copies if anything there is missing or older than a page.
provide_pages() {
  local page built=$release/installed/share/freshet/html
  rm -rf "$1"
  for page in "$root"/nginx/html/*; do
    if [[ ! $built/${page##*/} -ef $page || ! $built/${page##*/}.gz -nt $page ]]; then
      cp -r "$root/nginx/html" "$1"
      gzip -9nk "$1"/*
      return
    fi
  done
  ln -s "$built" "$1"
}

# render_nginx DIR ADDRESS PORT INTERNAL_PORT USER LIMITS: writes the shipped configuration to DIR/etc/nginx with paths
# under DIR and the given address and ports, and provides the pages in DIR/html. USER: empty unless root
# starts nginx. LIMITS: 0 removes limit_req and limit_conn. FRESHET_NGINX_EDIT: an additional sed expression, used by
# tests for shorter times.
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
  provide_pages "$state/html"
  cp "$root"/nginx/*.conf "$state/etc/nginx/"
  sed -i "${edits[@]}" "$state"/etc/nginx/*.conf
}
