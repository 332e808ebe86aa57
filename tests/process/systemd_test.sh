#!/bin/sh
# Checks that the shipped units are well-formed and that their sandbox is strict: exposure at most 0.5, and 1.0 with
# Redis over TCP.
# Exit status 77 means "skipped" (ctest): systemd-analyze is missing.
set -eu
units=$(cd "$(dirname "$0")/../../systemd" && pwd)
if ! command -v systemd-analyze >/dev/null; then
  echo "SKIPPED: systemd-analyze is not installed (package systemd)"
  exit 77
fi
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
fail() { echo "FAILED: $*" >&2; exit 1; }

# systemd-analyze verify needs the programs to exist; they may not be installed here.
for unit in freshet.service freshet.socket freshet-train.service freshet-train.timer freshet-tune.service freshet-tune.timer freshet-fill.service freshet-fill.timer freshet-check.service freshet-check.timer \
  freshet-fetch-model.service freshet-fetch-model.timer freshet-import@.service freshet-import@.timer freshet-search@.service; do
  sed 's,/usr/sbin/freshetd,/bin/true,;s,/usr/bin/freshetctl,/bin/true,;s,/usr/bin/xapian-tcpsrv,/bin/true,' "$units/$unit" >"$work/$unit"
done
verify() {
  systemd-analyze verify --man=no "$work"/freshet*.service "$work/freshet.socket" "$work"/freshet-*.timer 2>&1 |
    grep -F "$work" || true
}
output=$(verify)
[ -z "$output" ] || fail "systemd-analyze verify: $output"

# The threshold is in tenths.
secure() { systemd-analyze security --offline=true --no-pager --threshold="$1" "$work/${2:-freshet.service}" >"$work/report" 2>&1; }
# Permitted: no separate root directory for the programs, Redis' group and unix sockets, and a readable clock with
# DevicePolicy=closed.
needed='RootDirectory=/RootImage=|SupplementaryGroups=|RestrictAddressFamilies=~AF_UNIX|DeviceAllow='
open() { sed -n 's/^✗ \([^ ]*\) .*/\1/p' "$work/report" | grep -vxE "$needed" || true; }
for unit in freshet.service freshet-train.service freshet-tune.service freshet-fill.service freshet-check.service; do
  secure 5 "$unit" || fail "exposure of $unit over 0.5: $(grep -v '✓' "$work/report")"
  [ -z "$(open)" ] || fail "$unit does not restrict $(open)"
  tail -n 1 "$work/report"
done

for unit in freshet-fetch-model.service freshet-search@.service; do
  secure 10 "$unit" || fail "exposure of $unit over 1.0: $(grep -v '✓' "$work/report")"
  tail -n 1 "$work/report"
done
# Reaches the Internet.
secure 15 freshet-import@.service || fail "exposure of freshet-import@.service over 1.5: $(grep -v '✓' "$work/report")"
tail -n 1 "$work/report"

for unit in freshet freshet-fill freshet-check; do
  mkdir "$work/$unit.service.d"
  cp "$units/redis-tcp.conf" "$work/$unit.service.d/"
  output=$(verify)
  [ -z "$output" ] || fail "systemd-analyze verify of $unit.service with redis-tcp.conf: $output"
  secure 10 "$unit.service" || fail "exposure of $unit.service over 1.0 with Redis over TCP: $(grep -v '✓' "$work/report")"
  tail -n 1 "$work/report"
done
[ "$(grep -c '^IPAddressAllow=' "$units/redis-tcp.conf")" = 1 ] || fail "redis-tcp.conf allows more than one address"
rm -r "$work"/freshet*.service.d

# Verify that the checks can fail.
sed -i 's/^PrivateNetwork=yes/PrivateNetwork=no/' "$work/freshet.service"
if secure 5; then fail "the exposure check does not notice a missing PrivateNetwork="; fi
[ "$(open)" = PrivateNetwork= ] || fail "the check does not name what is unrestricted: $(open)"
echo 'NoSuchDirective=1' >>"$work/freshet.socket"
[ -n "$(verify)" ] || fail "verify does not notice an unknown directive"

# Timeouts and other values that must agree.
value() { sed -n "s/^#*$2 = \"\{0,1\}\([0-9]*\).*/\1/p;s/^$2=//p" "$units/$1"; }
[ "$(value freshet.service TimeoutStopSec)" -gt "$(($(value freshet.toml process_control_timeout) + 2))" ] ||
  fail "TimeoutStopSec must be longer than process_control_timeout and what follows it"
[ "$(value freshet.socket Backlog)" = "$(value freshet.toml listen.backlog)" ] || fail "the two backlogs differ"
for directive in listen.address pm.status_listen; do
  grep -q "^ListenStream=$(sed -n "s/^#$directive = \"\(.*\)\"/\1/p" "$units/freshet.toml")$" "$units/freshet.socket" ||
    fail "no ListenStream= for $directive"
done
echo "all units are valid"
