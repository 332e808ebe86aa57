#!/bin/sh
# Runs a program under strace and names each system call it and its children make that the service unit would refuse.
#   syscalls.sh PROGRAM [ARGUMENT…]
# Exit status 77 is "skipped" (ctest): strace or systemd-analyze is not there or may not trace.
set -eu
export LC_ALL=C  # comm and sort must agree
unit=$(cd "$(dirname "$0")/../../systemd" && pwd)/freshet.service
for tool in strace systemd-analyze; do
  command -v $tool >/dev/null || { echo "SKIPPED: $tool is not installed"; exit 77; }
done
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
strace -f -o /dev/null true 2>/dev/null || { echo "SKIPPED: strace may not trace here"; exit 77; }

# A set's calls, sets inside it included.
expand() {
  systemd-analyze --no-pager syscall-filter "$1" | sed -n 's/^    *\([-@a-z0-9_]*\)$/\1/p' | while read -r name; do
    case $name in @*) expand "$name" ;; *) echo "$name" ;; esac
  done
}
for set in @default $(sed -n 's/^SystemCallFilter=\([^~].*\)/\1/p' "$unit"); do expand "$set"; done | sort -u >"$work/named"
# shellcheck disable=SC2013 # the words of a directive
for set in $(sed -n 's/^SystemCallFilter=~\(.*\)/\1/p' "$unit"); do expand "$set"; done | sort -u >"$work/denied"
comm -23 "$work/named" "$work/denied" >"$work/allowed"

strace -f -qq -c -S name -U name -o "$work/calls" "$@"
sed '1,2d;/^-/d;/total$/d;s/ //g' "$work/calls" | grep . | sort -u >"$work/made"
refused=$(comm -23 "$work/made" "$work/allowed")
echo "$(wc -l <"$work/made") different calls, of $(wc -l <"$work/allowed") allowed"
# shellcheck disable=SC2086 # the names, on one line
[ -z "$refused" ] || { echo "FAILED: the unit refuses:" $refused >&2; exit 1; }
