#include "tests/bench/public_data/reads.h"

#include <algorithm>
#include <cstdio>
#include <fstream>
#include <string>

namespace freshet::bench {

void date_items(Reads& data) {
  for (const Read& each : data.reads) {
    auto& published = data.published[each.item];
    if (!published) published = UnixSeconds(seconds(each.at));
  }
}

Result<Reads> read_clicks(const std::filesystem::path& path) {
  std::ifstream in(path);
  if (!in)
    return fail(ErrorCode::kNotFound, "no_file", {},
                "cannot read " + path.string() + " (unpack it: xz -dc clicks.csv.xz)");
  Reads out;
  std::string line;
  std::getline(in, line);
  while (std::getline(in, line)) {
    long long at = 0;
    unsigned reader = 0, session = 0, item = 0;
    if (std::sscanf(line.c_str(), "%lld,%u,%u,%u", &at, &reader, &session, &item) != 4 || at < 0)
      return fail(ErrorCode::kInvalid, "bad_data", {}, path.string() + ": not a click: " + line);
    out.reads.push_back({at, item, reader, session});
    if (item >= out.published.size()) out.published.resize(item + 1);
  }
  if (out.reads.empty()) return fail(ErrorCode::kInvalid, "bad_data", {}, path.string() + ": no clicks");
  std::ranges::stable_sort(out.reads, {}, &Read::at);
  date_items(out);
  return out;
}

}  // namespace freshet::bench
