#include "tests/bench/public_data/clicks.h"

#include <algorithm>
#include <cstdio>
#include <fstream>
#include <string>

namespace freshet::bench {

Result<std::vector<Click>> read_clicks(const std::filesystem::path& path) {
  std::ifstream in(path);
  if (!in)
    return fail(ErrorCode::kNotFound, "no_file", {},
                "cannot read " + path.string() + " (unpack it: xz -dc clicks.csv.xz)");
  std::vector<Click> out;
  std::string line;
  std::getline(in, line);
  while (std::getline(in, line)) {
    long long at = 0;
    unsigned reader = 0, session = 0, item = 0;
    if (std::sscanf(line.c_str(), "%lld,%u,%u,%u", &at, &reader, &session, &item) != 4 || at < 0)
      return fail(ErrorCode::kInvalid, "bad_data", {}, path.string() + ": not a click: " + line);
    out.push_back({at, reader, session, item});
  }
  if (out.empty()) return fail(ErrorCode::kInvalid, "bad_data", {}, path.string() + ": no clicks");
  std::ranges::stable_sort(out, {}, &Click::at);
  return out;
}

}  // namespace freshet::bench
