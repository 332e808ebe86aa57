#include "scripts/ctl/commands/progress.h"

#include <fmt/format.h>
#include <unistd.h>

#include <algorithm>
#include <cmath>

namespace freshet::ctl {
namespace {

constexpr std::int64_t kBarCells = 20;
constexpr Nanoseconds kTerminalInterval = std::chrono::milliseconds(200);
constexpr Nanoseconds kLogInterval = std::chrono::seconds(10);

}  // namespace

std::string format_number(std::int64_t number) {
  std::string digits = std::to_string(std::abs(number));
  for (std::size_t at = digits.size(); at > 3;) digits.insert(at -= 3, 1, ',');
  if (number < 0) digits.insert(digits.begin(), '-');
  return digits;
}

std::string format_duration(Nanoseconds span) {
  const auto ms = std::chrono::duration_cast<std::chrono::milliseconds>(span).count();
  if (ms < 1000) return fmt::format("{} ms", ms);
  if (ms < 9950) return fmt::format("{:.1f} s", static_cast<double>(ms) / 1000);
  const auto s = ms / 1000;
  if (s < 60) return fmt::format("{} s", s);
  if (s < 3600) return fmt::format("{}:{:02} min", s / 60, s % 60);
  return fmt::format("{}:{:02}:{:02} h", s / 3600, s / 60 % 60, s % 60);
}

std::string progress_bar(const Progress& progress) {
  const double elapsed = to_seconds(progress.elapsed);
  const double rate = elapsed > 0 ? static_cast<double>(progress.done - progress.done_before) / elapsed : 0;
  const std::string per_second = format_number(std::llround(rate)) + "/s";
  if (progress.total <= 0) return fmt::format("{}  {}", format_number(progress.done), per_second);

  const std::int64_t done = std::clamp<std::int64_t>(progress.done, 0, progress.total);
  const double share = static_cast<double>(done) / static_cast<double>(progress.total);
  // Rounded down: 100 % means finished.
  const auto filled = static_cast<std::size_t>(share * static_cast<double>(kBarCells));
  std::string eta = "?";
  if (progress.remaining) {
    eta = format_duration(*progress.remaining);
  } else if (done == progress.total) {
    eta = format_duration(Nanoseconds(0));
  } else if (rate > 0) {
    eta = format_duration(std::chrono::duration_cast<Nanoseconds>(
        std::chrono::duration<double>(static_cast<double>(progress.total - done) / rate)));
  }
  return fmt::format("[{:.<20}] {:3} %  {} of {}  {}  ETA {}", std::string(filled, '#'),
                     static_cast<int>(share * 100), format_number(progress.done),
                     format_number(progress.total), per_second, eta);
}

ProgressLine::ProgressLine(std::FILE* out, bool quiet)
    : out_(out),
      quiet_(quiet),
      terminal_(isatty(fileno(out)) == 1),
      interval_(terminal_ ? kTerminalInterval : kLogInterval),
      next_update_(Clock::now() + interval_) {}

void ProgressLine::update(const Progress& progress, const std::string& suffix) {
  const auto now = Clock::now();
  if (quiet_ || now < next_update_) return;
  next_update_ = now + interval_;
  // A log file gets complete lines, a terminal one line that is overwritten.
  fmt::print(out_, "{}{}{}{}{}", terminal_ ? "\r\033[K" : "", progress_bar(progress),
             suffix.empty() ? "" : "  ", suffix, terminal_ ? "" : "\n");
  std::fflush(out_);
  visible_ = terminal_;
}

void ProgressLine::clear() {
  if (!visible_) return;
  fmt::print(out_, "\r\033[K");
  std::fflush(out_);
  visible_ = false;
}

}  // namespace freshet::ctl
