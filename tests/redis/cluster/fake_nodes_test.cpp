// ClusterRedis against scripted nodes: what real nodes rarely do, or never on demand.
#include <array>
#include <atomic>
#include <catch2/catch.hpp>
#include <chrono>
#include <future>
#include <memory>
#include <mutex>
#include <thread>

#include "core/redis/background.h"
#include "core/redis/cluster/cluster_redis.h"
#include "core/redis/redis_subscriber.h"
#include "tests/support/fake_redis.h"
#include "tests/support/loop_thread.h"

using namespace freshet;
using namespace freshet::test;
using namespace freshet::redis;
using namespace std::chrono_literals;

namespace {

constexpr std::array kScripts{Script{"one", "return 1", "e0e1f9fabfc9d4800c877a703b823ac0578ff8db"}};
const std::string kLow = "{fHh}", kHigh = "{apX}";  // hash to slots 0 and 16383
const std::string kSilence = "silence";             // an Answer: send nothing

std::string bulk(std::string_view text) {
  return "$" + std::to_string(text.size()) + "\r\n" + std::string(text) + "\r\n";
}

// Two masters; the first serves the lower half of the slots.
class Nodes {
 public:
  // An empty result means the default reply.
  using Answer = std::function<std::optional<std::string>(const FakeRedis::Command&)>;

  explicit Nodes(Answer first, Answer second = {}, milliseconds timeout = 10s, milliseconds budget = 10s)
      : answers_{std::move(first), std::move(second)} {
    std::array<int, 2> sockets{listen_loopback(ports_[0]), listen_loopback(ports_[1])};
    for (std::size_t i = 0; i < 2; ++i)
      servers_[i] = std::make_unique<FakeRedis>(
          sockets[i], [this, i](const FakeRedis::Command& command, int) { return answer(i, command); });
    options_.timeout = timeout;
    options_.retry_within = budget;
    options_.breaker = {.failure_threshold = 3, .open_delay = 5ms, .closed_delay = 5ms, .max_delay = 50ms};
    options_.endpoint.nodes = {{"127.0.0.1", ports_[0]}};
  }
  ~Nodes() {
    thread_.run_on_loop([&] { client_.reset(); });
    thread_.stop();
  }
  void connect() {
    thread_.run_on_loop([&] {
      client_ = std::make_unique<ClusterRedis>(thread_.loop(), options_, kScripts, map_refresh_interval);
      client_->connect();
    });
  }
  bool ready() {
    return thread_.run_on_loop([&] { return client_->ready(); });
  }
  void await_ready() {
    connect();
    const auto deadline = std::chrono::steady_clock::now() + 20s;
    while (!ready() && std::chrono::steady_clock::now() < deadline) std::this_thread::sleep_for(1ms);
    REQUIRE(ready());
  }
  // The first text of each reply, including errors.
  Result<std::vector<std::string>> run(Pipeline pipeline) {
    auto promise = std::make_shared<std::promise<Result<std::vector<std::string>>>>();
    auto future = promise->get_future();
    const auto shared_pipeline = std::make_shared<Pipeline>(std::move(pipeline));
    thread_.run_on_loop([&] { spawn(run_async(shared_pipeline, promise), [](std::exception_ptr) {}); });
    REQUIRE(future.wait_for(20s) == std::future_status::ready);
    return future.get();
  }
  Result<std::vector<std::string>> get(const std::string& key) {
    Pipeline pipeline;
    pipeline.add("GET", key);
    return run(std::move(pipeline));
  }
  std::string at(std::size_t node) const { return "127.0.0.1:" + std::to_string(ports_[node]); }
  // Number of times the node received this command.
  int count(std::size_t node, const std::string& name) {
    const std::lock_guard lock(mutex_);
    return static_cast<int>(std::ranges::count(received_[node], name));
  }
  std::vector<std::string> received(std::size_t node) {
    const std::lock_guard lock(mutex_);
    return received_[node];
  }
  ConnectionOptions& options() { return options_; }
  LoopThread& thread() { return thread_; }
  ClusterRedis& client() { return *client_; }
  std::atomic<int> owner_of_all{-1};  // -1: each has its half
  milliseconds map_refresh_interval{1000};

  std::string slots() const {
    const auto range = [&](int first, int last, std::size_t node) {
      return "*3\r\n:" + std::to_string(first) + "\r\n:" + std::to_string(last) + "\r\n*3\r\n" +
             bulk("127.0.0.1") + ":" + std::to_string(ports_[node]) + "\r\n" + bulk("id");
    };
    if (const int one = owner_of_all; one >= 0)
      return "*1\r\n" + range(0, 16383, static_cast<std::size_t>(one));
    return "*2\r\n" + range(0, 8191, 0) + range(8192, 16383, 1);
  }

