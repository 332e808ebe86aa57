#!/bin/sh
# Runs a program under strace and lists the system calls that it or its children make and the service unit would refuse.
#   syscalls.sh PROGRAM [ARGUMENT…]
# Exit status 77 means "skipped" (ctest): strace or systemd-analyze is missing, or tracing is not permitted.
set -eu
export LC_ALL=C  # comm and sort need the same order
unit=$(cd "$(dirname "$0")/../../systemd" && pwd)/freshet.service
for tool in strace systemd-analyze; do
  command -v $tool >/dev/null || { echo "SKIPPED: $tool is not installed"; exit 77; }
done
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
strace -f -o /dev/null true 2>/dev/null || { echo "SKIPPED: tracing is not permitted here"; exit 77; }

# Expands a set of calls recursively.
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
sed '1,2d;/^-/d;/total$/d;s/ //g' "$work/calls" | grep . | sort -u >"$work/used"
refused=$(comm -23 "$work/used" "$work/allowed")
echo "$(wc -l <"$work/used") different calls, out of $(wc -l <"$work/allowed") allowed"
# shellcheck disable=SC2086 # the names, on one line
[ -z "$refused" ] || { echo "FAILED: the unit refuses:" $refused >&2; exit 1; }
