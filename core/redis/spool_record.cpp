#include "core/redis/spool_record.h"

#include <charconv>

namespace freshet::redis {
namespace {

constexpr std::string_view kEnd = "\r\n";

}  // namespace

SpoolRecord& SpoolRecord::add(std::string_view field) {
  bytes_.append(std::to_string(field.size())).append(kEnd).append(field).append(kEnd);
  return *this;
}

std::vector<std::string_view> decode_fields(std::string_view encoded) {
  std::vector<std::string_view> out;
  while (!encoded.empty()) {
    std::size_t size = 0;
    const auto [end, error] = std::from_chars(encoded.data(), encoded.data() + encoded.size(), size);
    encoded.remove_prefix(static_cast<std::size_t>(end - encoded.data()));
    if (error != std::errc() || !encoded.starts_with(kEnd)) return {};
    encoded.remove_prefix(kEnd.size());
    if (encoded.size() < kEnd.size() || size > encoded.size() - kEnd.size()) return {};
    if (!encoded.substr(size).starts_with(kEnd)) return {};
    out.push_back(encoded.substr(0, size));
    encoded.remove_prefix(size + kEnd.size());
  }
  return out;
}

}  // namespace freshet::redis
