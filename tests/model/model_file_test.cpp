#include "core/model/model.h"

#include <signal.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>
#include <xxhash.h>

#include <atomic>
#include <cstring>
#include <fstream>
#include <random>
#include <thread>

#include "core/model/model_layout.h"
#include "core/model/model_view.h"
#include "core/model/replace_model.h"
#include "tests/model/fixture.h"
#include "tests/support/error_of.h"
#include "tests/support/shared_files.h"

using namespace freshet;
using namespace freshet::model;
using namespace freshet::recommend;
using namespace freshet::training;
using namespace freshet::test;
using layout::RowSection;

namespace {

struct ModelFile {
  TemporaryDirectory directory;
  std::filesystem::path path = directory.path() / "freshet.model";

  ModelFile() { REQUIRE(write_model(train_model(make_training_data(60, 40, 5)), path)); }
  std::string bytes() const { return read_file(path); }
  void replace(const std::string& content) const {
    const auto temporary = path.string() + ".put";
    std::ofstream(temporary, std::ios::binary) << content;
    std::filesystem::rename(temporary, path);
  }
  std::string open_status() const {
    const auto model = Model::open(path);
    return model ? "ok" : std::string(model.error().reason);
  }
};

// Returns the bytes with a corrected checksum.
std::string with_checksum(std::string bytes) {
  const std::uint64_t sum =
      XXH3_64bits(bytes.data() + layout::kChecksumStart, bytes.size() - layout::kChecksumStart);
  std::memcpy(bytes.data() + offsetof(layout::Header, checksum), &sum, sizeof(sum));
  return bytes;
}

template <class T>
std::string patched(std::string bytes, std::size_t at, T value) {
  REQUIRE(at + sizeof(T) <= bytes.size());
  std::memcpy(bytes.data() + at, &value, sizeof(T));
  return with_checksum(std::move(bytes));
}

layout::Header read_header(const std::string& bytes) {
  layout::Header header;
  std::memcpy(&header, bytes.data(), sizeof(header));
  return header;
}

}  // namespace

TEST_CASE("a valid model replaces another and is published readable by everyone", "[model]") {
  ModelFile file;
  const std::string good = file.bytes();
  TemporaryDirectory others;
  const auto folder = others.path();
  const auto put = [&](const std::string& bytes) {
    const auto ok = replace_model(folder / "m", bytes);
    return ok ? "ok" : std::string(ok.error().reason);
  };
  CHECK(put(good) == "ok");
  CHECK(put(good.substr(0, good.size() - 1)) == "model_corrupt");
  CHECK(put("") == "model_corrupt");
  std::string other_version = good;
  other_version[8] = 9;
  CHECK(put(other_version) == "model_version");
  CHECK(read_file(folder / "m") == good);
  CHECK(read_checksum(folder / "m") == read_header(good).checksum);
  CHECK_FALSE(read_checksum(folder / "none"));
  const auto before = umask(0077);
  CHECK(publish_model(file.path, folder));
  umask(before);
  CHECK(read_file(folder / kPublishedName) == good);
  CHECK((std::filesystem::status(folder / kPublishedName).permissions() & std::filesystem::perms::all) ==
        std::filesystem::perms{0644});
  CHECK_FALSE(publish_model(file.path, folder / "none"));
  CHECK(std::distance(std::filesystem::directory_iterator(folder), {}) == 2);
}

TEST_CASE("a model is read as it was trained", "[model]") {
  ModelFile file;
  const TrainedModel trained = train_model(make_training_data(60, 40, 5));
  const auto model = open_model(file.path);
  REQUIRE(model->items() == trained.items.size());
  for (std::uint32_t i = 0; i < model->items(); ++i) {
    CHECK(model->id(i) == trained.items[i].id);
    CHECK(model->find(trained.items[i].id) == i);
    CHECK(model->title(i) == trained.items[i].title);
    CHECK(model->author(i) == trained.items[i].author);
    CHECK(model->published(i) == trained.items[i].published);
    CHECK(model->count(i) == trained.counts[i]);
    std::vector<std::string_view> tags{"of another"};
    model->tags(i, tags);
    REQUIRE(tags.size() == trained.items[i].tags.size());
    for (std::size_t t = 0; t < trained.items[i].tags.size(); ++t) CHECK(tags[t] == trained.items[i].tags[t]);
    CHECK(model->terms(i).size() == trained.terms[i].size());
    for (std::size_t p = 0; p < kRelations; ++p) {
      const auto row = model->row(static_cast<Relation>(p), i);
      const auto& rows = trained.relations[p];
      REQUIRE(row.size() == rows.starts[i + 1] - rows.starts[i]);
      for (std::size_t n = 0; n < row.size(); ++n) {
        const Neighbour& expected = rows.neighbours[rows.starts[i] + n];
        CHECK(row[n].item == expected.item);
        CHECK(row[n].weight == Approx(expected.weight).margin(1e-4 * std::abs(row[0].weight)));
      }
    }
  }
  CHECK_FALSE(model->find("nobody"));
  CHECK(model->ranking() == trained.ranking);
  CHECK(model->algorithm() == trained.algorithm);
  CHECK(model->trained_at() == kTrainedAt);
  CHECK(model->blend_weights().by_relation[0] == trained.blend_weights.by_relation[0]);
  CHECK(model->bytes() == std::filesystem::file_size(file.path));
}

