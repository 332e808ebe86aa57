// What the fuzz targets share: a claim that ends the run when it is wrong, and bytes taken from the
// input.
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

// Takes the input from its beginning; what is not there any more is 0 or empty.
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
