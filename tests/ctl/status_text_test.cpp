#include "scripts/ctl/doctor/status_text.h"

#include <catch2/catch.hpp>

using namespace freshet;
using namespace freshet::ctl;

TEST_CASE("durations, sizes and counts are formatted with units", "[status]") {
  CHECK(span_text(seconds{0}) == "0 s");
  CHECK(span_text(seconds{59}) == "59 s");
  CHECK(span_text(seconds{185}) == "3 min 5 s");
  CHECK(span_text(seconds{3600 * 4 + 60 * 12 + 59}) == "4 h 12 min");
  CHECK(span_text(seconds{86400 * 3 + 3600 * 4 + 3599}) == "3 d 4 h");
  CHECK(size_text(0) == "0 B");
  CHECK(size_text(1023) == "1023 B");
  CHECK(size_text(1024) == "1.0 KiB");
  CHECK(size_text(12897485) == "12.3 MiB");
  CHECK(size_text((1 << 20) - 1) == "1.0 MiB");
  CHECK(size_text(std::uint64_t{5} << 40) == "5.0 TiB");
  CHECK(count_text(0, "warning") == "0 warnings");
  CHECK(count_text(1, "warning") == "1 warning");
  CHECK(count_text(2, "error") == "2 errors");
}

TEST_CASE("times and sizes of the status page get units after the value, other rows are unchanged",
          "[status]") {
  const UnixSeconds now{seconds{1'700'000'000}};
  CHECK(status_text("pool:                 freshet\n"
                    "start time:           22/Nov/2026:15:00:00 +0000\n"
                    "start since:          273600\n"
                    "accepted conn:        1234567\n"
                    "memory peak:          12897485\n"
                    "redis p99 us:         850\n"
                    "accept lag p99 us:    1234\n"
                    "background age ms:    75000\n"
                    "recorder lag age ms:  0\n"
                    "seen bytes:           -\n"
                    "spooled bytes:        0\n"
                    "model trained at:     1699913600\n"
                    "recorder last commit: 0\n"
                    "\n"
                    "request uri:          /api/hot?at=12 ms: 3",
                    now) ==
        "pool:                 freshet\n"
        "start time:           22/Nov/2026:15:00:00 +0000\n"
        "start since:          3 d 4 h\n"
        "accepted conn:        1234567\n"
        "memory peak:          12.3 MiB\n"
        "redis p99:            850 us\n"
        "accept lag p99:       1.2 ms\n"
        "background age:       1 min 15 s\n"
        "recorder lag age:     0 s\n"
        "seen bytes:           -\n"
        "spooled bytes:        0 B\n"
        "model trained at:     2023-11-13T22:13:20Z (1 d 0 h ago)\n"
        "recorder last commit: -\n"
        "\n"
        "request uri:          /api/hot?at=12 ms: 3\n");
}
