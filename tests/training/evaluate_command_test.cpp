// `freshetctl evaluate`, on a small database for which the scores of the trend are known in
// advance.
#include "scripts/ctl/evaluate/evaluate.h"

#include <fcntl.h>
#include <unistd.h>

#include <catch2/catch.hpp>
#include <cstdio>
#include <fstream>
#include <functional>

#include "core/database/database.h"
#include "core/database/database_readers.h"
#include "core/training/in_memory_model.h"
#include "core/training/training_source.h"
#include "tests/support/error_of.h"
#include "tests/support/shared_files.h"
#include "tests/support/unix_socket.h"

using namespace freshet;
using namespace freshet::ctl;
using namespace freshet::test;

namespace {

// Runs `run` and returns the text that it prints to stdout.
std::string printed(const std::filesystem::path& file, const std::function<void()>& run) {
  std::fflush(stdout);
  const int before = dup(STDOUT_FILENO);
  const int to = open(file.c_str(), O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0600);
  REQUIRE(dup2(to, STDOUT_FILENO) == STDOUT_FILENO);
  run();
  std::fflush(stdout);
  REQUIRE(dup2(before, STDOUT_FILENO) == STDOUT_FILENO);
  close(before);
  close(to);
  return read_file(file);
}

constexpr UnixSeconds kFirstDay{seconds{19675 * 86400}};
constexpr UnixSeconds kSecondDay = kFirstDay + seconds{86400};
constexpr seconds kNoon{43200};
constexpr int kHot = 25, kRoses = 15;

std::string numbered(const char* name, int number) {
  return name + std::string(number < 10 ? "0" : "") + std::to_string(number);
}

// On the first day, a crowd views all of hot00 … hot24, and fans view two thirds of rose00 …
// rose14. The trend's top 20 are hot00 … hot19. On the second day, the first fan views hot00, and
// later the second fan views a rose they have not viewed.
struct Site {
  TemporaryDirectory directory;
  Target target;
  EvaluateOptions options;
  Settings settings;

  explicit Site(bool second_day = true) {
    const auto path = [&](const char* name) { return (directory.path() / name).string(); };
    settings.recorder.database = path("f.db");
    settings.recommend.model = path("freshet.model");
    std::ofstream(path("freshet.toml")) << "recorder.database = \"" << settings.recorder.database
                                        << "\"\nrecommend.model = \"" << settings.recommend.model << "\"\n";
    target.config = path("freshet.toml");
    options.quiet = true;
    auto database = database::Database::open(settings.recorder.database, database::Database::Mode::kWrite);
    REQUIRE(database);
    REQUIRE((*database)->begin());
    for (int i = 0; i < kHot; ++i) put(**database, numbered("hot", i));
    for (int i = 0; i < kRoses; ++i) put(**database, numbered("rose", i));
    for (int reader = 0; reader < 6; ++reader) {
      for (int i = 0; i < kHot; ++i)
        view(**database, numbered("crowd", reader), numbered("hot", i), kFirstDay + kNoon);
      for (int i = 0; i < kRoses; ++i) {
        if ((i + reader) % 3 != 0)
          view(**database, numbered("fan", reader), numbered("rose", i), kFirstDay + kNoon);
      }
    }
    if (second_day) {
      view(**database, "fan00", "hot00", kSecondDay + kNoon - seconds{3600});
      view(**database, "fan01", "rose02", kSecondDay + kNoon + seconds{3600});
    }
    REQUIRE((*database)->commit());
  }
  static void put(database::Database& database, const std::string& id) {
    items::Item item;
    item.id = ItemId::trusted(id);
    item.published_at = kFirstDay - seconds{86400};
    REQUIRE(database.put_item(item));
  }
  static void view(database::Database& database, const std::string& reader, const std::string& id,
                   UnixSeconds at) {
    readers::ReaderEvent one;
    one.reader = ReaderId::trusted(reader);
    one.item = ItemId::trusted(id);
    one.at = at;
    REQUIRE(database.readers().put_interaction(one));
  }
  training::TrainingData data() const {
    auto read =
        training::read_training_data(settings.recorder.database, settings.train, kSecondDay + seconds{86400});
    REQUIRE(read);
    return std::move(*read);
  }
  // Trains as if at the given time.
  training::TrainedModel trained_at(UnixSeconds at) const {
    training::TrainingData past = data();
    std::erase_if(past.events, [&](const auto& each) { return each.at >= at; });
    past.now = at;
    auto trained = training::train(past, settings.train, [](std::string_view, double) {});
    REQUIRE(trained);
    return std::move(*trained);
  }
  std::vector<Comparison> evaluate(std::shared_ptr<const model::Model> present = nullptr) const {
    auto out = evaluate_past(data(), settings, 28, std::move(present), [](std::string_view, double) {});
    REQUIRE(out);
    return std::move(*out);
  }
};

}  // namespace

