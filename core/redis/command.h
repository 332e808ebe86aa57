// Commands on their way to Redis, already in RESP. Arguments are written with their lengths, never
// formatted into text, so no argument can become syntax. The same bytes go to the wire, into the
// background queue and into the spool.
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

// A Lua script embedded at build from core/ROOM/NAME.lua.
struct Script {
  std::string_view name;
  std::string_view source;
  std::string_view sha1;  // 40 hexadecimal digits of the source's SHA-1
};

// One or more commands that leave together and whose replies come back together, in order.
class Pipeline {
 public:
  // Starts a command of exactly `arguments` arguments, the command's name included; follow with as
  // many arg() calls.
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
  // The shortest form that reads back as the same double.
  Pipeline& arg(std::floating_point auto value) {
    std::array<char, 32> text;
    const auto end = std::to_chars(text.data(), text.data() + text.size(), value).ptr;
    return arg(std::string_view(text.data(), static_cast<std::size_t>(end - text.data())));
  }
  // A whole command in one call: add("ZADD", key, score, member).
  template <class... Args>
  Pipeline& add(const Args&... args) {
    command(sizeof...(args));
    (arg(args), ...);
    return *this;
  }
  // EVALSHA; follow with its keys by key(), then its arguments by arg(). Both are counted here.
  Pipeline& script(const Script& script) {
    command(3).arg("EVALSHA").arg(script.sha1).arg(0);
    in_script_ = true;
    argument_count_at_ = starts_.back() + 1;
    key_count_at_ = bytes_.size() - 3;
    return *this;
  }
  Pipeline& key(std::string_view name) {
    // "$1\r\n9\r\n": the length of the number stands before it.
    if (increment(key_count_at_)) ++bytes_[key_count_at_ - 3];
    return arg(name);
  }
  // A command that is in RESP already: what at() of another pipeline or the spool gives.
  Pipeline& raw(std::string_view resp) {
    in_script_ = false;
    starts_.push_back(bytes_.size());
    bytes_.append(resp);
    return *this;
  }
  // The commands of another pipeline, with its barriers.
  Pipeline& append(const Pipeline& other) {
    for (const std::size_t each : other.barriers_) barriers_.push_back(starts_.size() + each);
    for (std::size_t i = 0; i < other.size(); ++i) raw(other.at(i));
    return *this;
  }
  // A barrier: what follows must not run before what came so far, and is not sent before that has
  // its replies. Costs a round trip in a cluster, whose nodes keep no order among each other;
  // nothing on one Redis, which runs a pipeline in order.
  Pipeline& barrier() {
    barriers_.push_back(starts_.size());
    return *this;
  }
  // How many commands come before each barrier.
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
  static constexpr std::size_t kTypicalBytes = 512;  // of a script with its keys and arguments

  void append_header(char type, std::size_t value) {
    std::array<char, 24> text;
    text[0] = type;
    auto end = std::to_chars(text.data() + 1, text.data() + text.size() - 2, value).ptr;
    *end++ = '\r';
    *end++ = '\n';
    bytes_.append(text.data(), static_cast<std::size_t>(end - text.data()));
  }
  // Adds 1 to the decimal number at `at`. True when it became a digit longer.
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
  bool in_script_ = false;                        // a script's arguments follow
  std::size_t argument_count_at_ = 0, key_count_at_ = 0;  // of the script: where its numbers stand in bytes_
};

}  // namespace freshet::redis
