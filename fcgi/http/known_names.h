// Names of query parameters and body members that a route does not know: an error, or a list of
// what was ignored.
#pragma once

#include <map>
#include <string>
#include <string_view>
#include <vector>

#include "core/base/json.h"
#include "core/base/result.h"
#include "fcgi/http/target.h"

namespace freshet::http {

// True if `name` is in `known`, a list of names separated by spaces.
bool is_known_name(std::string_view known, std::string_view name);

// Returns whether a Prefer header (RFC 7240) contains handling=lenient.
bool prefers_lenient_handling(std::string_view prefer);

class NameCheck {
 public:
  // `is_lenient`: unknown names are ignored and listed instead of refused.
  explicit NameCheck(bool is_lenient) : is_lenient_(is_lenient) {}

  // `known`: names separated by spaces. Errors: kInvalid "unknown_parameter" and "unknown_member".
  // The detail suggests the nearest known name or, if none is near, lists all of them.
  Result<void> check_parameters(const Target& target, std::string_view known);
  Result<void> check_members(json::Value object, std::string_view known);

  // The value of Freshet-Ignored: the ignored names, separated by ", ", each once, at most ten,
  // percent-encoded where they are not tokens (RFC 9110). Empty if nothing was ignored.
  const std::string& ignored() const { return ignored_; }

 private:
  Result<void> check(std::string_view name, std::string_view known, std::string_view reason);
  bool is_lenient_;
  std::string ignored_;
  std::vector<std::string> ignored_names_;
};

// Unknown members that were ignored in the lines of a bulk body: name → number of lines. At most
// kMaxIgnored names are kept, each cut to kMaxIgnoredBytes.
using IgnoredMembers = std::map<std::string, std::size_t, std::less<>>;
void count_ignored_members(json::Value object, std::string_view known, IgnoredMembers& counts);

inline constexpr std::size_t kMaxIgnored = 10;
inline constexpr std::size_t kMaxIgnoredBytes = 64;

}  // namespace freshet::http
