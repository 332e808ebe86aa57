// What a long job says of itself: one line that is written over on a terminal, a line every ten
// seconds elsewhere.
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
  std::int64_t total = 0;  // 0: not known
  Nanoseconds elapsed{0};
  std::optional<Nanoseconds> remaining;  // absent: as the rate so far says
  std::int64_t done_before = 0;          // of `done`, what an earlier run did: no part of the rate
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
  // `out` is a terminal or not; `quiet`: nothing is written.
  ProgressLine(std::FILE* out, bool quiet);
  ~ProgressLine() { clear(); }
  ProgressLine(const ProgressLine&) = delete;
  ProgressLine& operator=(const ProgressLine&) = delete;

  // Writes bar(progress) and `more` when it is time for it: 5 times a second, or every 10 s.
  // `total` and `elapsed` as there.
  void update(const Progress& progress, const std::string& suffix = {});
  // Takes the line away from a terminal, before something else is written.
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
