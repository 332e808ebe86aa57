// Connections to host names. This program has its own getaddrinfo(), which the dynamic linker
// prefers to the C library's.
#include <netdb.h>

#include <catch2/catch.hpp>
#include <chrono>
#include <condition_variable>
#include <csignal>
#include <map>
#include <mutex>
#include <thread>

#include "core/redis/redis_connection.h"
#include "core/redis/sentinel.h"
#include "tests/support/fake_redis.h"
#include "tests/support/loop_thread.h"

using namespace freshet;
using namespace freshet::test;
using namespace freshet::redis;
using namespace std::chrono_literals;

namespace {

// The name server of this program.
struct Names {
  std::mutex mutex;
  std::condition_variable changed;
  std::map<std::string, std::vector<std::string>> addresses;  // a name without an entry does not exist
  bool hangs = false;
  int hanging = 0;  // lookups that wait for `hangs` to end
  int failed = 0;   // lookups of names that do not exist
  bool blocks_signals = true;

  void set(const std::string& name, std::vector<std::string> to) {
    const std::lock_guard lock(mutex);
    addresses[name] = std::move(to);
  }
  void set_hanging(bool on) {
    const std::lock_guard lock(mutex);
    hangs = on;
    changed.notify_all();
  }
  int count_failed() {
    const std::lock_guard lock(mutex);
    return failed;
  }
  int count_hanging() {
    const std::lock_guard lock(mutex);
    return hanging;
  }
};
Names& names() {
  static Names all;
  return all;
}

addrinfo* make_entry(const std::string& address, addrinfo* next) {
  auto* socket_address = new sockaddr_in{};
  socket_address->sin_family = AF_INET;
  inet_pton(AF_INET, address.c_str(), &socket_address->sin_addr);
  auto* entry = new addrinfo{};
  entry->ai_family = AF_INET;
  entry->ai_socktype = SOCK_STREAM;
  entry->ai_addr = reinterpret_cast<sockaddr*>(socket_address);
  entry->ai_addrlen = sizeof *socket_address;
  entry->ai_next = next;
  return entry;
}

}  // namespace

extern "C" int getaddrinfo(const char* host, const char* port, const addrinfo* /*hints*/, addrinfo** out) {
  std::unique_lock lock(names().mutex);
  sigset_t blocked;
  pthread_sigmask(SIG_SETMASK, nullptr, &blocked);
  const bool numeric = is_numeric_host(host);
  if (!numeric) {
    names().blocks_signals = names().blocks_signals && sigismember(&blocked, SIGTERM) == 1;
    ++names().hanging;
    names().changed.wait(lock, [] { return !names().hangs; });
    --names().hanging;
  }
  const auto found = names().addresses.find(host);
  if (!numeric && found == names().addresses.end()) {
    ++names().failed;
    return EAI_NONAME;
  }
  *out = nullptr;
  const std::vector<std::string> addresses = numeric ? std::vector<std::string>{host} : found->second;
  for (auto each = addresses.rbegin(); each != addresses.rend(); ++each) {
    *out = make_entry(*each, *out);
    if (port != nullptr)
      reinterpret_cast<sockaddr_in*>((*out)->ai_addr)->sin_port =
          htons(static_cast<std::uint16_t>(std::stoi(port)));
  }
  return 0;
}

extern "C" void freeaddrinfo(addrinfo* list) {
  while (list != nullptr) {
    delete reinterpret_cast<sockaddr_in*>(list->ai_addr);
    delete std::exchange(list, list->ai_next);
  }
}

namespace {

std::optional<std::string> answer(const FakeRedis::Command& command, int /*connection*/) {
  if (command[0] == "QUIT") return std::nullopt;  // closes the connection
  return command[0] == "PING" ? "+PONG\r\n" : "+" + command[0] + "\r\n";
}

// Listens on 127.0.0.`last` at `port`.
int listen_at(int last, int port) {
  const int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
  const int on = 1;
  setsockopt(fd, SOL_SOCKET, SO_REUSEADDR, &on, sizeof on);
  sockaddr_in address{};
  address.sin_family = AF_INET;
  address.sin_port = htons(static_cast<std::uint16_t>(port));
  address.sin_addr.s_addr = htonl(0x7f000000U + static_cast<unsigned>(last));
  if (bind(fd, reinterpret_cast<const sockaddr*>(&address), sizeof address) != 0 || listen(fd, 16) != 0)
    throw std::runtime_error("cannot listen");
  return fd;
}

// A loop with connections to `host`.
class Connections {
 public:
  ~Connections() {
    thread_.run_on_loop([&] { connections_.clear(); });
    thread_.stop();
    names().set_hanging(false);
  }
  RedisConnection& add(const std::string& host, int port) {
    return *thread_.run_on_loop([&] {
      ConnectionOptions options;
      options.endpoint.host = host;
      options.endpoint.port = port;
      options.timeout = 5s;
      options.breaker = {.failure_threshold = 3, .open_delay = 5ms, .closed_delay = 5ms, .max_delay = 50ms};
      connections_.push_back(
          std::make_unique<RedisConnection>(thread_.loop(), options, std::span<const Script>()));
      connections_.back()->connect();
      return connections_.back().get();
    });
  }
  bool wait_ready(RedisConnection& connection, bool wanted = true) {
    return eventually([&] { return thread_.run_on_loop([&] { return connection.ready(); }) == wanted; });
  }
  // The reply to a command, "error" without one.
  std::string run(RedisConnection& connection, const char* command) {
    std::promise<std::string> reply;
    thread_.run_on_loop([&] { spawn(run_into(connection, command, reply), [](std::exception_ptr) {}); });
    return reply.get_future().get();
  }
  template <class Predicate>
  bool eventually(Predicate predicate) {
    const auto deadline = std::chrono::steady_clock::now() + 30s;
    while (std::chrono::steady_clock::now() < deadline) {
      if (predicate()) return true;
      std::this_thread::yield();
    }
    return false;
  }

