// `freshetctl tune` on a database with counts of views.
#include "scripts/ctl/commands/tune.h"

#include <xxhash.h>

#include <catch2/catch.hpp>
#include <fstream>

#include "core/database/database.h"
#include "scripts/ctl/commands/tune_feed.h"
#include "tests/support/error_of.h"
#include "tests/support/shared_files.h"
#include "tests/support/unix_socket.h"

using namespace freshet;
using namespace freshet::ctl;
using namespace freshet::test;

namespace {

constexpr std::int64_t kHour = 3600;

// Every four hours, other ten of 200 articles are read; the first day has far more views than
// others.
struct Site {
  TemporaryDirectory directory;
  Target target;
  TuneOptions options;
  std::int64_t now = unix_s(wall_now());

  explicit Site(int days) {
    const auto path = [&](const char* name) { return (directory.path() / name).string(); };
    std::ofstream(path("freshet.toml")) << "recorder.database = \"" << path("f.db") << "\"\n";
    target.config = path("freshet.toml");
    options.output = path("tuned.toml");
    options.quiet = true;
    auto database = database::Database::open(path("f.db"), database::Database::Mode::kWrite);
    REQUIRE(database);
    REQUIRE((*database)->begin());
    for (std::int64_t hour = 0; hour < 24 * days; ++hour) {
      const UnixSeconds bucket{seconds{(now - 24 * days * kHour) / kHour * kHour + hour * kHour}};
      for (std::int64_t story = 0; story < 10; ++story) {
        const auto item = ItemId::trusted("i" + std::to_string((hour / 4 * 37 + story * 7) % 200));
        REQUIRE((*database)->add_views(bucket, item, (hour < 24 ? 1000 : 30) / (1 + story), bucket));
      }
    }
    REQUIRE((*database)->commit());
  }
  // On each of ten days, 40 readers read two of ten articles that were viewed before midnight,
  // among 300 that were published on the three days before.
  void add_readers() const {
    constexpr std::int64_t kDay = 24 * kHour;
    const std::int64_t today = now / kDay * kDay;
    auto opened =
        database::Database::open((directory.path() / "f.db").string(), database::Database::Mode::kWrite);
    REQUIRE(opened);
    database::Database& database = **opened;
    const auto article = [](std::int64_t day, std::int64_t number) {
      return ItemId::trusted("d" + std::to_string(day) + "-" + std::to_string(number));
    };
    REQUIRE(database.begin());
    for (std::int64_t day = -13; day < 0; ++day) {
      const std::int64_t midnight = today + day * kDay;
      for (std::int64_t i = 0; i < 100; ++i) {
        items::Item item;
        item.id = article(day, i);
        item.published_at = UnixSeconds{seconds{midnight + i * 60}};
        REQUIRE(database.put_item(item));
      }
      const UnixSeconds bucket{seconds{midnight - kHour}};
      for (std::int64_t i = 0; i < 10 && day > -11; ++i) {
        REQUIRE(database.add_views(bucket, article(day - 1 - i % 2, i * 7), 50 - i, bucket));
      }
      for (std::int64_t reader = 0; reader < 40 && day >= -10; ++reader) {
        for (const std::int64_t i : {reader % 10, (reader + 3) % 10}) {
          REQUIRE(database.readers().put_interaction(
              {ReaderId::trusted("r" + std::to_string(reader)), article(day - 1 - i % 2, i * 7),
               readers::Interaction::kView, UnixSeconds{seconds{midnight + reader * 60}}}));
        }
      }
    }
    REQUIRE(database.commit());
  }
  Result<int> tune() const { return run_tune(options, target); }
  std::string text() const { return read_file(options.output); }
};

std::string checksum_line(const std::string& covered) {
  char line[32];
  std::snprintf(line, sizeof line, "# end %016llx\n",
                static_cast<unsigned long long>(XXH3_64bits(covered.data(), covered.size())));
  return line;
}

}  // namespace