TEST_CASE("every ranking is read as it was chosen", "[model]") {
  ModelFile file;
  TrainedModel trained = train_model(make_training_data(60, 40, 5));
  for (const ChosenRanking& ranking : {ChosenRanking{RankingMethod::kTrend, seconds{300}, 0, false},
                                       ChosenRanking{RankingMethod::kAffinity, seconds{86400}, 0.25F, true},
                                       ChosenRanking{RankingMethod::kReranker, seconds{0}, 4, false}}) {
    trained.ranking = ranking;
    REQUIRE(write_model(trained, file.path));
    CHECK(open_model(file.path)->ranking() == ranking);
  }
  CHECK(ranking_name({RankingMethod::kTrend, seconds{900}, 0, false}) == "views halved every 15 min");
  CHECK(ranking_name({RankingMethod::kAffinity, seconds{0}, 0.25F, true}) ==
        "views by age x (1 + 0.25 x affinity), with discoveries");
}

TEST_CASE("looking up ids together gives the same results as single lookups", "[model]") {
  ModelFile file;
  const auto model = open_model(file.path);
  std::vector<std::string> names;
  for (std::uint32_t i = 0; i < model->items(); ++i) {
    names.emplace_back(model->id(i));
    names.push_back("not-" + names[2 * i]);
  }
  const std::vector<std::string_view> ids(names.begin(), names.end());
  std::vector<std::uint32_t> found(ids.size());
  model->find_all(ids, found);
  for (std::uint32_t i = 0; i < model->items(); ++i) {
    CHECK(found[2 * i] == i);
    CHECK(found[2 * i + 1] == kNoIndex);
  }
  model->find_all({}, {});
}

TEST_CASE("a file truncated at any length is refused", "[model]") {
  ModelFile file;
  const std::string whole = file.bytes();
  for (std::size_t length = 0; length < whole.size(); length += length < 1000 ? 1 : 97) {
    file.replace(whole.substr(0, length));
    INFO("length " << length);
    CHECK(file.open_status() == "model_corrupt");
  }
  file.replace(whole + "x");
  CHECK(file.open_status() == "model_corrupt");
  file.replace(whole);
  CHECK(file.open_status() == "ok");
}

TEST_CASE("a file with any byte changed is refused", "[model]") {
  ModelFile file;
  const std::string whole = file.bytes();
  for (std::size_t at = 0; at < whole.size(); at += at < sizeof(layout::Header) ? 1 : 53) {
    std::string changed = whole;
    changed[at] = static_cast<char>(changed[at] ^ 0x40);
    file.replace(changed);
    INFO("byte " << at);
    CHECK(file.open_status() != "ok");
  }
}

TEST_CASE("a file of another version and an absent file have their own errors", "[model]") {
  ModelFile file;
  for (const std::uint32_t version : {0U, layout::kVersion - 1, layout::kVersion + 1, 77U}) {
    std::string other = file.bytes();
    std::memcpy(other.data() + 8, &version, sizeof(version));
    ModelFile another;
    another.replace(other);
    CHECK(another.open_status() == "model_version");
  }
  std::filesystem::remove(file.path);
  CHECK(file.open_status() == "model_absent");
  std::filesystem::create_directory(file.path);
  CHECK(file.open_status() == "model_corrupt");
}

