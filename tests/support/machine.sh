# shellcheck shell=bash
# A minimal Debian in memory, with a copy of this checkout at the same path and this host's compiler cache. To be sourced
# after scripts/lib.sh by scripts that then call in_namespaces and make_machine.
# Needs root: mounts and processes are in their own namespaces and end with the script, however it ends.
# shellcheck disable=SC2154  # lib.sh sets `root` and `release`

readonly machine=$release/${0##*/}
readonly cache=${XDG_CACHE_HOME:-$HOME/.cache}/freshet
host_suite=$(sed -n 's/^VERSION_CODENAME=//p' /etc/os-release)
readonly host_suite
suite=$host_suite  # the machine's
cold=0             # 1: without the compiler cache and the package cache
as=()              # options of chroot
# A new user's environment.
readonly new_user=(env -i HOME=/root PATH=/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin LANG=C.UTF-8)
umask 022

# in_namespaces ARGUMENT…: starts the script again with these arguments in its own namespaces. Without root it exits with
# 77 (ctest: skipped).
in_namespaces() {
  if [[ $EUID -ne 0 ]]; then
    [[ ${CI:-} != true ]] || die "needs root, and CI must not skip it"
    echo "SKIPPED: needs root to create a machine"
    exit 77
  fi
  [[ $$ -ne 1 ]] || return 0
  mkdir -p "$machine"
  exec unshare --mount --pid --fork --kill-child --mount-proc "$0" "$@" </dev/null
}

# in_machine COMMAND…: runs it in the machine's checkout with a new user's environment.
in_machine() {
  # shellcheck disable=SC2016  # the inner shell expands these
  "${new_user[@]}" chroot "${as[@]}" "$machine" bash -c 'cd "$1" && shift && exec "$@"' bash "$root" "$@"
}

mount_cache() { # mount_cache FOLDER_OF_HOST FOLDER
  [[ $cold -eq 0 ]] || return 0
  mkdir -p "$1" "$machine$2"
  mount --bind "$1" "$machine$2"
}

make_machine() {
  mount -t tmpfs -o mode=0755 machine "$machine"
  "$root/tests/support/debian_root" "$suite" "$machine"
  mount -t proc proc "$machine/proc"
  mkdir -p "$machine$root"
  tar -C "$root" --exclude=./build --exclude=./.git --exclude=./.state --exclude=node_modules -cf - . | tar -C "$machine$root" -xf -
  mount_cache "$(ccache -k cache_dir)" /root/.cache/ccache
  mount_cache "$cache/packages-$suite" /var/cache/apt/archives
  # npm's registry and certificates, like apt's.
  printf 'registry=%s\ncafile=/root/host.crt\n' "$(npm config get registry 2>/dev/null)" >"$machine/root/.npmrc"
  cp /etc/ssl/certs/ca-certificates.crt "$machine/root/host.crt"
}
