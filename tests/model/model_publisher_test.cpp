// The keeper's copies, and those who map them: whatever becomes of the file, what is mapped stays
// as it was.
#include "core/model/model_publisher.h"

#include <fcntl.h>
#include <signal.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#include <fstream>

#include "core/model/active_model.h"
#include "tests/model/fixture.h"
#include "tests/support/shared_files.h"

using namespace freshet;
using namespace freshet::model;
using namespace freshet::recommend;
using namespace freshet::training;
using namespace freshet::test;

namespace {

using Clock = ModelPublisher::Clock;

// The model's file, its keeper and one who serves it. Time passes when it is told to.
struct Site {
  TemporaryDirectory directory;
  std::filesystem::path path = directory.path() / "freshet.model";
  ModelHandoff shelf;
  std::optional<ModelPublisher> keeper;
  ActiveModel served;
  Clock::time_point now;

  Site() {
    learn(40);
    keeper.emplace(path, shelf);
  }
  void learn(std::uint32_t items) const { REQUIRE(write_model(trained(world(60, items, 5)), path)); }
  // Two looks: what has changed is copied when it was still for one. True when another model is
  // served.
  bool look() {
    for (int i = 0; i < 2; ++i) {
      keeper->poll(now);
      now += std::chrono::milliseconds(500);
    }
    return served.update_from(shelf);
  }
  std::string bytes() const { return read_file(path); }
  // As cp does: the same inode, cut short and written anew.
  void overwrite(const std::string& content) const {
    std::ofstream(path, std::ios::binary | std::ios::trunc) << content;
  }
  // Follows every part of it, which kills or is wrong when its pages are not what was verified.
  static std::string all_of(const Model& model) {
    std::string all;
    for (std::uint32_t i = 0; i < model.items(); ++i) {
      all.append(model.id(i)).append(model.title(i)).append(model.author(i));
      std::vector<std::string_view> tags;
      model.tags(i, tags);
      for (const auto& tag : tags) all.append(tag);
      for (const Relation part : {Relation::kCf, Relation::kContent, Relation::kColdStart})
        for (const Neighbour& each : model.row(part, i))
          all.append(std::to_string(each.item)).append(std::to_string(each.weight));
    }
    return all;
  }
};

// What the process has mapped of files, by name.
std::string mapped() { return read_file("/proc/self/maps"); }

// While it lives, this process writes no more than so many bytes into one file: as on a full disk.
class Room {
 public:
  explicit Room(std::size_t bytes) {
    signal(SIGXFSZ, SIG_IGN);
    getrlimit(RLIMIT_FSIZE, &before_);
    const rlimit most{bytes, before_.rlim_max};
    setrlimit(RLIMIT_FSIZE, &most);
  }
  Room(const Room&) = delete;
  Room& operator=(const Room&) = delete;
  ~Room() { setrlimit(RLIMIT_FSIZE, &before_); }

 private:
  rlimit before_{};
};

}  // namespace

TEST_CASE_METHOD(Site, "a file that is overwritten in place changes nothing of what is served", "[model]") {
  REQUIRE(look());
  const auto first = served.current();
  const std::string before = Site::all_of(*first), good = bytes();
  std::string flipped = good;
  flipped[flipped.size() / 2] = static_cast<char>(flipped[flipped.size() / 2] ^ 1);
  const std::string garbage(good.size(), '\xff');
  for (const std::string& content : {garbage, flipped, good.substr(0, good.size() / 2), std::string()}) {
    INFO("overwritten with " << content.size() << " bytes");
    overwrite(content);
    CHECK_FALSE(look());
    CHECK(served.current() == first);
    CHECK(Site::all_of(*first) == before);
  }
  ActiveModel later;  // of a worker that starts now
  CHECK(later.update_from(shelf));
  CHECK(Site::all_of(*later.current()) == before);
  overwrite(good);
  CHECK(look());
  CHECK(Site::all_of(*served.current()) == before);
}

TEST_CASE_METHOD(Site, "without a keeper, too, what was opened stays as it was", "[model]") {
  REQUIRE(served.open(path));
  const std::string before = Site::all_of(*served.current());
  overwrite("");
  CHECK_FALSE(served.open(path));
  CHECK(Site::all_of(*served.current()) == before);
}

TEST_CASE_METHOD(Site, "what is mapped is a file without a name beside the original", "[model]") {
  REQUIRE(look());
  const std::string maps = mapped();
  CHECK(maps.find(path.string()) == std::string::npos);
  CHECK(maps.find(directory.path().string() + "/#") != std::string::npos);
  CHECK(std::distance(std::filesystem::directory_iterator(directory.path()), {}) == 1);
}