TEST_CASE("invalid offsets, indexes and numbers are refused even with a correct checksum", "[model]") {
  ModelFile file;
  const std::string good = file.bytes();
  const layout::Header header = read_header(good);
  const auto section = [&](std::size_t index) { return header.sections[index].offset; };
  const auto rows = [&](RowSection part) { return section(layout::index_of(Relation::kCf, part)); };
  const std::size_t items = section(layout::index_of(layout::Section::kItems));
  const std::size_t extents = offsetof(layout::Header, sections);
  std::uint32_t second_id = 0;
  std::memcpy(&second_id, good.data() + items + sizeof(layout::Item), sizeof(second_id));
  constexpr float kNan = std::numeric_limits<float>::quiet_NaN();
  const std::size_t slots = section(layout::index_of(layout::Section::kSlots));
  const std::size_t ranking = section(layout::index_of(layout::Section::kRanking));
  const auto slot = [&](bool taken) {  // the first slot that is used, or free
    for (std::size_t at = slots;; at += sizeof(std::uint32_t)) {
      std::uint32_t item = 0;
      std::memcpy(&item, good.data() + at, sizeof item);
      if ((item != layout::kNoItem) == taken) return at;
    }
  };

  file.replace(with_checksum(good));
  REQUIRE(file.open_status() == "ok");
  const std::vector<std::pair<const char*, std::string>> wrong{
      {"column", patched(good, rows(RowSection::kColumns), std::uint16_t{40})},
      {"row start", patched(good, rows(RowSection::kStarts) + 8, ~0ULL)},
      {"first row start", patched(good, rows(RowSection::kStarts), std::uint64_t{1})},
      {"scale", patched(good, rows(RowSection::kScales), kNan)},
      {"id's offset", patched(good, items, 0xFFFFFFF0U)},
      {"id's length", patched(good, items + 4, 0xFFFFFFF0U)},
      {"order of ids", patched(good, items, second_id)},
      {"slot of no item", patched(good, slot(true), std::uint32_t{40})},
      {"item without a slot", patched(good, slot(true), layout::kNoItem)},
      {"item with two slots", patched(good, slot(false), std::uint32_t{0})},
      {"tags' place", patched(good, items + offsetof(layout::Item, first_tag), 0xFFFFFF00U)},
      {"time", patched(good, items + offsetof(layout::Item, published), std::int64_t{-1})},
      {"count", patched(good, items + offsetof(layout::Item, count), kNan)},
      {"term", patched(good, section(layout::index_of(layout::Section::kTerms)), 0xFFFFFFFFU)},
      {"term starts", patched(good, section(layout::index_of(layout::Section::kTermStarts)) + 8, ~0ULL)},
      {"idf", patched(good, section(layout::index_of(layout::Section::kIdf)), kNan)},
      {"vocabulary's order", patched(good, section(layout::index_of(layout::Section::kVocabulary)), ~0ULL)},
      {"ranking's method", patched(good, ranking, 'x')},
      {"ranking's method without an end", patched(good, ranking + 15, 'x')},
      {"ranking's half-life",
       patched(good, ranking + offsetof(layout::Ranking, trend_half_life), 0xFFFFFFFFU)},
      {"ranking's weight", patched(good, ranking + offsetof(layout::Ranking, cf_weight), kNan)},
      {"ranking's discoveries", patched(good, ranking + offsetof(layout::Ranking, discoveries), 2U)},
      {"ranking's length",
       patched(good, extents + layout::index_of(layout::Section::kRanking) * sizeof(layout::Extent) + 8,
               std::uint64_t{0})},
      {"items", patched(good, offsetof(layout::Header, items), 0xFFFFFFFFU)},
      {"mix", patched(good, offsetof(layout::Header, blend_weights), kNan)},
      {"trained_at", patched(good, offsetof(layout::Header, trained_at), std::int64_t{-5})},
      {"algorithm without an end", patched(good, offsetof(layout::Header, algorithm) + 19, 'x')},
      {"section's offset", patched(good, extents, ~0ULL)},
      {"section's alignment", patched(good, extents, section(0) + 8)},
      {"section over the header", patched(good, extents, std::uint64_t{0})},
      {"section's length", patched(good, extents + 8, ~0ULL)},
  };
  for (const auto& [what, bytes] : wrong) {
    INFO(what);
    file.replace(bytes);
    CHECK(file.open_status() == "model_corrupt");
  }
}

