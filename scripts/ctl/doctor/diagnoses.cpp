#include "scripts/ctl/doctor/diagnoses.h"

#include <fmt/format.h>

#include <array>

#include "core/base/json.h"

namespace freshet::ctl {
namespace {

// In the order of Grade.
constexpr std::array<std::string_view, 4> kWords{"ok", "warning", "error", "not looked at"};

std::string_view word(Grade grade) { return kWords.at(static_cast<std::size_t>(grade)); }

}  // namespace

std::string Diagnoses::text() const {
  std::string out;
  for (const Diagnosis& each : all_) {
    out += fmt::format("{:<13} {}: {}{}{}\n", word(each.grade), each.check, each.what,
                       each.cure.empty() ? "" : "; cure: ", each.cure);
  }
  return out;
}

std::string Diagnoses::json() const {
  std::string out;
  json::Writer writer(out);
  writer.begin_object().key("errors").integer(count(Grade::kError));
  writer.key("warnings").integer(count(Grade::kWarning)).key("findings").begin_array();
  for (const Diagnosis& each : all_) {
    writer.begin_object().key("grade").string(word(each.grade)).key("check").string(each.check);
    writer.key("what").string(each.what);
    if (!each.cure.empty()) writer.key("cure").string(each.cure);
    writer.end_object();
  }
  writer.end_array().end_object();
  return out;
}

}  // namespace freshet::ctl
