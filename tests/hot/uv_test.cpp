// UV by HyperLogLog compared with the exact count, on real readers.
#include <cmath>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <random>
#include <unordered_map>
#include <unordered_set>

#include "tests/support/repeat_count.h"
#include "tests/support/store_fixture.h"

using namespace freshet;
using namespace freshet::test;

namespace {

// Deskdrop is expected next to the repository, or in the folder FRESHET_DATA.
std::filesystem::path deskdrop_path() {
  const char* given = std::getenv("FRESHET_DATA");
  const std::filesystem::path data =
      given ? given : std::filesystem::path(FRESHET_SOURCE_DIR) / "../shared/data";
  return data / "deskdrop/users_interactions.csv";
}

}  // namespace

TEST_CASE_METHOD(Fixture,
                 "UV is within 2 % or one visitor of the exact count for 99 % of Deskdrop's articles",
                 "[uv][long]") {
  const int divisor = repeat_count(10, 1);  // of the articles that are read, by the last digit of their ids
  std::ifstream file(deskdrop_path());
  if (!file) {
    WARN("SKIPPED: no Deskdrop at " << deskdrop_path().string()
                                    << "; set FRESHET_DATA to the folder that holds deskdrop/");
    return;
  }
  std::unordered_map<std::string, std::unordered_set<std::string>> exact;
  double from_pfcount = 0;
  std::string line;
  std::getline(file, line);
  int lines = 0, sent = 0;
  while (std::getline(file, line)) {
    // timestamp,eventType,contentId,personId,sessionId,…
    std::array<std::string, 5> fields;
    std::size_t from = 0;
    for (auto& field : fields) {
      const auto comma = line.find(',', from);
      field = line.substr(from, comma - from);
      from = comma + 1;
    }
    ++lines;
    if ((fields[2].back() - '0') % divisor != 0) continue;
    const auto counts = run_sync(hot->track(track_event(fields[2], fields[3], 0, fields[4])));
    REQUIRE(counts);
    auto& visitors = exact[fields[2]];
    visitors.insert(fields[3]);
    if (sent % 10 == 0) {
      const auto estimate =
          static_cast<double>(command("PFCOUNT", keys().uv_hll(fields[2])).integer().value_or(0));
      const auto uv = static_cast<double>(counts->uv), exact_uv = static_cast<double>(visitors.size());
      // A visitor who raises another's register counts as one here, but not for PFCOUNT.
      if (exact_uv < 100 && uv != estimate)
        REQUIRE(std::abs(uv - exact_uv) < std::abs(estimate - exact_uv));
      else
        from_pfcount = std::max(from_pfcount, std::abs(uv - estimate) / estimate);
    }
    ++sent;
  }
  CHECK(lines == 72312);
  CHECK(sent > 5'000);
  std::size_t within_bounds = 0;
  double worst = 0;
  for (const auto& [id, visitors] : exact) {
    const auto exact_uv = static_cast<double>(visitors.size());
    const double error = std::abs(static_cast<double>(stats(id).uv) - exact_uv);
    if (error <= std::max(1.0, 0.02 * exact_uv)) ++within_bounds;
    worst = std::max(worst, error / exact_uv);
  }
  WARN(within_bounds << " of " << exact.size() << " articles within bounds; the worst is off by "
                     << worst * 100 << " %");
  CHECK(static_cast<double>(within_bounds) >= 0.99 * static_cast<double>(exact.size()));
  CHECK(from_pfcount <= 0.01);
}

TEST_CASE_METHOD(Fixture, "UV equals PFCOUNT below a hundred, and is within 1 % of it up to a million",
                 "[uv][long]") {
  // Few articles have most of the visitors; the ids are random, and one visit in four is a repeat.
  std::mt19937_64 random(7);
  const int max_visitors = repeat_count(5'000, 1'000'000);
  std::vector<std::string> names;
  double worst = 0;
  int compared = 0;
  for (const int visitors : {130, 2'000, max_visitors}) {
    const std::string id = "a" + std::to_string(visitors);
    for (int i = 0; i < visitors; ++i) {
      const bool again = !names.empty() && random() % 4 == 0;
      if (!again) names.push_back(std::to_string(random()));
      const auto counts =
          run_sync(hot->track(track_event(id, again ? names[random() % names.size()] : names.back(), 0)));
      REQUIRE(counts);
      if (i >= 300 && i % (visitors / 1000) != 0) continue;
      const std::int64_t estimate = command("PFCOUNT", keys().uv_hll(id)).integer().value_or(0);
      if (estimate < 100) REQUIRE(counts->uv == estimate);
      worst = std::max(worst,
                       std::abs(static_cast<double>(counts->uv - estimate)) / static_cast<double>(estimate));
      ++compared;
    }
  }
  CHECK(compared > 1500);
  CHECK(worst <= 0.01);
}
