// Commands on their way to Redis, already in RESP. Arguments are written with their lengths, never formatted
// into text, so no argument can become syntax. The same bytes go to the wire, into the background queue and
// into the spool.
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
  // Starts a command of exactly `arguments` arguments, the command's name included; follow with as many arg()
  // calls.
  Pipeline& command(std::size_t arguments) {
    starts_.push_back(bytes_.size());
    header('*', arguments);
    return *this;
  }
  Pipeline& arg(std::string_view value) {
    header('$', value.size());
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
  // EVALSHA sha numkeys; follow with `keys` keys and then `args` arguments, by arg().
  Pipeline& script(const Script& script, std::size_t keys, std::size_t args) {
    return command(3 + keys + args).arg("EVALSHA").arg(script.sha1).arg(keys);
  }
  // A command that is in RESP already: what at() of another pipeline or the spool gives.
  Pipeline& raw(std::string_view resp) {
    starts_.push_back(bytes_.size());
    bytes_.append(resp);
    return *this;
  }
  std::size_t size() const { return starts_.size(); }
  bool empty() const { return starts_.empty(); }
  std::string_view bytes() const { return bytes_; }
  std::string_view at(std::size_t index) const {
    const std::size_t begin = starts_[index];
    const std::size_t end = index + 1 < starts_.size() ? starts_[index + 1] : bytes_.size();
    return std::string_view(bytes_).substr(begin, end - begin);
  }
  void clear() {
    bytes_.clear();
    starts_.clear();
  }

 private:
  void header(char type, std::size_t value) {
    std::array<char, 24> text;
    text[0] = type;
    auto end = std::to_chars(text.data() + 1, text.data() + text.size() - 2, value).ptr;
    *end++ = '\r';
    *end++ = '\n';
    bytes_.append(text.data(), static_cast<std::size_t>(end - text.data()));
  }
  std::string bytes_;
  std::vector<std::size_t> starts_;
};

}  // namespace freshet::redis
