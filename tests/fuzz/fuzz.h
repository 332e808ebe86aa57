// Shared by the fuzz targets: an assertion that ends the run, and values consumed from the input.
#pragma once

#include <algorithm>
#include <cstdint>
#include <cstdlib>
#include <cstring>
#include <string_view>

namespace freshet::fuzz {

inline void require(bool condition) {
  if (!condition) std::abort();
}

// Consumes the input from the front. Past the end it yields zeros and empty strings.
class Input {
 public:
  Input(const std::uint8_t* bytes, std::size_t size) : rest_(reinterpret_cast<const char*>(bytes), size) {}
  bool empty() const { return rest_.empty(); }
  template <class Number>
  Number number() {
    Number out{};
    const std::string_view from = text(sizeof out);
    std::memcpy(&out, from.data(), from.size());
    return out;
  }
  std::string_view text(std::size_t most) {
    const std::string_view out = rest_.substr(0, most);
    rest_.remove_prefix(out.size());
    return out;
  }
  std::string_view rest() { return text(rest_.size()); }

 private:
  std::string_view rest_;
};

}  // namespace freshet::fuzz
