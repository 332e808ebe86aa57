#include "core/redis/stored_event.h"

#include <charconv>

namespace freshet::redis {
namespace {

constexpr std::string_view kEnd = "\r\n";

}  // namespace

StoredEvent& StoredEvent::add(std::string_view field) {
  bytes_.append(std::to_string(field.size())).append(kEnd).append(field).append(kEnd);
  return *this;
}

std::vector<std::string_view> fields_of(std::string_view stored) {
  std::vector<std::string_view> out;
  while (!stored.empty()) {
    std::size_t size = 0;
    const auto [end, error] = std::from_chars(stored.data(), stored.data() + stored.size(), size);
    stored.remove_prefix(static_cast<std::size_t>(end - stored.data()));
    if (error != std::errc() || !stored.starts_with(kEnd)) return {};
    stored.remove_prefix(kEnd.size());
    if (stored.size() < kEnd.size() || size > stored.size() - kEnd.size()) return {};
    if (!stored.substr(size).starts_with(kEnd)) return {};
    out.push_back(stored.substr(0, size));
    stored.remove_prefix(size + kEnd.size());
  }
  return out;
}

}  // namespace freshet::redis
