// Commands for Redis, encoded as RESP. Arguments are written with their lengths, never formatted
// into text, so no argument can be taken for protocol.
#pragma once

#include <array>
#include <charconv>
#include <concepts>
#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace freshet::redis {

// A Lua script of core/MODULE/NAME.lua, embedded at build time.
struct Script {
  std::string_view name;
  std::string_view source;
  std::string_view sha1;  // SHA-1 of the source, 40 hexadecimal digits
};

// One or more commands that are sent together and answered together, in order.
class Pipeline {
 public:
  // Starts a command of exactly `arguments` arguments including its name; follow with as many arg()
  // calls.
  Pipeline& command(std::size_t arguments) {
    if (bytes_.capacity() < kTypicalBytes) bytes_.reserve(kTypicalBytes);
    in_script_ = false;
    starts_.push_back(bytes_.size());
    append_header('*', arguments);
    return *this;
  }
  Pipeline& arg(std::string_view value) {
    if (in_script_ && increment(argument_count_at_)) ++key_count_at_;
    append_header('$', value.size());
    bytes_.append(value).append("\r\n");
    return *this;
  }
  Pipeline& arg(std::integral auto value) {
    std::array<char, 24> text;
    const auto end = std::to_chars(text.data(), text.data() + text.size(), value).ptr;
    return arg(std::string_view(text.data(), static_cast<std::size_t>(end - text.data())));
  }
  // Writes the shortest text that reads back as the same double.
  Pipeline& arg(std::floating_point auto value) {
    std::array<char, 32> text;
    const auto end = std::to_chars(text.data(), text.data() + text.size(), value).ptr;
    return arg(std::string_view(text.data(), static_cast<std::size_t>(end - text.data())));
  }
  // Adds a complete command: add("ZADD", key, score, member).
  template <class... Args>
  Pipeline& add(const Args&... args) {
    command(sizeof...(args));
    (arg(args), ...);
    return *this;
  }
  // Adds EVALSHA; follow with key() for each key, then arg() for each argument. Both are counted
  // here.
  Pipeline& script(const Script& script) {
    command(3).arg("EVALSHA").arg(script.sha1).arg(0);
    in_script_ = true;
    argument_count_at_ = starts_.back() + 1;
    key_count_at_ = bytes_.size() - 3;
    return *this;
  }
  Pipeline& key(std::string_view name) {
    // "$1\r\n9\r\n": the length of the number precedes it.
    if (increment(key_count_at_)) ++bytes_[key_count_at_ - 3];
    return arg(name);
  }
  // Adds a command that is already encoded, such as at() of another pipeline.
  Pipeline& raw(std::string_view resp) {
    in_script_ = false;
    starts_.push_back(bytes_.size());
    bytes_.append(resp);
    return *this;
  }
  // Appends the commands and barriers of another pipeline.
  Pipeline& append(const Pipeline& other) {
    for (const std::size_t each : other.barriers_) barriers_.push_back(starts_.size() + each);
    for (std::size_t i = 0; i < other.size(); ++i) raw(other.at(i));
    return *this;
  }
  // Commands after the barrier are not sent until all commands before it have their replies. Costs
  // a round trip in a cluster, whose nodes keep no order between each other; free on a single
  // Redis, which runs a pipeline in order.
  Pipeline& barrier() {
    barriers_.push_back(starts_.size());
    return *this;
  }
  // The number of commands before each barrier.
  std::span<const std::size_t> barriers() const { return barriers_; }
  std::size_t size() const { return starts_.size(); }
  bool empty() const { return starts_.empty(); }
  std::string_view bytes() const { return bytes_; }
  std::string_view at(std::size_t index) const {
    const std::size_t begin = starts_[index];
    const std::size_t end = index + 1 < starts_.size() ? starts_[index + 1] : bytes_.size();
    return std::string_view(bytes_).substr(begin, end - begin);
  }
  void clear() {
    in_script_ = false;
    bytes_.clear();
    starts_.clear();
    barriers_.clear();
  }

 private:
  static constexpr std::size_t kTypicalBytes = 512;  // of a script call with its keys and arguments

  void append_header(char type, std::size_t value) {
    std::array<char, 24> text;
    text[0] = type;
    auto end = std::to_chars(text.data() + 1, text.data() + text.size() - 2, value).ptr;
    *end++ = '\r';
    *end++ = '\n';
    bytes_.append(text.data(), static_cast<std::size_t>(end - text.data()));
  }
  // Increments the decimal number at `at`. Returns true if it grew by a digit.
  bool increment(std::size_t at) {
    std::size_t digit = bytes_.find('\r', at);
    while (digit > at && bytes_[digit - 1] == '9') bytes_[--digit] = '0';
    if (digit == at) {
      bytes_.insert(at, 1, '1');
      return true;
    }
    ++bytes_[digit - 1];
    return false;
  }

  std::string bytes_;
  std::vector<std::size_t> starts_, barriers_;
  bool in_script_ = false;                                // arg() adds to the current script call
  std::size_t argument_count_at_ = 0, key_count_at_ = 0;  // offsets in bytes_ of the script call's two counts
};

}  // namespace freshet::redis
