#include "scripts/ctl/commands/train.h"

#include <array>
#include <catch2/catch.hpp>
#include <fstream>

#include "core/database/database.h"
#include "core/database/database_readers.h"
#include "core/model/model.h"
#include "core/training/item_table.h"
#include "core/training/training_source.h"
#include "tests/support/shared_files.h"
#include "tests/support/unix_socket.h"

using namespace freshet;
using namespace freshet::ctl;
using namespace freshet::test;

namespace {

// A configuration and a database with items and interactions.
struct Site {
  TemporaryDirectory directory;
  std::filesystem::path model = directory.path() / "freshet.model";
  Target target;
  TrainOptions options;

  Site(int readers) {
    const auto path = [&](const char* name) { return (directory.path() / name).string(); };
    std::ofstream(path("freshet.toml"))
        << "recorder.database = \"" << path("f.db") << "\"\nrecommend.model = \"" << model.string() << "\"\n";
    target.config = path("freshet.toml");
    options.quiet = true;
    auto database = database::Database::open(path("f.db"), database::Database::Mode::kWrite);
    REQUIRE(database);
    REQUIRE((*database)->begin());
    for (int i = 0; i < 50; ++i) {
      items::Item item;
      item.id = ItemId::trusted("i" + std::to_string(i));
      item.title = "title " + std::to_string(i);
      item.published_at = UnixSeconds{seconds{1700000000}};
      REQUIRE((*database)->put_item(item));
    }
    for (int event = 0; event < readers * 10; ++event) {
      readers::ReaderEvent one;
      one.reader = ReaderId::trusted("r" + std::to_string(event % readers));
      one.item = ItemId::trusted("i" + std::to_string(event * 7 % 50));
      one.at = UnixSeconds{seconds{1700000000 + event}};
      REQUIRE((*database)->readers().put_interaction(one));
    }
    REQUIRE((*database)->commit());
  }
};

}  // namespace

TEST_CASE("train creates the database's model, repeatedly", "[ctl]") {
  Site site(60);
  REQUIRE(run_train(site.options, site.target) == 0);
  auto model = model::Model::open(site.model);
  REQUIRE(model);
  CHECK((*model)->items() == 50);
  CHECK((*model)->find("i7"));
  CHECK((*model)->count(*(*model)->find("i0")) > 0);
  REQUIRE(run_train(site.options, site.target) == 0);
  site.options.output = (site.directory.path() / "elsewhere").string();
  REQUIRE(run_train(site.options, site.target) == 0);
  CHECK(model::Model::open(site.options.output));
}

TEST_CASE("an item's terms are those of its readable text", "[ctl]") {
  TemporaryDirectory directory;
  const std::string path = directory.path() / "f.db";
  auto database = database::Database::open(path, database::Database::Mode::kWrite);
  REQUIRE(database);
  REQUIRE((*database)->begin());
  const std::array<std::string, 3> texts{"red roses", "<p class=x>red</p>ro<b>ses</b>", "# red\nro**ses**"};
  for (std::size_t i = 0; i < texts.size(); ++i) {
    items::Item item;
    item.id = ItemId::trusted("i" + std::to_string(i));
    item.text = texts[i];
    item.text_format = static_cast<items::TextFormat>(i);
    REQUIRE((*database)->put_item(item));
  }
  REQUIRE((*database)->commit());
  const auto data = training::read_training_data(path, {}, UnixSeconds{});
  REQUIRE(data);
  const training::ItemTable table = training::build_item_table(*data, {});
  REQUIRE(table.terms.size() == texts.size());
  for (const std::vector<model::TermCount>& terms : table.terms) {
    REQUIRE(terms.size() == 2);
    CHECK(terms[0].hash == table.terms[0][0].hash);
    CHECK(terms[1].hash == table.terms[0][1].hash);
  }
}

TEST_CASE("train keeps the model if there is nothing to learn or no database", "[ctl]") {
  Site site(60);
  REQUIRE(run_train(site.options, site.target) == 0);
  const std::string before = read_file(site.model);
  Site empty(0);
  empty.options.output = site.model.string();
  CHECK(run_train(empty.options, empty.target) == 0);  // nothing to learn on a new site is not a failure
  std::filesystem::remove(site.directory.path() / "f.db");
  CHECK_FALSE(run_train(site.options, site.target));
  CHECK(read_file(site.model) == before);
}
