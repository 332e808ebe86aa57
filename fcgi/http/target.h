// The request target: path and query of a raw REQUEST_URI. The path stays raw, because only the
// router knows where its segments end; parameters are decoded.
//
// Boost.URL is not used: it rejects the raw UTF-8, '|', '{' and '[' that nginx lets through, and
// allocates for a path that needs no decoding.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "core/base/ids.h"
#include "core/base/result.h"

namespace freshet::http {

inline constexpr std::size_t kMaxParameters = 128;  // more than the ids of GET /api/stats

// Percent-decodes once: "%2520" becomes "%20". nullopt on '%' without two hexadecimal
// digits, and on NUL.
std::optional<std::string> percent_decode(std::string_view text);

class Target {
 public:
  // Errors: kInvalid, "bad_target" (no leading '/', a bad escape or a NUL in the query, more than
  // kMaxParameters). `uri` must outlive this. O(bytes); allocates only when there is a query.
  static Result<Target> parse(std::string_view uri);

  // Raw, with its leading '/' and without the query.
  std::string_view path() const { return path_; }

  // A query parameter, decoded once ('+' is a space). If it is repeated, the last one wins. "a"
  // without '=' is empty.
  std::optional<std::string_view> parameter(std::string_view name) const;

  // Names and values, decoded, in the order of the query.
  const std::vector<std::pair<std::string, std::string>>& parameters() const { return parameters_; }

 private:
  std::string_view path_;
  std::vector<std::pair<std::string, std::string>> parameters_;
};

// --- Typed parameters. Errors name the parameter, as those of json.h name the member.

// An integer in low..high, digits with an optional '-'; `fallback` if absent. Error: "bad_number".
Result<std::int64_t> integer_parameter(const Target& target, std::string_view name, std::int64_t fallback,
                                       std::int64_t low, std::int64_t high);

// An id; empty if absent or unset (is_unset_id). Error: "bad_id".
template <class IdType>
Result<IdType> id_parameter(const Target& target, std::string_view name) {
  const auto text = target.parameter(name);
  if (!text || is_unset_id<IdType>(*text)) return IdType();
  return IdType::parse(*text, name);
}

}  // namespace freshet::http
