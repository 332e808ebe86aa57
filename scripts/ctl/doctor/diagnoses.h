// What `freshetctl doctor` says of a deployment: a line a finding, with its cure.
#pragma once

#include <algorithm>
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

namespace freshet::ctl {

enum class Grade : std::uint8_t {
  kOk,
  kWarning,    // works today; what it costs stands in the finding
  kError,      // does not work, or a promise of the service does not hold
  kNotLooked,  // could not be seen from here: no verdict
};

struct Diagnosis {
  Grade grade = Grade::kOk;
  std::string_view check;  // a stable word for programs: "redis.persistence"
  std::string what;
  std::string cure;  // what to do; empty only for kOk and kNotLooked
};

class Diagnoses {
 public:
  void ok(std::string_view check, std::string what) { add(Grade::kOk, check, std::move(what), {}); }
  void warn(std::string_view check, std::string what, std::string cure) {
    add(Grade::kWarning, check, std::move(what), std::move(cure));
  }
  void error(std::string_view check, std::string what, std::string cure) {
    add(Grade::kError, check, std::move(what), std::move(cure));
  }
  void not_looked(std::string_view check, std::string why) {
    add(Grade::kNotLooked, check, std::move(why), {});
  }

  const std::vector<Diagnosis>& all() const { return all_; }
  std::int64_t count(Grade grade) const { return std::ranges::count(all_, grade, &Diagnosis::grade); }
  std::string text() const;  // "error    redis.eviction: what; cure: …", a line each
  std::string json() const;  // {errors, warnings, findings:[{grade, check, what, cure?}]}

 private:
  void add(Grade grade, std::string_view check, std::string what, std::string cure) {
    all_.push_back({grade, check, std::move(what), std::move(cure)});
  }
  std::vector<Diagnosis> all_;
};

}  // namespace freshet::ctl
