// The publisher's copies and the processes that map them. A mapped model must not change, whatever
// happens to the file.
#include "core/model/model_publisher.h"

#include <fcntl.h>
#include <signal.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#include <fstream>

#include "core/model/active_model.h"
#include "tests/model/fixture.h"
#include "tests/support/error_of.h"
#include "tests/support/shared_files.h"

using namespace freshet;
using namespace freshet::model;
using namespace freshet::recommend;
using namespace freshet::training;
using namespace freshet::test;

namespace {

using Clock = ModelPublisher::Clock;

// A model file, its publisher and a process that uses the model. Time advances only on demand.
struct Site {
  TemporaryDirectory directory;
  std::filesystem::path path = directory.path() / "freshet.model";
  ModelHandoff handoff;
  std::optional<ModelPublisher> publisher;
  ActiveModel active;
  Clock::time_point now;

  Site() {
    train(40);
    publisher.emplace(path, handoff);
  }
  void train(std::uint32_t items) const {
    REQUIRE(write_model(train_model(make_training_data(60, items, 5)), path));
  }
  // Polls twice, because a changed file is copied only once it is stable. Returns true if the
  // active model changed.
  bool poll() {
    for (int i = 0; i < 2; ++i) {
      publisher->poll(now);
      now += std::chrono::milliseconds(500);
    }
    return active.update_from(handoff);
  }
  std::string bytes() const { return read_file(path); }
  // Overwrites in place, like cp: the same inode, truncated and rewritten.
  void overwrite(const std::string& content) const {
    std::ofstream(path, std::ios::binary | std::ios::trunc) << content;
  }
  // Reads all of the model. Crashes or returns something else if its pages are not what was
  // verified.
  static std::string contents_of(const Model& model) {
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

// The files that this process has mapped.
std::string mapped_files() { return read_file("/proc/self/maps"); }

// Limits the size of files that this process can write, to simulate a full disk.
class FileSizeLimit {
 public:
  explicit FileSizeLimit(std::size_t bytes) {
    signal(SIGXFSZ, SIG_IGN);
    getrlimit(RLIMIT_FSIZE, &before_);
    const rlimit limit{bytes, before_.rlim_max};
    setrlimit(RLIMIT_FSIZE, &limit);
  }
  FileSizeLimit(const FileSizeLimit&) = delete;
  FileSizeLimit& operator=(const FileSizeLimit&) = delete;
  ~FileSizeLimit() { setrlimit(RLIMIT_FSIZE, &before_); }

 private:
  rlimit before_{};
};

}  // namespace

TEST_CASE_METHOD(Site, "overwriting the file in place does not affect the active model", "[model]") {
  REQUIRE(poll());
  const auto first = active.current();
  const std::string before = Site::contents_of(*first), good = bytes();
  std::string flipped = good;
  flipped[flipped.size() / 2] = static_cast<char>(flipped[flipped.size() / 2] ^ 1);
  const std::string garbage(good.size(), '\xff');
  for (const std::string& content : {garbage, flipped, good.substr(0, good.size() / 2), std::string()}) {
    INFO("overwritten with " << content.size() << " bytes");
    overwrite(content);
    CHECK_FALSE(poll());
    CHECK(active.current() == first);
    CHECK(Site::contents_of(*first) == before);
  }
  ActiveModel later;  // like a worker that starts now
  CHECK(later.update_from(handoff));
  CHECK(Site::contents_of(*later.current()) == before);
  overwrite(good);
  CHECK(poll());
  CHECK(Site::contents_of(*active.current()) == before);
}

TEST_CASE_METHOD(Site, "a model opened without a publisher does not change either", "[model]") {
  REQUIRE(active.open(path));
  const std::string before = Site::contents_of(*active.current());
  overwrite("");
  CHECK_FALSE(active.open(path));
  CHECK(Site::contents_of(*active.current()) == before);
}

TEST_CASE_METHOD(Site, "the mapped file is unnamed and in the directory of the original", "[model]") {
  REQUIRE(poll());
  const std::string maps = mapped_files();
  CHECK(maps.find(path.string()) == std::string::npos);
  CHECK(maps.find(directory.path().string() + "/#") != std::string::npos);
  CHECK(std::distance(std::filesystem::directory_iterator(directory.path()), {}) == 1);
}

TEST_CASE_METHOD(Site, "a new file becomes active, a deleted one or one of another version does not",
                 "[model]") {
  REQUIRE(poll());
  const auto first = active.current();
  CHECK(first->items() == 40);
  CHECK_FALSE(poll());
  const std::string good = bytes();
  std::string older = good;
  older[8] = 0;
  overwrite(older);
  CHECK_FALSE(poll());
  std::filesystem::remove(path);
  CHECK_FALSE(poll());
  CHECK(active.current() == first);
  train(30);
  CHECK(poll());
  CHECK(active.current()->items() == 30);
  CHECK(first->items() == 40);
  CHECK(first->id(0) == "i1000");
}

TEST_CASE_METHOD(Site, "a file that is still being written is not copied", "[model]") {
  REQUIRE(poll());
  const std::string good = bytes();
  for (int i = 0; i < 3; ++i) {
    overwrite(good.substr(0, 1000 + static_cast<std::size_t>(i)));
    publisher->poll(now);
  }
  overwrite(good);
  publisher->poll(now);
  CHECK_FALSE(active.update_from(handoff));
  publisher->poll(now);
  CHECK(active.update_from(handoff));
}

TEST_CASE_METHOD(Site, "a new publisher continues with the current entry", "[model]") {
  REQUIRE(poll());
  const auto id = handoff.peek()->id;
  publisher.emplace(path, handoff);
  poll();
  CHECK(handoff.peek()->id == id);  // the same file: not copied again

  overwrite("rubbish");
  publisher.emplace(path, handoff);
  poll();
  ActiveModel later;
  CHECK(later.update_from(handoff));
  CHECK(later.current()->items() == 40);

  std::filesystem::remove(path);
  publisher.emplace(path, handoff);
  poll();
  REQUIRE(handoff.peek());
  CHECK_FALSE(handoff.peek()->has_model);
  CHECK_FALSE(ActiveModel().update_from(handoff));
  CHECK(later.current()->items() == 40);  // a model in use stays
}

TEST_CASE_METHOD(Site, "the copy of another file is not kept if the new file is refused", "[model]") {
  REQUIRE(poll());
  const auto other = directory.path() / "other.model";
  std::ofstream(other) << "rubbish";
  publisher.emplace(other, handoff);
  poll();
  REQUIRE(handoff.peek());
  CHECK_FALSE(handoff.peek()->has_model);
}

TEST_CASE("without a file an entry is put anyway, so that no process waits", "[model]") {
  const TemporaryDirectory directory;
  ModelHandoff handoff;
  CHECK_FALSE(handoff.peek());
  ModelPublisher(directory.path() / "none", handoff).poll({});
  REQUIRE(handoff.peek());
  CHECK_FALSE(handoff.peek()->has_model);
  handoff.wait_for_first(std::chrono::hours(1));  // returns at once
}

TEST_CASE_METHOD(Site, "a full disk keeps the old model, and copying is retried", "[model]") {
  REQUIRE(poll());
  train(30);
  {
    const FileSizeLimit limit(read_file_version(path).bytes - 1);
    const auto copy = copy_model(path);
    REQUIRE_FALSE(copy);
    CHECK(error_of(copy).reason == "model_no_space");
    CHECK_FALSE(poll());
  }
  CHECK_FALSE(poll());  // not at every poll
  CHECK(active.current()->items() == 40);
  now += ModelPublisher::kRetryInterval;
  CHECK(poll());
  CHECK(active.current()->items() == 30);
}

TEST_CASE_METHOD(Site, "if the directory does not support unnamed files, the copy is in memory with a reason",
                 "[model]") {
  const Descriptor file(open(path.c_str(), O_RDONLY | O_CLOEXEC));
  const std::string folder = "/proc/self/fd";
  const auto copy = copy_model(folder + "/" + std::to_string(file.get()));
  REQUIRE(copy);
  CHECK(copy->in_memory_reason.starts_with(folder));
  CHECK(copy->model->items() == 40);
  const auto with_file = copy_model(path);
  REQUIRE(with_file);
  CHECK(with_file->in_memory_reason.empty());
}

TEST_CASE("an entry reaches every process once and outlives its sender", "[model]") {
  Site site;
  const pid_t child = fork();
  if (child == 0) {
    site.publisher->poll({});
    _exit(0);
  }
  int status = -1;
  waitpid(child, &status, 0);
  REQUIRE(status == 0);
  ActiveModel one, other;
  for (ActiveModel* each : {&one, &other}) {
    CHECK(each->update_from(site.handoff));
    CHECK_FALSE(each->update_from(site.handoff));
    CHECK(each->current()->items() == 40);
  }
}
