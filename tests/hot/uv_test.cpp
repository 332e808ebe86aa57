// UV by HyperLogLog against the exact count, on real readers.
#include <cmath>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <unordered_map>
#include <unordered_set>

#include "tests/support/store_fixture.h"

using namespace freshet;
using namespace freshet::test;

namespace {

// Deskdrop lies beside the repository, or where FRESHET_DATA says.
std::filesystem::path deskdrop() {
  const char* given = std::getenv("FRESHET_DATA");
  const std::filesystem::path data =
      given ? given : std::filesystem::path(FRESHET_SOURCE_DIR) / "../shared/data";
  return data / "deskdrop/users_interactions.csv";
}

}  // namespace

TEST_CASE_METHOD(Fixture, "UV is within two in a hundred or one of exact for 99 % of Deskdrop's articles",
                 "[uv]") {
  std::ifstream file(deskdrop());
  if (!file) {
    WARN("SKIPPED: no Deskdrop at " << deskdrop().string()
                                    << "; set FRESHET_DATA to the folder that holds deskdrop/");
    return;
  }
  std::unordered_map<std::string, std::unordered_set<std::string>> exact;
  std::string line;
  std::getline(file, line);
  int sent = 0;
  while (std::getline(file, line)) {
    // timestamp,eventType,contentId,personId,sessionId,…
    std::array<std::string, 5> fields;
    std::size_t from = 0;
    for (auto& field : fields) {
      const auto comma = line.find(',', from);
      field = line.substr(from, comma - from);
      from = comma + 1;
    }
    track(report(fields[2], fields[3], 0, fields[4]));
    exact[fields[2]].insert(fields[3]);
    ++sent;
  }
  CHECK(sent == 72312);
  std::size_t good = 0;
  double worst = 0;
  for (const auto& [id, visitors] : exact) {
    const auto truth = static_cast<double>(visitors.size());
    const double off = std::abs(static_cast<double>(stats(id).uv) - truth);
    if (off <= std::max(1.0, 0.02 * truth)) ++good;
    worst = std::max(worst, off / truth);
  }
  WARN(good << " of " << exact.size() << " articles within bounds; the worst is off by " << worst * 100
            << " %");
  CHECK(static_cast<double>(good) >= 0.99 * static_cast<double>(exact.size()));
}
