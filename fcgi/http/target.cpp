#include "fcgi/http/target.h"

#include <algorithm>
#include <charconv>

namespace freshet::http {
namespace {

tl::unexpected<Error> bad_target(std::string detail) {
  return fail(ErrorCode::kInvalid, "bad_target", {}, std::move(detail));
}

int hex_digit(char c) {
  if (c >= '0' && c <= '9') return c - '0';
  if (c >= 'a' && c <= 'f') return c - 'a' + 10;
  if (c >= 'A' && c <= 'F') return c - 'A' + 10;
  return -1;
}

std::optional<std::string> decode(std::string_view text, bool plus_is_space) {
  std::string out;
  out.reserve(text.size());
  for (std::size_t at = 0; at < text.size(); ++at) {
    if (text[at] == '+' && plus_is_space) {
      out.push_back(' ');
    } else if (text[at] != '%') {
      out.push_back(text[at]);
    } else {
      if (text.size() - at < 3) return std::nullopt;
      const int high = hex_digit(text[at + 1]);
      const int low = hex_digit(text[at + 2]);
      if (high < 0 || low < 0) return std::nullopt;
      out.push_back(static_cast<char>(high * 16 + low));
      at += 2;
    }
  }
  return out;
}

}  // namespace

std::optional<std::string> percent_decode(std::string_view text) {
  auto decoded = decode(text, false);
  if (decoded && decoded->find('\0') != decoded->npos) return std::nullopt;
  return decoded;
}

Result<Target> Target::parse(std::string_view uri) {
  if (!uri.starts_with('/')) return bad_target("the request target does not begin with '/'");
  Target target;
  const std::size_t question = uri.find('?');
  target.path_ = uri.substr(0, question);
  if (question == std::string_view::npos) return target;

  std::string_view query = uri.substr(question + 1);
  while (!query.empty()) {
    const std::size_t end = query.find('&');
    const std::string_view piece = query.substr(0, end);
    query.remove_prefix(end == std::string_view::npos ? query.size() : end + 1);
    if (piece.empty()) continue;
    if (target.parameters_.size() == kMaxParameters) return bad_target("too many parameters");
    const std::size_t equals = piece.find('=');
    auto name = decode(piece.substr(0, equals), true);
    auto value = decode(equals == std::string_view::npos ? "" : piece.substr(equals + 1), true);
    if (!name || !value) return bad_target("a '%' is not followed by two hexadecimal digits");
    if (name->find('\0') != name->npos || value->find('\0') != value->npos)
      return fail(ErrorCode::kInvalid, "bad_target", name->substr(0, name->find('\0')),
                  "a parameter contains a NUL");
    target.parameters_.emplace_back(std::move(*name), std::move(*value));
  }
  return target;
}

std::optional<std::string_view> Target::parameter(std::string_view name) const {
  const auto found = std::find_if(parameters_.rbegin(), parameters_.rend(),
                                  [name](const auto& parameter) { return parameter.first == name; });
  if (found == parameters_.rend()) return std::nullopt;
  return found->second;
}

Result<std::int64_t> integer_parameter(const Target& target, std::string_view name, std::int64_t fallback,
                                       std::int64_t low, std::int64_t high) {
  const auto text = target.parameter(name);
  if (!text) return fallback;
  std::int64_t value = 0;
  const char* const end = text->data() + text->size();
  const auto read = std::from_chars(text->data(), end, value);
  if (read.ec != std::errc() || read.ptr != end || value < low || value > high) {
    return fail(ErrorCode::kInvalid, "bad_number", std::string(name),
                "not an integer in " + std::to_string(low) + ".." + std::to_string(high));
  }
  return value;
}

}  // namespace freshet::http
