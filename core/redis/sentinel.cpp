#include "core/redis/sentinel.h"

#include <string>
#include <utility>

#include "core/base/log.h"
#include "core/redis/sync_redis.h"

namespace freshet::redis {
namespace {

constexpr milliseconds kAskAgain{1000};

Endpoint endpoint_of_sentinel(const Endpoint& endpoint, const Address& address) {
  Endpoint out;
  out.host = address.host;
  out.port = address.port;
  out.username = endpoint.sentinels.username;
  out.password = endpoint.sentinels.password;
  return out;
}

Pipeline question(const Endpoint& endpoint) {
  Pipeline out;
  out.add("SENTINEL", "get-master-addr-by-name", endpoint.sentinels.master);
  return out;
}

// The address in the answer. A name instead of one (announce-hostnames) would have to be looked up.
Result<Address> read_answer(const Reply& reply) {
  if (reply.is_error()) return tl::unexpected(classify(reply.error()));
  const auto host = reply[0].string(), port = reply[1].string();
  if (!host || !port) return fail(ErrorCode::kUnavailable, "redis_no_master", {}, "no master of that name");
  return parse_address(host->find(':') == std::string_view::npos
                           ? std::string(*host) + ":" + std::string(*port)
                           : "[" + std::string(*host) + "]:" + std::string(*port));
}

Endpoint at(Endpoint endpoint, const Address& master) {
  endpoint.host = master.host;
  endpoint.port = master.port;
  endpoint.unix_path.clear();
  endpoint.sentinels = {};
  return endpoint;
}

tl::unexpected<Error> nobody_knows(const Endpoint& endpoint, const std::string& why) {
  return fail(ErrorCode::kUnavailable, "redis_no_master", {},
              "no sentinel says where " + endpoint.sentinels.master + " is: " + why);
}

}  // namespace

Result<Endpoint> find_master(const Endpoint& endpoint, milliseconds timeout) {
  std::string why = "there are none";
  for (const Address& each : endpoint.sentinels.addresses) {
    SyncRedis sentinel(endpoint_of_sentinel(endpoint, each), timeout, {});
    const auto replies = sentinel.call(question(endpoint));
    const auto master = replies ? read_answer(replies->front()) : tl::unexpected(replies.error());
    if (master) return at(endpoint, *master);
    why = each.host + ":" + std::to_string(each.port) + ": " + master.error().detail;
  }
  return nobody_knows(endpoint, why);
}

MasterFinder::MasterFinder(EventLoop& loop, const LinkOptions& options)
    : endpoint_(options.endpoint), timer_(loop) {
  for (const Address& each : endpoint_.sentinels.addresses) {
    LinkOptions of_sentinel = options;
    of_sentinel.endpoint = endpoint_of_sentinel(endpoint_, each);
    of_sentinel.finder = nullptr;
    sentinels_.push_back(
        std::make_unique<RedisConnection>(loop, std::move(of_sentinel), std::span<const Script>()));
  }
}

void MasterFinder::start() {
  if (sentinels_.empty()) return;
  for (const auto& each : sentinels_) each->connect();
  schedule();
}

void MasterFinder::schedule() {
  timer_.after(kAskAgain, [this] {
    spawn(ask_again(), [](std::exception_ptr) {});
    schedule();
  });
}

Task<void> MasterFinder::ask_again() {
  const auto found = co_await find();
  (void)found;  // take() has told of a change
}

void MasterFinder::take(const Address& master) {
  if (master == master_) return;
  const bool moved = master_.port != 0;
  master_ = master;
  log::notice("redis_master", {{"address", master_.host + ":" + std::to_string(master_.port)}});
  if (moved) tell_all();
}

Task<Result<Endpoint>> MasterFinder::find() {
  std::string why = "none answers";
  const Pipeline asked = question(endpoint_);
  for (std::size_t i = 0; i < sentinels_.size(); ++i) {
    const std::size_t which = (answered_last_ + i) % sentinels_.size();
    RedisConnection& sentinel = *sentinels_[which];
    if (!sentinel.ready()) continue;
    const auto replies = co_await sentinel.run(asked);
    if (!replies) continue;
    const auto master = read_answer(replies->front());
    if (!master) {
      why = master.error().detail;
      continue;
    }
    answered_last_ = which;
    lost_ = false;
    take(*master);
    co_return at(endpoint_, master_);
  }
  auto failed = nobody_knows(endpoint_, why);
  if (!std::exchange(lost_, true)) log::warning("redis_no_master", {{"error", failed.value().detail}});
  co_return failed;
}

}  // namespace freshet::redis
