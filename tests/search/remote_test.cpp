// Recall over real xapian-tcpsrv servers.
#include <arpa/inet.h>
#include <fcntl.h>
#include <netinet/in.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include <chrono>
#include <csignal>
#include <optional>
#include <random>
#include <thread>

#include "core/search/index_folder.h"
#include "core/search/search_schema.h"
#include "tests/search/corpus.h"
#include "tests/support/error_of.h"
#include "tests/support/log_file.h"

using namespace freshet;
using namespace freshet::test;

namespace {

constexpr int kPort = 18080, kClaimPort = 18079;  // as in tests/support/loopback.py

sockaddr_in ipv4(const std::string& host, int port) {
  sockaddr_in address{};
  address.sin_family = AF_INET;
  REQUIRE(inet_pton(AF_INET, host.c_str(), &address.sin_addr) == 1);
  address.sin_port = htons(static_cast<std::uint16_t>(port));
  return address;
}

bool accepts_connections(const std::string& host, int port) {
  const int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
  const sockaddr_in address = ipv4(host, port);
  const bool connected = connect(fd, reinterpret_cast<const sockaddr*>(&address), sizeof address) == 0;
  close(fd);
  return connected;
}

// A loopback address with two ports, kPort and the next, that no other process claims during this
// object's lifetime.
class Loopback {
 public:
  Loopback() {
    std::random_device rng;
    const auto number = [&] { return std::to_string(1 + rng() % 254); };
    do {
      if (claim_fd_ >= 0) close(claim_fd_);
      host = "127." + number() + "." + number() + "." + number();
      claim_fd_ = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    } while (!try_claim() || accepts_connections(host, kPort) || accepts_connections(host, kPort + 1));
  }
  Loopback(const Loopback&) = delete;
  Loopback& operator=(const Loopback&) = delete;
  ~Loopback() { close(claim_fd_); }
  std::string host;

 private:
  bool try_claim() const {
    const sockaddr_in address = ipv4(host, kClaimPort);
    return bind(claim_fd_, reinterpret_cast<const sockaddr*>(&address), sizeof address) == 0;
  }
  int claim_fd_ = -1;
};

// One xapian-tcpsrv and its per-connection children, in a process group of their own.
class Server {
 public:
  Server(const std::string& index, const std::string& host, int port) {
    pid_ = fork();
    REQUIRE(pid_ >= 0);
    if (pid_ == 0) {
      setpgid(0, 0);
      dup2(open("/dev/null", O_WRONLY | O_CLOEXEC), STDERR_FILENO);  // it logs each connection that ends
      const std::string number = std::to_string(port);
      execlp("xapian-tcpsrv", "xapian-tcpsrv", "--quiet", "--interface", host.c_str(), "--port",
             number.c_str(), index.c_str(), nullptr);
      _exit(127);
    }
    setpgid(pid_, pid_);
    for (int i = 0; i < 1000 && !accepts_connections(host, port); ++i)
      std::this_thread::sleep_for(std::chrono::milliseconds(10));
    REQUIRE(accepts_connections(host, port));
  }
  Server(const Server&) = delete;
  Server& operator=(const Server&) = delete;
  ~Server() {
    signal_all(SIGKILL);
    waitpid(pid_, nullptr, 0);
  }
  void signal_all(int signal) const { ::kill(-pid_, signal); }

 private:
  pid_t pid_ = -1;
};

// A local index with all items, and two with half of them each, served remotely.
struct Fixture {
  TemporaryFolder folder;
  Settings whole, halves[2], shards;
  Loopback loopback;
  std::optional<Server> servers[2];
  Fixture() {
    whole.search.index = folder / "whole";
    for (int i = 0; i < 2; ++i) halves[i].search.index = folder / std::to_string(i);
    for (int i = 0; i < 2; ++i)
      shards.search.shards.push_back(loopback.host + ":" + std::to_string(kPort + i));
  }
  void serve(int shard) { servers[shard].emplace(halves[shard].search.index, loopback.host, kPort + shard); }
};

}  // namespace