TEST_CASE("validating arbitrary bytes never reads out of bounds", "[model]") {
  ModelFile file;
  const std::string good = file.bytes();
  std::mt19937 random(3);
  for (int round = 0; round < 3000; ++round) {
    std::string bytes = good;
    for (int change = 0; change < 3; ++change) {
      const std::size_t at = layout::kChecksumStart + random() % (bytes.size() - layout::kChecksumStart);
      bytes[round % 2 == 0 ? at % sizeof(layout::Header) : at] = static_cast<char>(random());
    }
    bytes = with_checksum(std::move(bytes));
    const std::unique_ptr<std::byte[], void (*)(void*)> copy(
        static_cast<std::byte*>(std::aligned_alloc(64, (bytes.size() + 63) / 64 * 64)), std::free);
    std::memcpy(copy.get(), bytes.data(), bytes.size());
    const auto view = checked_view({copy.get(), bytes.size()});
    if (!view) continue;
    for (const RowsView& rows : view->rows) {
      for (const std::uint16_t column : rows.narrow) REQUIRE(column < view->header->items);
    }
  }
}

TEST_CASE("readers never see a torn file while a writer keeps replacing it", "[model]") {
  ModelFile file;
  const TrainedModel one = train_model(make_training_data(60, 40));
  const TrainedModel other = train_model(make_training_data(80, 50));
  std::atomic<bool> done{false};
  std::thread writer([&] {
    for (int round = 0; round < 60; ++round) {
      if (!write_model(round % 2 == 0 ? one : other, file.path)) break;
    }
    done = true;
  });
  int seen = 0;
  std::string wrong;
  while (!done) {
    const auto model = Model::open(file.path);
    if (!model) {
      wrong = error_of(model).detail;
      break;
    }
    if ((*model)->items() != 40 && (*model)->items() != 50) wrong = "a mixture";
    ++seen;
  }
  writer.join();
  CHECK(wrong.empty());
  CHECK(seen > 0);
}

TEST_CASE("a killed writer leaves the old file, and the next write removes its temporary file", "[model]") {
  ModelFile file;
  const std::string before = file.bytes();
  const TrainedModel other = train_model(make_training_data(80, 50));
  int killed_early = 0;
  for (int round = 0; round < 20; ++round) {
    const pid_t child = fork();
    if (child == 0) {
      for (;;) {
        if (!write_model(other, file.path)) _exit(1);
      }
    }
    std::this_thread::sleep_for(std::chrono::microseconds(300 * round));  // any moment will do
    kill(child, SIGKILL);
    waitpid(child, nullptr, 0);
    const auto model = Model::open(file.path);
    REQUIRE(model);
    killed_early += (*model)->items() == 40;
  }
  INFO("the first " << killed_early << " came before the rename");
  REQUIRE(write_model(other, file.path));
  CHECK(std::distance(std::filesystem::directory_iterator(file.directory.path()), {}) == 1);
  CHECK(file.bytes() != before);
}

TEST_CASE("a failed write keeps the old model and returns the cause", "[model]") {
  ModelFile file;
  const std::string before = file.bytes();
  const auto nowhere =
      write_model(train_model(make_training_data(60, 40)), file.directory.path() / "no" / "such");
  REQUIRE_FALSE(nowhere);
  CHECK(error_of(nowhere).reason == "model_io");
  CHECK(file.bytes() == before);
}

TEST_CASE("arbitrary strings are stored unchanged", "[model]") {
  const auto folder = shared_path("corpora/BLNS");
  TrainingData data = make_training_data(60, 40);
  data.items[0].title = std::string("a\0b", 3);
  data.items[1].title = std::string(100000, 'x');
  data.items[2].tags = {"", "\"", "\xF0\x9F\x98\x80", std::string(1, '\0')};
  if (folder) {
    std::size_t next = 3;
    for (const auto& path : files_in(*folder)) {
      std::ifstream in(path);
      for (std::string line; std::getline(in, line) && next < data.items.size();) {
        if (!line.empty() && line[0] != '#') data.items[next++].title = line;
      }
    }
  }
  TemporaryDirectory directory;
  REQUIRE(write_model(train_model(data), directory.path() / "m"));
  const auto model = open_model(directory.path() / "m");
  for (const TrainingItem& item : data.items) {
    const auto found = model->find(item.id);
    REQUIRE(found);
    CHECK(model->title(*found) == item.title);
    std::vector<std::string_view> tags;
    model->tags(*found, tags);
    REQUIRE(tags.size() == item.tags.size());
    for (std::size_t t = 0; t < item.tags.size(); ++t) CHECK(tags[t] == item.tags[t]);
  }
}