TEST_CASE_METHOD(Site, "a new file is served, one that is gone or of another version is not", "[model]") {
  REQUIRE(look());
  const auto first = served.current();
  CHECK(first->items() == 40);
  CHECK_FALSE(look());
  const std::string good = bytes();
  std::string older = good;
  older[8] = 0;
  overwrite(older);
  CHECK_FALSE(look());
  std::filesystem::remove(path);
  CHECK_FALSE(look());
  CHECK(served.current() == first);
  learn(30);
  CHECK(look());
  CHECK(served.current()->items() == 30);
  CHECK(first->items() == 40);
  CHECK(first->id(0) == "i1000");
}

TEST_CASE_METHOD(Site, "a file that is still being written is left alone", "[model]") {
  REQUIRE(look());
  const std::string good = bytes();
  for (int i = 0; i < 3; ++i) {
    overwrite(good.substr(0, 1000 + static_cast<std::size_t>(i)));
    keeper->poll(now);
  }
  overwrite(good);
  keeper->poll(now);
  CHECK_FALSE(served.update_from(shelf));
  keeper->poll(now);
  CHECK(served.update_from(shelf));
}

TEST_CASE_METHOD(Site, "a keeper that comes after another goes on with what lies there", "[model]") {
  REQUIRE(look());
  const auto number = shelf.peek()->id;
  keeper.emplace(path, shelf);
  look();
  CHECK(shelf.peek()->id == number);  // the same file: not copied again

  overwrite("rubbish");
  keeper.emplace(path, shelf);
  look();
  ActiveModel later;
  CHECK(later.update_from(shelf));
  CHECK(later.current()->items() == 40);

  std::filesystem::remove(path);
  keeper.emplace(path, shelf);
  look();
  REQUIRE(shelf.peek());
  CHECK_FALSE(shelf.peek()->has_model);
  CHECK_FALSE(ActiveModel().update_from(shelf));
  CHECK(later.current()->items() == 40);  // while it is served it stays
}

TEST_CASE_METHOD(Site, "another file's copy is not kept for one that is refused", "[model]") {
  REQUIRE(look());
  const auto other = directory.path() / "other.model";
  std::ofstream(other) << "rubbish";
  keeper.emplace(other, shelf);
  look();
  REQUIRE(shelf.peek());
  CHECK_FALSE(shelf.peek()->has_model);
}

TEST_CASE("without a file something is left all the same, so that nobody waits", "[model]") {
  const TemporaryDirectory directory;
  ModelHandoff shelf;
  CHECK_FALSE(shelf.peek());
  ModelPublisher(directory.path() / "none", shelf).poll({});
  REQUIRE(shelf.peek());
  CHECK_FALSE(shelf.peek()->has_model);
  shelf.wait_for_first(std::chrono::hours(1));  // returns at once
}

TEST_CASE_METHOD(Site, "a full disk keeps the model before, and is tried again", "[model]") {
  REQUIRE(look());
  learn(30);
  {
    const Room room(read_file_version(path).bytes - 1);
    const auto copy = copy_model(path);
    REQUIRE_FALSE(copy);
    CHECK(copy.error().reason == "model_no_space");
    CHECK_FALSE(look());
  }
  CHECK_FALSE(look());  // not at each look
  CHECK(served.current()->items() == 40);
  now += ModelPublisher::kRetryInterval;
  CHECK(look());
  CHECK(served.current()->items() == 30);
}

TEST_CASE_METHOD(Site, "where the folder takes no unnamed file the copy lies in memory, and says why",
                 "[model]") {
  const Descriptor file(open(path.c_str(), O_RDONLY | O_CLOEXEC));
  const std::string folder = "/proc/self/fd";
  const auto copy = copy_model(folder + "/" + std::to_string(file.get()));
  REQUIRE(copy);
  CHECK(copy->in_memory_reason.starts_with(folder));
  CHECK(copy->model->items() == 40);
  const auto beside = copy_model(path);
  REQUIRE(beside);
  CHECK(beside->in_memory_reason.empty());
}

TEST_CASE("what was left is seen by all, once each, and outlives who left it", "[model]") {
  Site site;
  const pid_t child = fork();
  if (child == 0) {
    site.keeper->poll({});
    _exit(0);
  }
  int status = -1;
  waitpid(child, &status, 0);
  REQUIRE(status == 0);
  ActiveModel one, other;
  for (ActiveModel* each : {&one, &other}) {
    CHECK(each->update_from(site.shelf));
    CHECK_FALSE(each->update_from(site.shelf));
    CHECK(each->current()->items() == 40);
  }
}
