// Collects what a reader of a source reports.
#pragma once

#include <fstream>
#include <sstream>
#include <string>
#include <utility>
#include <vector>

#include "scripts/ctl/import/source_item.h"
#include "tests/support/error_of.h"

namespace freshet::test {

struct Collected {
  std::vector<ctl::SourceItem> items;
  std::vector<std::pair<std::string, std::string>> skipped;
  std::string error;  // the detail; empty if reading succeeded

  ctl::SourceSink sink() {
    return {.item =
                [this](ctl::SourceItem item) {
                  items.push_back(std::move(item));
                  return true;
                },
            .skipped = [this](std::string_view position,
                              std::string_view reason) { skipped.emplace_back(position, reason); }};
  }
  std::vector<std::string> titles() const {
    std::vector<std::string> out;
    for (const auto& item : items) out.push_back(item.title);
    return out;
  }
};

inline std::string fixture(const std::string& name) {
  return FRESHET_SOURCE_DIR "/tests/ctl/import/fixtures/" + name;
}

// read(stream, sink) of a stream.
template <class Read>
Collected collect(std::istream& in, Read read) {
  Collected out;
  const auto done = read(in, out.sink());
  if (!done) out.error = done.error().detail;
  return out;
}
template <class Read>
Collected collect_text(const std::string& text, Read read) {
  std::istringstream in(text);
  return collect(in, read);
}
template <class Read>
Collected collect_fixture(const std::string& name, Read read) {
  std::ifstream in(fixture(name), std::ios::binary);
  return collect(in, read);
}

// The Unix seconds of a date; 0 if it is absent.
inline std::int64_t unix_or_zero(const std::optional<UnixSeconds>& at) { return at ? unix_s(*at) : 0; }

using Strings = std::vector<std::string>;

}  // namespace freshet::test
