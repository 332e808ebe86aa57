// Output of commands with --json: one object on one line of stdout.
#pragma once

#include <functional>
#include <string>

#include "core/base/json.h"
#include "scripts/ctl/commands/print.h"

namespace freshet::ctl {

// `members` writes the object's members.
inline void report_json(const std::function<void(json::Writer&)>& members) {
  std::string out;
  json::Writer writer(out);
  writer.begin_object();
  members(writer);
  writer.end_object();
  print_json_line(out);
}

}  // namespace freshet::ctl
