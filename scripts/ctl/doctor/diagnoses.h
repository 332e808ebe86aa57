// What `freshetctl doctor` says of a deployment: a line a finding, with its cure.
#pragma once

#include <algorithm>
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

namespace freshet::ctl {

enum class Severity : std::uint8_t {
  kOk,
  kWarning,    // works today; what it costs stands in the finding
  kError,      // does not work, or a promise of the service does not hold
  kSkipped,  // could not be seen from here: no verdict
};

struct Diagnosis {
  Severity severity = Severity::kOk;
  std::string_view check;  // a stable word for programs: "redis.persistence"
  std::string message;
  std::string fix;  // what to do; empty only for kOk and kNotLooked
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
  std::int64_t count(Severity severity) const { return std::ranges::count(all_, severity, &Diagnosis::severity); }
  std::string text() const;  // "error    redis.eviction: what; cure: …", a line each
  std::string json() const;  // {errors, warnings, findings:[{grade, check, what, cure?}]}

 private:
  void add(Severity severity, std::string_view check, std::string message, std::string fix) {
    all_.push_back({severity, check, std::move(message), std::move(fix)});
  }
  std::vector<Diagnosis> all_;
};

}  // namespace freshet::ctl