 private:
  std::optional<std::string> answer(std::size_t node, const FakeRedis::Command& command) {
    {
      const std::lock_guard lock(mutex_);
      received_[node].push_back(command[0]);
    }
    if (answers_[node]) {
      const auto scripted = answers_[node](command);
      if (scripted == kSilence) return std::string();
      if (!scripted || !scripted->empty()) return scripted;
    }
    if (command[0] == "PING") return "+PONG\r\n";
    if (command[0] == "SCRIPT") return bulk(kScripts[0].sha1);
    if (command[0] == "CLUSTER") return slots();
    if (command[0] == "ASKING") return "+OK\r\n";
    return bulk(command[1] + " of " + std::to_string(node));
  }
  Task<void> run_async(std::shared_ptr<Pipeline> pipeline,
                       std::shared_ptr<std::promise<Result<std::vector<std::string>>>> promise) {
    const auto replies = co_await client_->run(*pipeline);
    if (!replies) {
      promise->set_value(tl::unexpected(replies.error()));
      co_return;
    }
    std::vector<std::string> out;
    for (const Reply& each : *replies) out.emplace_back(each.is_error() ? each.error() : each.text());
    promise->set_value(std::move(out));
  }

  std::array<Answer, 2> answers_;
  std::array<int, 2> ports_{};
  std::mutex mutex_;
  std::array<std::vector<std::string>, 2> received_;
  std::array<std::unique_ptr<FakeRedis>, 2> servers_;
  LoopThread thread_;
  ConnectionOptions options_;
  std::unique_ptr<ClusterRedis> client_;
};

using Texts = std::vector<std::string>;

template <class Predicate>
bool eventually(Predicate predicate) {
  const auto deadline = std::chrono::steady_clock::now() + 60s;
  while (std::chrono::steady_clock::now() < deadline) {
    if (predicate()) return true;
    std::this_thread::sleep_for(1ms);
  }
  return false;
}

}  // namespace

TEST_CASE("A pipeline over two nodes is answered in order, and both nodes have the scripts", "[cluster]") {
  Nodes nodes({});
  nodes.await_ready();
  Pipeline pipeline;
  pipeline.add("GET", kHigh).add("GET", kLow).add("GET", kHigh);
  CHECK(nodes.run(std::move(pipeline)) == Texts{kHigh + " of 1", kLow + " of 0", kHigh + " of 1"});
  CHECK(nodes.count(0, "SCRIPT") > 0);
  CHECK(nodes.count(1, "SCRIPT") > 0);
}

TEST_CASE("MOVED is followed and triggers a map refresh", "[cluster]") {
  std::atomic<Nodes*> self{nullptr};
  Nodes nodes([&](const auto& command) {
    return command[0] == "GET" ? "-MOVED 0 " + self.load()->at(1) + "\r\n" : std::string();
  });
  self = &nodes;
  nodes.map_refresh_interval = 1h;
  nodes.await_ready();
  const auto map_requests = [&] { return nodes.count(0, "CLUSTER") + nodes.count(1, "CLUSTER"); };
  const int before = map_requests();
  const auto deadline = std::chrono::steady_clock::now() + 20s;
  while (map_requests() == before && std::chrono::steady_clock::now() < deadline)
    CHECK(nodes.get(kLow) == Texts{kLow + " of 1"});
  CHECK(map_requests() > before);
}

TEST_CASE("ASK sends ASKING and the command to the other node on one connection", "[cluster]") {
  std::atomic<Nodes*> self{nullptr};
  std::atomic<bool> asking{false};
  Nodes nodes(
      [&](const auto& command) {
        return command[0] == "GET" ? "-ASK 0 " + self.load()->at(1) + "\r\n" : std::string();
      },
      [&](const auto& command) -> std::string {
        if (command[0] == "ASKING") asking = true;
        if (command[0] != "GET") return {};
        return asking.exchange(false) ? bulk("asked") : "-MOVED 0 " + self.load()->at(0) + "\r\n";
      });
  self = &nodes;
  nodes.await_ready();
  CHECK(nodes.get(kLow) == Texts{"asked"});
  CHECK(nodes.count(0, "GET") == 1);
  CHECK(nodes.count(1, "GET") == 1);
}

TEST_CASE("TRYAGAIN is retried with growing delays", "[cluster]") {
  std::atomic<int> refusals{4};
  Nodes nodes([&](const auto& command) {
    return command[0] == "GET" && refusals-- > 0 ? std::string("-TRYAGAIN Multiple keys request\r\n")
                                                 : std::string();
  });
  nodes.await_ready();
  CHECK(nodes.get(kLow) == Texts{kLow + " of 0"});
  CHECK(nodes.count(0, "GET") == 5);
}

