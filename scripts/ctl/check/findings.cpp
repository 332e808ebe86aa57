#include "scripts/ctl/check/findings.h"

#include <fmt/format.h>

#include "scripts/ctl/commands/progress.h"

namespace freshet::ctl {
namespace {

constexpr std::size_t kExamples = 5;

std::string_view word(Level level) {
  switch (level) {
    case Level::kViolation:
      return "violation";
    case Level::kOdd:
      return "odd";
    case Level::kStale:
      return "stale";
  }
  return {};
}

std::string printable(std::string_view text) {
  std::string out;
  for (const char c : text) {
    const auto byte = static_cast<unsigned char>(c);
    byte < 0x20 || byte == 0x7F ? out += fmt::format("\\x{:02x}", byte) : out += c;
  }
  return out;
}

}  // namespace

void Findings::add(const Kind& kind, std::string_view key, std::string_view why) {
  Found& found = found_.try_emplace(kind.name, Found{kind, 0, {}}).first->second;
  ++found.times;
  if (found.examples.size() < kExamples) {
    found.examples.push_back(printable(key) + (why.empty() ? "" : ": " + printable(why)));
  }
}

std::int64_t Findings::count(const Kind& kind) const {
  const auto found = found_.find(kind.name);
  return found == found_.end() ? 0 : found->second.times;
}

std::int64_t Findings::swept_count(const Kind& kind) const {
  const auto swept = swept_.find(kind.name);
  return swept == swept_.end() ? 0 : swept->second;
}

std::int64_t Findings::remaining(Level level) const {
  std::int64_t times = 0;
  for (const auto& [name, found] : found_) {
    if (found.kind.level == level) times += found.times - swept_count(found.kind);
  }
  return times;
}

std::string Findings::text() const {
  std::string out;
  for (const auto& [name, found] : found_) {
    const std::int64_t swept = swept_count(found.kind);
    out += fmt::format("{:<9} {} × {}: {}{}\n", word(found.kind.level), grouped(found.times), name,
                       found.kind.meaning, swept > 0 ? fmt::format(" ({} swept)", grouped(swept)) : "");
    for (const std::string& example : found.examples) out += "            " + example + "\n";
    if (found.times > static_cast<std::int64_t>(found.examples.size())) out += "            …\n";
  }
  return out;
}

void Findings::write(json::Writer& writer) const {
  writer.begin_array();
  for (const auto& [name, found] : found_) {
    writer.begin_object().key("kind").string(name).key("level").string(word(found.kind.level));
    writer.key("meaning").string(found.kind.meaning).key("times").integer(found.times);
    writer.key("swept").integer(swept_count(found.kind)).key("examples").begin_array();
    for (const std::string& example : found.examples) writer.string(example);
    writer.end_array().end_object();
  }
  writer.end_array();
}

}  // namespace freshet::ctl
