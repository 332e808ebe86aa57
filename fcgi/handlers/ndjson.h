// NDJSON bodies (one JSON object per line), and the reply that lists rejected lines. Pure.
#pragma once

#include <cstddef>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "core/base/result.h"
#include "fcgi/http/known_names.h"

namespace freshet::handlers {

struct NdjsonLine {
  std::size_t number;  // from 1; counts empty lines
  std::string text;
};

// Iterates over the lines of `body`, which must outlive this. Skips blank lines.
class NdjsonReader {
 public:
  explicit NdjsonReader(std::string_view body) : rest_(body) {}
  std::optional<NdjsonLine> next();

 private:
  std::string_view rest_;
  std::size_t number_ = 0;
};

struct RejectedLine {
  std::size_t line;
  Error error;
  std::string id = {};  // of the line's item; empty if it has none, or an invalid one
};

// {accepted, rejected:[{line, id?, code, member?, detail}], ignored?: {member: lines}, queued?}
std::string ndjson_reply(std::size_t accepted, const std::vector<RejectedLine>& rejected,
                         const http::IgnoredMembers& ignored, bool queued = false);

}  // namespace freshet::handlers