TEST_CASE("TRYAGAIN is returned once the retry budget is spent", "[cluster]") {
  Nodes nodes(
      [](const auto& command) {
        return command[0] == "GET" ? std::string("-TRYAGAIN Multiple keys request\r\n") : std::string();
      },
      {}, 10s, 40ms);
  nodes.await_ready();
  const auto reply = nodes.get(kLow);
  REQUIRE(reply);
  CHECK(classify(reply->front()).reason == "redis_tryagain");
  CHECK(nodes.count(0, "GET") > 1);
  CHECK(nodes.count(0, "GET") < 8);  // the delay doubles each time
}

TEST_CASE("CLUSTERDOWN of one node does not affect the others", "[cluster]") {
  Nodes nodes([](const auto& command) {
    return command[0] == "GET" ? std::string("-CLUSTERDOWN The cluster is down\r\n") : std::string();
  });
  nodes.await_ready();
  Pipeline pipeline;
  pipeline.add("GET", kLow).add("GET", kHigh);
  CHECK(nodes.run(std::move(pipeline)) == Texts{"CLUSTERDOWN The cluster is down", kHigh + " of 1"});
  CHECK(nodes.count(0, "GET") == 1);
}

TEST_CASE("A command whose reply is cut off is not sent again, and the other node's reply is kept",
          "[cluster]") {
  // Part of a reply, then the connection ends.
  std::atomic<bool> torn{false};
  Nodes nodes([&](const auto& command) -> std::optional<std::string> {
    if (torn) return std::nullopt;
    if (command[0] != "GET") return std::string();
    torn = true;
    return std::string("$100\r\nhalf");
  });
  nodes.await_ready();
  Pipeline pipeline;
  pipeline.add("GET", kLow).add("GET", kHigh).add("GET", kLow);
  const auto replies = nodes.run(std::move(pipeline));
  REQUIRE(replies);
  CHECK(classify((*replies)[0]).code == ErrorCode::kUnknownOutcome);
  CHECK((*replies)[1] == kHigh + " of 1");
  CHECK(classify((*replies)[2]).code == ErrorCode::kUnknownOutcome);
  CHECK(nodes.count(0, "GET") <= 2);
}

TEST_CASE("A silent node costs its commands a deadline and does not delay the others", "[cluster]") {
  std::atomic<bool> silent{false};
  Nodes nodes([&](const auto&) { return silent ? kSilence : std::string(); }, {}, 200ms);
  nodes.await_ready();
  silent = true;
  CHECK(nodes.get(kHigh) == Texts{kHigh + " of 1"});
  const auto timed_out = nodes.get(kLow);
  REQUIRE_FALSE(timed_out);
  CHECK(is_unavailable(timed_out.error()));
  CHECK(nodes.get(kHigh) == Texts{kHigh + " of 1"});
  CHECK(nodes.ready());
}

TEST_CASE("One reachable node of redis.url is enough", "[cluster]") {
  Nodes nodes({});
  int closed_port = 0;
  ::close(listen_loopback(closed_port));
  nodes.options().endpoint.nodes.insert(nodes.options().endpoint.nodes.begin(),
                                        {{"127.0.0.1", closed_port}, {"127.0.0.1", closed_port}});
  nodes.await_ready();
  CHECK(nodes.get(kHigh) == Texts{kHigh + " of 1"});
}

TEST_CASE("Commands after a barrier wait for the replies before it", "[cluster]") {
  std::atomic<int> first{0};
  std::atomic<bool> passed{false};
  Nodes nodes(
      [&](const auto& command) -> std::string {
        if (command[0] != "SET") return {};
        return ++first < 3 ? "-TRYAGAIN Multiple keys request\r\n" : "+OK\r\n";
      },
      [&](const auto& command) -> std::string {
        if (command[0] == "GET" && first < 3) passed = true;
        return {};
      });
  nodes.await_ready();
  Pipeline pipeline;
  pipeline.add("SET", kLow, 1).barrier().add("GET", kHigh);
  CHECK(nodes.run(std::move(pipeline)) == Texts{"OK", kHigh + " of 1"});
  CHECK_FALSE(passed);
}

