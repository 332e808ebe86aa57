// Bodies with one JSON object a line (NDJSON), and the reply that says which lines were refused.
// Pure.
#pragma once

#include <cstddef>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "core/base/result.h"

namespace freshet::handlers {

struct NdjsonLine {
  std::size_t number;  // from 1; empty lines count
  std::string text;
};

// Walks down a body, which must outlive it. Lines of white space are passed over.
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
};

// {accepted, rejected:[{line, code, member?}], queued?}
std::string ndjson_reply(std::size_t accepted, const std::vector<RejectedLine>& rejected, bool queued = false);

}  // namespace freshet::handlers
