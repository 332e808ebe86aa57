// Progress of a long job: one line, updated in place on a terminal; otherwise a line every ten
// seconds.
#pragma once

#include <chrono>
#include <cstdint>
#include <cstdio>
#include <optional>
#include <string>

namespace freshet::ctl {

using Nanoseconds = std::chrono::nanoseconds;

struct Progress {
  std::int64_t done = 0;
  std::int64_t total = 0;  // 0: unknown
  Nanoseconds elapsed{0};
  std::optional<Nanoseconds> remaining;  // unset: estimated from the rate so far
  std::int64_t done_before = 0;          // part of `done` from an earlier run, excluded from the rate
};

// 72,312
std::string format_number(std::int64_t number);
inline double to_seconds(Nanoseconds span) { return std::chrono::duration<double>(span).count(); }
// 850 ms, 4.2 s, 42 s, 3:05 min, 2:07:09 h.
std::string format_duration(Nanoseconds span);
// "[########............]  43 %  31,000 of 72,312  9,812/s  ETA 4.2 s"; without a total "31,000
// 9,812/s".
std::string progress_bar(const Progress& progress);

class ProgressLine {
 public:
  using Clock = std::chrono::steady_clock;
  // `quiet`: writes nothing.
  ProgressLine(std::FILE* out, bool quiet);
  ~ProgressLine() { clear(); }
  ProgressLine(const ProgressLine&) = delete;
  ProgressLine& operator=(const ProgressLine&) = delete;

  // Writes progress_bar(progress) and `suffix` if the interval has passed: 200 ms on a terminal,
  // else 10 s.
  void update(const Progress& progress, const std::string& suffix = {});
  // Removes the line from a terminal, before other output.
  void clear();
  Nanoseconds interval() const { return interval_; }

 private:
  std::FILE* out_;
  bool quiet_;
  bool terminal_;
  bool visible_ = false;
  Nanoseconds interval_;
  Clock::time_point next_update_;
};

}  // namespace freshet::ctl