TEST_CASE("Events for a node that does not answer are spooled, and the other node's commands succeed",
          "[cluster]") {
  std::atomic<bool> silent{true};
  Nodes nodes([&](const auto& command) { return command[0] == "SET" && silent ? kSilence : std::string(); },
              {}, 200ms);
  nodes.connect();
  const TemporaryDirectory directory;
  std::vector<std::string> applied;
  BackgroundOptions options{.spool_directory = directory.path(), .scan_interval = 10ms};
  options.apply = [&](const auto& fields) -> Task<Result<void>> {
    if (silent) co_return fail(ErrorCode::kUnavailable, "redis_unavailable");
    applied.emplace_back(fields[0]);
    co_return Result<void>();
  };
  std::unique_ptr<BackgroundWriter> writer;
  const auto on_loop = [&](auto work) { return nodes.thread().run_on_loop(work); };
  on_loop([&] {
    writer = std::make_unique<BackgroundWriter>(
        nodes.thread().loop(),
        std::make_unique<ClusterRedis>(nodes.thread().loop(), nodes.options(), kScripts), options);
    writer->start();
  });
  const auto post = [&](std::vector<std::string> keys, const char* event) {
    Pipeline pipeline;
    for (const std::string& each : keys) pipeline.add("SET", each, 1);
    return writer->post(std::move(pipeline), {SpoolRecord(event)});
  };
  // Before the client is ready everything is spooled.
  REQUIRE(eventually([&] {
    return on_loop([&] {
      const auto spooled = writer->counters().spooled;
      return post({kHigh}, "first") && writer->counters().spooled == spooled;
    });
  }));
  REQUIRE(eventually([&] { return on_loop([&] { return writer->counters().accepted == 1; }); }));
  const auto before = on_loop([&] { return writer->counters().spooled; });
  on_loop([&] {
    post({kLow, kHigh}, "both");  // sent at once; the other two follow when it is answered
    post({kLow}, "low");
    post({kHigh}, "high");
  });
  CHECK(eventually([&] { return on_loop([&] { return writer->counters().spooled == before + 2; }); }));
  CHECK(eventually([&] { return on_loop([&] { return writer->counters().accepted == 3; }); }));
  CHECK(on_loop([&] { return writer->counters().dropped; }) == 0);
  silent = false;
  CHECK(eventually([&] { return on_loop([&] { return applied.size() == before + 2; }); }));
  on_loop([&] {
    CHECK(std::ranges::count(applied, "low") == 1);
    CHECK(std::ranges::count(applied, "both") == 1);
    CHECK(std::ranges::count(applied, "high") == 0);
    writer.reset();
  });
}

namespace {

// Counts messages and subscriptions.
struct CountingSubscriber {
  explicit CountingSubscriber(Nodes& nodes) : nodes_(nodes) {
    nodes.thread().run_on_loop([&] {
      ConnectionOptions options = nodes.options();
      options.resolver = nodes.client().resolver();
      subscriber_ =
          std::make_unique<RedisSubscriber>(nodes.thread().loop(), options, "news",
                                            SubscriberCallbacks{[this](std::string_view) { ++messages; },
                                                                [this] { ++subscriptions; }, [](auto) {}});
      subscriber_->connect();
    });
  }
  ~CountingSubscriber() {
    nodes_.thread().run_on_loop([&] { subscriber_.reset(); });
  }
  std::atomic<int> messages{0}, subscriptions{0};

 private:
  Nodes& nodes_;
  std::unique_ptr<RedisSubscriber> subscriber_;
};

const std::string kSubscribed = "*3\r\n" + bulk("subscribe") + bulk("news") + ":1\r\n";
const std::string kMessage = "*3\r\n" + bulk("message") + bulk("news") + bulk("text");

}  // namespace

TEST_CASE("A subscriber moves to another node when its node is silent", "[cluster]") {
  std::atomic<int> first{-1};
  const auto node = [&](int index) {
    return [&first, index](const FakeRedis::Command& command) {
      int expected = -1;
      if (command[0] != "SUBSCRIBE") return std::string();
      if (first.compare_exchange_strong(expected, index) || expected == index) return kSilence;
      return kSubscribed + kMessage;
    };
  };
  Nodes nodes(node(0), node(1));
  nodes.await_ready();
  const CountingSubscriber subscriber(nodes);
  CHECK(eventually([&] { return subscriber.messages > 0; }));
  CHECK(first >= 0);
}

TEST_CASE("A subscriber moves to another node when its node leaves the cluster", "[cluster]") {
  std::atomic<int> subscribed_node{-1};
  const auto node = [&](int index) {
    return [&subscribed_node, index](const FakeRedis::Command& command) {
      if (command[0] != "SUBSCRIBE") return std::string();
      subscribed_node = index;
      return kSubscribed;
    };
  };
  Nodes nodes(node(0), node(1));
  nodes.map_refresh_interval = 10ms;
  nodes.await_ready();
  const CountingSubscriber subscriber(nodes);
  REQUIRE(eventually([&] { return subscriber.subscriptions == 1; }));
  const int left = subscribed_node, other = 1 - left;
  nodes.owner_of_all = other;
  CHECK(eventually([&] { return subscribed_node == other; }));
  CHECK(eventually([&] { return subscriber.subscriptions == 2; }));
}