 private:
  static Task<void> run_into(RedisConnection& connection, const char* command,
                             std::promise<std::string>& reply) {
    Pipeline pipeline;
    pipeline.add(command);
    const auto replies = co_await connection.run(pipeline);
    reply.set_value(replies ? std::string(replies->front().text()) : "error");
  }

  LoopThread thread_;
  std::vector<std::unique_ptr<RedisConnection>> connections_;
};

}  // namespace

TEST_CASE("A name server that does not answer delays only connections to names", "[redis]") {
  int port = 0;
  FakeRedis server(listen_loopback(port), answer);
  names().set("redis.test", {"127.0.0.1"});
  names().set_hanging(true);
  Connections connections;
  RedisConnection& by_name = connections.add("redis.test", port);
  REQUIRE(connections.eventually([] { return names().count_hanging() == 1; }));
  RedisConnection& by_address = connections.add("127.0.0.1", port);
  REQUIRE(connections.wait_ready(by_address));
  CHECK(connections.run(by_address, "ECHO") == "ECHO");
  CHECK(connections.run(by_name, "ECHO") == "error");  // at once, as without a connection
  CHECK(names().count_hanging() == 1);                 // one lookup at a time per connection
  names().set_hanging(false);
  REQUIRE(connections.wait_ready(by_name));
  CHECK(connections.run(by_name, "ECHO") == "ECHO");
  CHECK(names().blocks_signals);
}

TEST_CASE("A connection can be destroyed while its lookup hangs", "[redis]") {
  names().set("redis.test", {"127.0.0.1"});
  names().set_hanging(true);
  {
    Connections connections;
    connections.add("redis.test", 1);
    REQUIRE(connections.eventually([] { return names().count_hanging() == 1; }));
  }  // the lookup ends after this
}

TEST_CASE("A name that moves to another address is followed at the next connection", "[redis]") {
  int port = 0;
  auto first = std::make_unique<FakeRedis>(listen_loopback(port), answer);
  FakeRedis second(listen_at(2, port), answer);
  names().set("redis.test", {"127.0.0.1"});
  Connections connections;
  RedisConnection& connection = connections.add("redis.test", port);
  REQUIRE(connections.wait_ready(connection));
  CHECK((first->connections() == 1 && second.connections() == 0));
  names().set("redis.test", {"127.0.0.2"});
  first.reset();  // closes the connection
  REQUIRE(connections.eventually([&] { return second.connections() == 1; }));
  REQUIRE(connections.wait_ready(connection));
}

TEST_CASE("A name with several addresses is tried at each of them", "[redis]") {
  int port = 0;
  ::close(listen_loopback(port));  // nothing listens on 127.0.0.1
  FakeRedis server(listen_at(3, port), answer);
  // Connecting to the broadcast address fails at once, as without a route.
  names().set("redis.test", {GENERATE("127.0.0.1", "127.255.255.255"), "127.0.0.3"});
  Connections connections;
  REQUIRE(connections.wait_ready(connections.add("redis.test", port)));
}

TEST_CASE("A name that does not exist yet is looked up again", "[redis]") {
  int port = 0;
  FakeRedis server(listen_loopback(port), answer);
  Connections connections;
  RedisConnection& connection = connections.add("later.test", port);
  CHECK(connections.run(connection, "ECHO") == "error");
  REQUIRE(connections.eventually([] { return names().count_failed() > 0; }));
  names().set("later.test", {"127.0.0.1"});
  REQUIRE(connections.wait_ready(connection));
}

TEST_CASE("A sentinel whose name is not resolved does not delay the others", "[redis]") {
  int port = 0;
  FakeRedis server(listen_loopback(port), [](const FakeRedis::Command& command, int connection) {
    if (command[0] != "SENTINEL") return answer(command, connection);
    return std::optional<std::string>("*2\r\n$11\r\nmaster.test\r\n$4\r\n6379\r\n");
  });
  names().set("sentinel.test", {"127.0.0.1"});
  names().set_hanging(true);
  Connections connections;  // ends the hanging
  LoopThread thread;
  ConnectionOptions options;
  options.endpoint.sentinels = {{{"sentinel.test", port}, {"127.0.0.1", port}}, "freshet", "", ""};
  auto resolver = std::make_unique<SentinelResolver>(thread.loop(), options);
  thread.run_on_loop([&] { resolver->start(); });
  const auto master = [&] {
    std::promise<std::string> host;
    const auto resolve = [&]() -> Task<void> {
      const auto found = co_await resolver->resolve();
      host.set_value(found ? found->host : "");
    };
    thread.run_on_loop([&] { spawn(resolve(), [](std::exception_ptr) {}); });
    return host.get_future().get();
  };
  REQUIRE(connections.eventually([&] { return master() == "master.test"; }));
  CHECK((names().count_hanging() == 1 && server.connections() == 1));
  names().set_hanging(false);
  CHECK(connections.eventually([&] { return server.connections() == 2; }));
  thread.run_on_loop([&] { resolver.reset(); });
}
