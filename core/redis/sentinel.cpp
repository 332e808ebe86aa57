#include "core/redis/sentinel.h"

#include <string>
#include <utility>

#include "core/base/log.h"
#include "core/redis/blocking_redis.h"

namespace freshet::redis {
namespace {

constexpr milliseconds kPollInterval{1000};

Endpoint sentinel_endpoint(const Endpoint& endpoint, const Address& address) {
  Endpoint out;
  out.host = address.host;
  out.port = address.port;
  out.username = endpoint.sentinels.username;
  out.password = endpoint.sentinels.password;
  return out;
}

Pipeline master_query(const Endpoint& endpoint) {
  Pipeline out;
  out.add("SENTINEL", "get-master-addr-by-name", endpoint.sentinels.master_name);
  return out;
}

// Address in the reply; a name if the sentinels announce host names.
Result<Address> parse_master_address(const Reply& reply) {
  if (reply.is_error()) return tl::unexpected(classify(reply.error()));
  const auto host = reply[0].string(), port = reply[1].string();
  if (!host || !port)
    return fail(ErrorCode::kUnavailable, "sentinel_lookup_failed", {},
                "the sentinel does not know this master");
  return parse_address(host->find(':') == std::string_view::npos
                           ? std::string(*host) + ":" + std::string(*port)
                           : "[" + std::string(*host) + "]:" + std::string(*port));
}

Endpoint master_endpoint(Endpoint endpoint, const Address& master) {
  endpoint.host = master.host;
  endpoint.port = master.port;
  endpoint.unix_path.clear();
  endpoint.sentinels = {};
  return endpoint;
}

tl::unexpected<Error> no_master(const Endpoint& endpoint, const std::string& reason) {
  return fail(ErrorCode::kUnavailable, "sentinel_lookup_failed", {},
              "cannot resolve the master " + endpoint.sentinels.master_name + ": " + reason);
}

}  // namespace

Result<Endpoint> find_master(const Endpoint& endpoint, milliseconds timeout) {
  std::string why = "no sentinels are configured";
  for (const Address& each : endpoint.sentinels.addresses) {
    BlockingRedis sentinel(sentinel_endpoint(endpoint, each), timeout, {});
    const auto replies = sentinel.call(master_query(endpoint));
    const auto master = replies ? parse_master_address(replies->front()) : tl::unexpected(replies.error());
    if (master) return master_endpoint(endpoint, *master);
    why = each.host + ":" + std::to_string(each.port) + ": " + master.error().detail;
  }
  return no_master(endpoint, why);
}

SentinelResolver::SentinelResolver(EventLoop& loop, const ConnectionOptions& options)
    : endpoint_(options.endpoint), timer_(loop) {
  for (const Address& each : endpoint_.sentinels.addresses) {
    ConnectionOptions sentinel_options = options;
    sentinel_options.endpoint = sentinel_endpoint(endpoint_, each);
    sentinel_options.resolver = nullptr;
    sentinels_.push_back(
        std::make_unique<RedisConnection>(loop, std::move(sentinel_options), std::span<const Script>()));
  }
}

void SentinelResolver::start() {
  if (sentinels_.empty()) return;
  for (const auto& each : sentinels_) each->connect();
  schedule_poll();
}

void SentinelResolver::schedule_poll() {
  timer_.after(kPollInterval, [this] {
    spawn(poll(), [](std::exception_ptr) {});
    schedule_poll();
  });
}

Task<void> SentinelResolver::poll() {
  const auto found = co_await resolve();
  (void)found;  // update_master() has notified the listeners
}

void SentinelResolver::update_master(const Address& master) {
  if (master == master_) return;
  const bool moved = master_.port != 0;
  master_ = master;
  log::notice("sentinel_master_found", {{"address", master_.host + ":" + std::to_string(master_.port)}});
  if (moved) notify_listeners();
}

Task<Result<Endpoint>> SentinelResolver::resolve() {
  std::string why = "no sentinel answers";
  const Pipeline query = master_query(endpoint_);
  for (std::size_t i = 0; i < sentinels_.size(); ++i) {
    const std::size_t index = (last_responder_ + i) % sentinels_.size();
    RedisConnection& sentinel = *sentinels_[index];
    if (!sentinel.ready()) continue;
    const auto replies = co_await sentinel.run(query);
    if (!replies) continue;
    const auto master = parse_master_address(replies->front());
    if (!master) {
      why = master.error().detail;
      continue;
    }
    last_responder_ = index;
    lookup_failing_ = false;
    update_master(*master);
    co_return master_endpoint(endpoint_, master_);
  }
  auto failed = no_master(endpoint_, why);
  if (!std::exchange(lookup_failing_, true))
    log::warning("sentinel_lookup_failed", {{"error", failed.value().detail}});
  co_return failed;
}

}  // namespace freshet::redis