TEST_CASE("the file has the choice, its reasons and a checksum", "[tune]") {
  tuning::HotDecision decision;
  decision.reasons = {"First.", "Second."};
  decision.values.default_model = "trending";
  decision.values.trending_half_life = seconds{900};
  decision.values.gamma = 0.5;
  const std::string text = tuned_text(decision, UnixSeconds{seconds{1'700'000'000}});
  const std::string body =
      "# Written by `freshetctl tune`, which replaces this file. To choose yourself, set the directives in\n"
      "# freshet.toml; they win.\n# First.\n# Second.\nformat = 1\ncreated = 1700000000\n\n[values]\n"
      "hot.default_model = \"trending\"\ntrending.half_life = 900\nviews.gamma = 0.5\n";
  CHECK(text == body + checksum_line(body));

  decision.values = {};
  decision.values.default_mode = "current";
  decision.values.engagement_half_life = seconds{43200};
  CHECK(tuned_text(decision, {})
            .find("[values]\nviews.default_mode = \"current\"\nhot.half_life = 43200\n# end ") !=
        std::string::npos);
}

TEST_CASE("values that the administrator configured are not written", "[tune]") {
  tuning::HotDecision decision;
  decision.values.default_model = "engagement";
  decision.values.gamma = 1.2;
  tuning::HotValues configured;
  configured.default_model = "engagement";
  CHECK(tuned_text(decision, {}, configured).find("[values]\nviews.gamma = 1.2\n# end ") !=
        std::string::npos);
}

TEST_CASE("a choice is undone where the administrator set the value", "[tune]") {
  const tuning::HotValues current{.default_model = "views", .gamma = 1.5};
  const ConfigSources sources{{"hot.default_model", "freshet.toml:3"},
                              {"views.default_mode", "freshet.toml:4"},  // "auto"
                              {"trending.half_life", "/var/lib/freshet/tuned.toml"},
                              {"hot.half_life", "FRESHET_CONF_HOT_HALF_LIFE"}};
  tuning::HotDecision decision;
  decision.values = {.default_model = "trending",
                     .default_mode = "current",
                     .trending_half_life = seconds{900},
                     .engagement_half_life = seconds{86400},
                     .gamma = 1.2};
  const auto configured = keep_configured(decision, current, sources, "/var/lib/freshet/tuned.toml");
  CHECK(configured == tuning::HotValues{.default_model = "views"});
  CHECK(decision.values == tuning::HotValues{.default_model = "views",
                                             .default_mode = "current",
                                             .trending_half_life = seconds{900},
                                             .gamma = 1.2});
  CHECK(decision.reasons ==
        std::vector<std::string>{"hot.default_model stays as it is set by freshet.toml:3."});
}

TEST_CASE("settings are the values that the tuner starts from", "[tune]") {
  Settings settings;
  CHECK(hot_values(settings) == tuning::HotValues());
  settings.engagement.half_life = seconds{777};
  settings.views.gamma = 1.25;
  settings.views.base_hours = 3;
  const auto values = hot_values(settings);
  CHECK(values.engagement_half_life == seconds{777});
  CHECK(values.gamma == 1.25);
  CHECK(values.base_hours == 3);
}

TEST_CASE("the choice is written, and again only when it is due", "[tune]") {
  Site site(4);
  site.options.dry_run = true;
  CHECK(site.tune() == 0);
  CHECK_FALSE(std::filesystem::exists(site.options.output));
  site.options.dry_run = false;
  site.options.if_due = true;
  CHECK(site.tune() == 0);
  const std::string first = site.text();
  CHECK(first.find("\nhot.default_model = \"trending\"\n") != std::string::npos);
  CHECK(first.find("# The list served by default: trending, half-life ") != std::string::npos);
  const auto body = first.substr(0, first.rfind("# end "));
  CHECK(first == body + checksum_line(body));

  const auto replace_created = [&](std::int64_t created) {
    std::string text = first;
    const auto from = text.find("created = ");
    text.replace(from, text.find('\n', from) - from, "created = " + std::to_string(created));
    std::ofstream(site.options.output) << text;
    return text;
  };
  std::string old = replace_created(site.now - 22 * kHour);
  CHECK(site.tune() == 0);
  CHECK(site.text() == old);
  for (const std::int64_t created : {site.now - 24 * kHour, site.now + 24 * kHour}) {  // due; from the future
    old = replace_created(created);
    CHECK(site.tune() == 0);
    CHECK(site.text() != old);
  }
  old = replace_created(site.now - 2 * kHour);
  site.options.if_due = false;  // by hand
  CHECK(site.tune() == 0);
  CHECK(site.text() != old);
  std::ofstream(site.options.output) << first.substr(0, first.size() / 2);  // truncated
  site.options.if_due = true;
  CHECK(site.tune() == 0);
  CHECK(site.text().substr(site.text().find("[values]"), 40) == first.substr(first.find("[values]"), 40));
}

TEST_CASE("too little traffic keeps the defaults; an unchanged choice is not written again in the first days",
          "[tune]") {
  Site site(1);
  site.options.if_due = true;
  CHECK(site.tune() == 0);
  const std::string first = site.text();
  CHECK(first.find("# Too little traffic yet") != std::string::npos);
  CHECK(first.find("[values]\n# end ") != std::string::npos);
  const auto long_ago = std::filesystem::file_time_type::clock::now() - std::chrono::hours(24);
  const auto is_rewritten = [&] {
    std::filesystem::last_write_time(site.options.output, long_ago);
    CHECK(site.tune() == 0);
    return std::filesystem::last_write_time(site.options.output) != long_ago;
  };
  CHECK_FALSE(is_rewritten());
  std::ofstream(site.options.output, std::ios::app) << "damaged\n";
  CHECK(is_rewritten());
  CHECK(site.text().find("damaged") == std::string::npos);
  CHECK_FALSE(is_rewritten());
  site.options.if_due = false;
  CHECK(is_rewritten());
}

TEST_CASE("a file that cannot be written stays as it is", "[tune]") {
  Site site(1);
  const std::string kept = site.options.output;
  REQUIRE(site.tune() == 0);
  const std::string before = site.text();
  site.options.output = (site.directory.path() / "absent" / "tuned.toml").string();
  CHECK(error_of(site.tune()).reason == "tune_io");
  site.options.output = kept;
  std::filesystem::create_directory(kept + ".new");  // blocks the temporary file
  CHECK(error_of(site.tune()).reason == "tune_io");
  CHECK(site.text() == before);
  site.target.config = (site.directory.path() / "other.toml").string();
  std::ofstream(site.target.config) << "recorder.database = \"/nowhere/f.db\"\n";
  CHECK_FALSE(site.tune());
}

TEST_CASE("the weights of the feed are chosen from what readers read on the next day", "[tune]") {
  Site site(4);
  CHECK(site.tune() == 0);
  CHECK(site.text().find("# The feed: too few readers come back yet") != std::string::npos);
  CHECK(site.text().find("recall.") == std::string::npos);
  site.add_readers();
  CHECK(site.tune() == 0);
  CHECK(site.text().find("\nrecall.decay_scale = 2592000\n") != std::string::npos);
  CHECK(site.text().find("\n# The feed: scale ") != std::string::npos);
  CHECK(site.text().find(" instead of scale 7 d, interests 0.02, trend 0.05 (next day 0.") !=
        std::string::npos);

  std::ofstream(site.target.config, std::ios::app) << "recall.decay_scale = \"7d\"\n";
  CHECK(site.tune() == 0);
  CHECK(site.text().find("recall.decay_scale") == std::string::npos);
}

TEST_CASE("lines of the feed are its values that are neither defaults nor configured", "[tune]") {
  const tuning::FeedCandidate values{std::chrono::days(1), 0.1, 0.2};
  CHECK(tuned_feed_lines(values, {}) ==
        "recall.decay_scale = 86400\nrecall.interest_weight = 0.1\nrecall.trend_weight = 0.2\n");
  CHECK(tuned_feed_lines(values, {.decay_scale = true, .interest_weight = true}) ==
        "recall.trend_weight = 0.2\n");
  CHECK(tuned_feed_lines({}, {}).empty());
  const ConfigSources sources{{"recall.decay_scale", "freshet.toml:3"},
                              {"recall.trend_weight", "tuned.toml"}};
  const auto fixed = fixed_feed_values(sources, "tuned.toml");
  CHECK(fixed.decay_scale);
  CHECK_FALSE(fixed.interest_weight);
  CHECK_FALSE(fixed.trend_weight);
}