TEST_CASE("evaluate reports the value of trend and training for the site's readers", "[ctl]") {
  const auto compared = Site().evaluate();
  REQUIRE(compared.size() == 1);
  CHECK(compared[0].cases == 2);
  REQUIRE(compared[0].rows.size() == 2);
  const Quality& trend = compared[0].rows[0];
  CHECK(trend.name == "trend only");
  CHECK(trend.ndcg == Approx(0.5));  // hot00 is first, the rose is below the top 20
  CHECK(trend.recall == Approx(0.5));
  CHECK(trend.coverage == Approx(20.0 / (kHot + kRoses)));
  const Quality& trained = compared[0].rows[1];
  CHECK(trained.recall == Approx(1));
  CHECK(trained.coverage > trend.coverage);
}

TEST_CASE("evaluate scores the current model on events after its training", "[ctl]") {
  const Site site;
  const auto since = [&](UnixSeconds at) { return site.evaluate(to_model(site.trained_at(at))); };
  const auto whole = since(kSecondDay);
  REQUIRE(whole.size() == 2);
  CHECK(whole[1].cases == 2);
  REQUIRE(whole[1].rows.size() == 3);
  CHECK(whole[1].rows[0].recall == Approx(0.5));
  CHECK(whole[1].rows[2].name == "current model");
  CHECK(whole[1].rows[2].recall == Approx(1));
  const auto half = since(kSecondDay + kNoon);  // only the view of the rose is left
  REQUIRE(half.size() == 2);
  CHECK(half[0].cases == 2);
  CHECK(half[1].cases == 1);
  CHECK(half[1].rows[0].recall == 0);
  CHECK(half[1].rows[2].recall == Approx(1));
  CHECK(since(kSecondDay + seconds{86400}).size() == 1);  // the model has seen all events
}

TEST_CASE("evaluate reads the site's configuration and reports a missing history", "[ctl]") {
  Site site;
  CHECK(run_evaluate(site.options, site.target) == 0);  // without a current model
  REQUIRE(training::write_model(site.trained_at(kSecondDay), site.settings.recommend.model));
  site.options.json = true;
  CHECK(run_evaluate(site.options, site.target) == 0);
  const Site young(false);
  CHECK(error_of(run_evaluate(site.options, young.target)).reason == "no_past");
  std::filesystem::remove(site.settings.recorder.database);
  CHECK_FALSE(run_evaluate(site.options, site.target));
}

TEST_CASE("evaluate reports the quality of hot lists, also without a history of readers", "[ctl]") {
  const Site young(false);
  CHECK(error_of(run_evaluate(young.options, young.target)).reason == "no_past");
  auto database =
      database::Database::open(young.settings.recorder.database, database::Database::Mode::kWrite);
  REQUIRE(database);
  REQUIRE((*database)->begin());
  const std::int64_t now = unix_s(wall_now()) / 3600 * 3600;
  for (std::int64_t hour = 60; hour > 0; --hour) {
    const UnixSeconds bucket{seconds{now - hour * 3600}};
    REQUIRE((*database)->add_views(bucket, ItemId::trusted("hot00"), 1000, bucket));
  }
  REQUIRE((*database)->commit());
  for (const bool json : {false, true}) {
    EvaluateOptions options = young.options;
    options.json = json;
    Result<int> status = 1;
    const std::string text =
        printed(young.directory.path() / "out", [&] { status = run_evaluate(options, young.target); });
    CHECK(status == 0);
    INFO(text);
    CHECK(text.find(json ? "\"hot_lists\":[{\"name\":\"" : "hot lists: ") != std::string::npos);
    CHECK(text.find("views, accumulate, gamma 1.5") != std::string::npos);
    CHECK(text.find("Hacker News") != std::string::npos);
    CHECK((text.find("served now") != std::string::npos) != json);
  }
}
