// Findings of `freshetctl doctor`: one line each, with the fix.
#pragma once

#include <algorithm>
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

namespace freshet::ctl {

enum class Severity : std::uint8_t {
  kOk,
  kWarning,  // works today; the message names the risk
  kError,    // does not work, or breaks a guarantee of the service
  kSkipped,  // could not be checked from here: no verdict
};

struct Diagnosis {
  Severity severity = Severity::kOk;
  std::string_view check;  // stable identifier for programs: "redis.persistence"
  std::string message;
  std::string fix;  // the remedy; empty only for kOk and kSkipped
};

class Diagnoses {
 public:
  void ok(std::string_view check, std::string message) { add(Severity::kOk, check, std::move(message), {}); }
  void warn(std::string_view check, std::string message, std::string fix) {
    add(Severity::kWarning, check, std::move(message), std::move(fix));
  }
  void error(std::string_view check, std::string message, std::string fix) {
    add(Severity::kError, check, std::move(message), std::move(fix));
  }
  void skipped(std::string_view check, std::string reason) {
    add(Severity::kSkipped, check, std::move(reason), {});
  }

  const std::vector<Diagnosis>& all() const { return all_; }
  std::int64_t count(Severity severity) const {
    return std::ranges::count(all_, severity, &Diagnosis::severity);
  }
  std::string text() const;  // one line each: "error    redis.eviction: message; fix: …"
  std::string json() const;  // {errors, warnings, findings:[{grade, check, what, cure?}]}

 private:
  void add(Severity severity, std::string_view check, std::string message, std::string fix) {
    all_.push_back({severity, check, std::move(message), std::move(fix)});
  }
  std::vector<Diagnosis> all_;
};

}  // namespace freshet::ctl
