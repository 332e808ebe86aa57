#include "scripts/ctl/doctor/diagnoses.h"

#include <fmt/format.h>

#include <array>

#include "core/base/json.h"

namespace freshet::ctl {
namespace {

// Indexed by Severity.
constexpr std::array<std::string_view, 4> kSeverityNames{"ok", "warning", "error", "skipped"};

std::string_view word(Severity grade) { return kSeverityNames.at(static_cast<std::size_t>(grade)); }

}  // namespace

std::string Diagnoses::text() const {
  std::string out;
  for (const Diagnosis& finding : all_) {
    out += fmt::format("{:<8} {}: {}{}{}\n", word(finding.severity), finding.check, finding.message,
                       finding.fix.empty() ? "" : "; fix: ", finding.fix);
  }
  return out;
}

std::string Diagnoses::json() const {
  std::string out;
  json::Writer writer(out);
  writer.begin_object().key("errors").integer(count(Severity::kError));
  writer.key("warnings").integer(count(Severity::kWarning)).key("findings").begin_array();
  for (const Diagnosis& finding : all_) {
    writer.begin_object().key("grade").string(word(finding.severity)).key("check").string(finding.check);
    writer.key("what").string(finding.message);
    if (!finding.fix.empty()) writer.key("cure").string(finding.fix);
    writer.end_object();
  }
  writer.end_array().end_object();
  return out;
}

}  // namespace freshet::ctl