TEST_CASE_METHOD(Fixture, "two shard servers return what one local index of the same items returns",
                 "[search]") {
  RandomItems random(11);
  std::vector<items::Item> all, half[2];
  for (int i = 0; i < 2000; ++i) {
    all.push_back(random.next());
    half[random.below(2)].push_back(all.back());
  }
  write_index(whole, all);
  for (int i = 0; i < 2; ++i) write_index(halves[i], half[i]), serve(i);
  feed::BlockingRecall local(whole), remote(shards);
  for (int round = 0; round < 15; ++round) {
    feed::RecallQuery query{random.words(1 + random.below(5)), {}, kNow, 1 + random.below(300)};
    if (round % 3 == 1) query.text.clear();
    if (round % 3 == 2) {
      query.text.clear();
      query.interests = {{all[random.below(2000)].id, 1.0}, {all[random.below(2000)].id, 0.5}};
    }
    const feed::RecallResult expected = run_search(local, query), got = run_search(remote, query);
    REQUIRE(got.candidates.size() == expected.candidates.size());
    CHECK(got.exhausted == expected.exhausted);
    for (std::size_t i = 0; i < got.candidates.size(); ++i) {
      REQUIRE(got.candidates[i].score == Approx(expected.candidates[i].score).epsilon(1e-9));
      const bool may_be_tie = got.candidates[i].score > 0;  // rounding may decide between ties
      if (!may_be_tie) REQUIRE(got.candidates[i].item == expected.candidates[i].item);
    }
  }
}

TEST_CASE_METHOD(Fixture, "a shard that dies is an error, and its return is detected", "[search]") {
  write_index(halves[0], {item("a", "whale")});
  write_index(halves[1], {item("b", "whale")});
  for (int i = 0; i < 2; ++i) serve(i);
  feed::BlockingRecall recall(shards);
  CHECK(run_search(recall, {"whale", {}, kNow, 10}).candidates.size() == 2);
  servers[1].reset();
  const auto failed = recall.search({"whale", {}, kNow, 10});
  REQUIRE_FALSE(failed.has_value());
  CHECK(error_of(failed).reason == "index_unavailable");
  serve(1);
  CHECK(run_search(recall, {"whale", {}, kNow, 10}).candidates.size() == 2);
}

TEST_CASE_METHOD(Fixture, "a shard that hangs is an error and does not block forever", "[search]") {
  write_index(halves[0], {item("a", "whale")});
  write_index(halves[1], {item("b", "whale")});
  for (int i = 0; i < 2; ++i) serve(i);
  feed::BlockingRecall recall(shards);
  servers[1]->signal_all(SIGSTOP);
  CHECK_FALSE(recall.search({"whale", {}, kNow, 10}).has_value());
  servers[1]->signal_all(SIGCONT);
  CHECK(run_search(recall, {"whale", {}, kNow, 10}).candidates.size() == 2);
}

TEST_CASE_METHOD(Fixture, "items written on a shard server are found, in old and new slices", "[search]") {
  write_index(halves[0], {item("a", "whale")});
  write_index(halves[1], {item("b", "whale")});
  for (int i = 0; i < 2; ++i) serve(i);
  feed::BlockingRecall recall(shards);
  CHECK(run_search(recall, {"whale", {}, kNow, 10}).candidates.size() == 2);
  write_index(halves[1], {item("c", "whale"), item("d", "whale", kNow - 100 * kDay)});
  bool all = false;
  for (int i = 0; i < 1000 && !all; ++i) {
    all = run_search(recall, {"whale", {}, kNow, 10}).candidates.size() == 4;
    std::this_thread::sleep_for(std::chrono::milliseconds(10));
  }
  CHECK(all);
}

TEST_CASE_METHOD(Fixture, "a shard with words of another version is searched and reported once", "[search]") {
  for (int i = 0; i < 2; ++i) write_index(halves[i], {item(std::to_string(i), "whale")}), serve(i);
  const search::IndexFolder index(halves[1].search.index);
  {
    Xapian::WritableDatabase slice(index.path_of(index.slices()->front()), Xapian::DB_OPEN);
    slice.set_metadata(search::kVersionKey, "an older version");
    slice.commit();
  }
  const LogFile log("warning");
  for (int i = 0; i < 2; ++i) {
    feed::BlockingRecall recall(shards);
    CHECK(run_search(recall, {"whale", {}, kNow, 10}).candidates.size() == 2);
  }
  const std::string lines = LogFile::lines(log.path());
  INFO(lines);
  const std::size_t first = lines.find("event=index_pipeline_mismatch shard=" + shards.search.shards[1]);
  REQUIRE(first != std::string::npos);
  CHECK(lines.find("index_pipeline_mismatch", first + 30) == std::string::npos);
  CHECK(lines.find("index_pipeline_mismatch") == first + 6);
}
