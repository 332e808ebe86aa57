#include "scripts/ctl/check/findings.h"

#include <fmt/format.h>

#include "scripts/ctl/commands/print.h"
#include "scripts/ctl/commands/progress.h"

namespace freshet::ctl {
namespace {

constexpr std::size_t kExamples = 5;

std::string_view word(Level level) {
  switch (level) {
    case Level::kViolation:
      return "violation";
    case Level::kSuspicious:
      return "suspicious";
    case Level::kStale:
      return "stale";
  }
  return {};
}

}  // namespace

void Findings::add(const FindingKind& kind, std::string_view key, std::string_view detail) {
  Entry& found = entries_.try_emplace(kind.name, Entry{kind, 0, {}}).first->second;
  ++found.count;
  if (found.examples.size() < kExamples) {
    found.examples.push_back(printable(key) + (detail.empty() ? "" : ": " + printable(detail)));
  }
}

std::int64_t Findings::count(const FindingKind& kind) const {
  const auto found = entries_.find(kind.name);
  return found == entries_.end() ? 0 : found->second.count;
}

std::int64_t Findings::swept_count(const FindingKind& kind) const {
  const auto swept = swept_.find(kind.name);
  return swept == swept_.end() ? 0 : swept->second;
}

std::int64_t Findings::remaining(Level level) const {
  std::int64_t times = 0;
  for (const auto& [name, found] : entries_) {
    if (found.kind.level == level) times += found.count - swept_count(found.kind);
  }
  return times;
}

std::string Findings::text() const {
  std::string out;
  for (const auto& [name, found] : entries_) {
    const std::int64_t swept = swept_count(found.kind);
    out += fmt::format("{:<10} {} × {}: {}{}\n", word(found.kind.level), format_number(found.count), name,
                       found.kind.meaning, swept > 0 ? fmt::format(" ({} swept)", format_number(swept)) : "");
    for (const std::string& example : found.examples) out += "            " + example + "\n";
    if (found.count > static_cast<std::int64_t>(found.examples.size())) out += "            …\n";
  }
  return out;
}

void Findings::write_json(json::Writer& writer) const {
  writer.begin_array();
  for (const auto& [name, found] : entries_) {
    writer.begin_object().key("kind").string(name).key("level").string(word(found.kind.level));
    writer.key("meaning").string(found.kind.meaning).key("times").integer(found.count);
    writer.key("swept").integer(swept_count(found.kind)).key("examples").begin_array();
    for (const std::string& example : found.examples) writer.string(example);
    writer.end_array().end_object();
  }
  writer.end_array();
}

}  // namespace freshet::ctl
