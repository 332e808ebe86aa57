#include "scripts/ctl/check/visitors.h"

#include <fmt/format.h>

#include <algorithm>
#include <chrono>

#include "core/base/secret.h"
#include "core/redis/scripts.h"
#include "fcgi/http/identity.h"
#include "scripts/ctl/check/key_names.h"
#include "scripts/ctl/commands/progress.h"
#include "scripts/ctl/commands/redis_walk.h"

namespace freshet::ctl {
namespace {

constexpr std::size_t kNameWidth = 25;  // of a visitor; items may be longer

std::string spent(std::int64_t dwell_ms) { return in_words(milliseconds(dwell_ms)); }

void print_head(const char* first) {
  fmt::print("{:<{}}  {:>10}  {:>10}  {:>10}  {:>12}  {:>10}\n", first, kNameWidth, "articles", "page views",
             "visitors", "reading", "views");
}

void print_row(std::string_view name, std::int64_t items, const hot::Added& added) {
  fmt::print("{:<{}}  {:>10}  {:>10}  {:>10}  {:>12}  {:>10}\n", name, kNameWidth, grouped(items),
             grouped(added.pv), grouped(added.uv), spent(added.dwell_ms), grouped(added.views));
}

hot::Added sum(const std::vector<hot::AddedTo>& items) {
  hot::Added all;
  for (const hot::AddedTo& each : items) all += each.added;
  return all;
}

void print_items(std::string_view visitor, const std::vector<hot::AddedTo>& items) {
  print_head(fmt::format("{}", visitor).c_str());
  for (const hot::AddedTo& each : items) print_row(each.item.view(), 1, each.added);
  print_row("together", static_cast<std::int64_t>(items.size()), sum(items));
}

// A connection, and what is needed to ask over it.
struct Session {
  Session(Settings of, redis::Endpoint at) : settings(std::move(of)), endpoint(std::move(at)) {}
  const Settings settings;
  const redis::Endpoint endpoint;
  redis::SyncRedis redis{endpoint, kRedisTimeout, redis::kAllScripts};
  const redis::Keys keys{settings.redis.key_prefix};
};

Result<std::unique_ptr<Session>> open(const Target& target) {
  FRESHET_TRY(settings, settings_of(target));
  if (settings->limits.remember.count() == 0)
    return fail(ErrorCode::kInvalid, "not_remembered", {},
                "limits.remember is 0: it is not remembered what a visitor added");
  FRESHET_TRY(endpoint, redis_endpoint(target, *settings));
  return std::make_unique<Session>(std::move(*settings), std::move(*endpoint));
}

Result<http::Identity> identity_of(const IdentitySettings& settings) {
  if (settings.salt_file.empty())
    return fail(ErrorCode::kInvalid, "no_salt", {},
                "without identity.salt_file nobody can tell what the service calls a reader");
  FRESHET_TRY(salt, read_secret(settings.salt_file));
  return http::Identity::create(http::IdentityMode::kOpen, *salt);
}

}  // namespace

Result<std::vector<std::string>> resolve(const VisitorNames& visitors, const Settings& settings) {
  std::vector<std::string> out;
  const auto add = [&out](const std::string& name) {
    if (std::ranges::find(out, name) == out.end()) out.push_back(name);
  };
  for (const std::string& name : visitors.names) {
    FRESHET_TRY(id, VisitorId::parse(name, "visitor"));
    add(name);
  }
  if (visitors.address.empty() != visitors.agent.empty())
    return fail(ErrorCode::kInvalid, "no_agent", {},
                "an anonymous visitor is an address and a User-Agent together");
  if (visitors.readers.empty() && visitors.address.empty()) return out;
  FRESHET_TRY(identity, identity_of(settings.identity));
  for (const std::string& reader : visitors.readers) {
    FRESHET_TRY(id, ReaderId::parse(reader, "reader"));
    add(identity->visitor_of(*id).str());
  }
  if (!visitors.address.empty()) {
    Request request;
    request.remote_addr = visitors.address;
    request.user_agent = visitors.agent;
    FRESHET_TRY(who, identity->identify(request, {}, wall_now()));
    add(who->counted_as.str());
  }
  return out;
}

Result<std::vector<VisitorTotals>> top_visitors(redis::SyncRedis& redis, const Settings& settings, int top) {
  const auto most = static_cast<std::size_t>(top);
  const auto heavier = [](const VisitorTotals& a, const VisitorTotals& b) {
    const std::int64_t of_a = a.added.pv + a.added.views, of_b = b.added.pv + b.added.views;
    return of_a != of_b ? of_a > of_b : a.name < b.name;
  };
  std::vector<VisitorTotals> best;
  auto walked = walk(redis, "SCAN", "", [&](const std::vector<std::string>& found) -> Result<void> {
    redis::Pipeline look;
    std::vector<std::string> names;
    for (const std::string& key : found) {
      const auto plain = plain_name(key, settings.redis.key_prefix);
      const auto visitor = plain ? after(*plain, "hot:added:") : std::nullopt;
      if (!visitor) continue;
      names.emplace_back(*visitor);
      look.add("HGETALL", key);
    }
    if (names.empty()) return {};
    FRESHET_TRY(replies, ask(redis, look));
    for (std::size_t i = 0; i < names.size(); ++i) {
      const auto items = hot::read_added((*replies)[i]);
      if (items.empty() || std::ranges::find(best, names[i], &VisitorTotals::name) != best.end()) continue;
      best.push_back({names[i], static_cast<std::int64_t>(items.size()), sum(items)});
    }
    std::ranges::sort(best, heavier);
    if (best.size() > most) best.resize(most);
    return {};
  });
  if (!walked) return tl::unexpected(walked.error());
  return best;
}

Result<int> run_visitors(const VisitorsOptions& options, const Target& target) {
  FRESHET_TRY(session, open(target));
  Session& s = **session;
  FRESHET_TRY(names, resolve(options.visitors, s.settings));
  if (!names->empty()) {
    for (const std::string& name : *names) {
      const auto items = redis::wait(hot::added_by(s.redis, s.keys, name));
      if (!items) return tl::unexpected(at_redis(items.error(), s.endpoint));
      print_items(name, *items);
    }
    return 0;
  }
  const auto best = top_visitors(s.redis, s.settings, options.top);
  if (!best) return tl::unexpected(at_redis(best.error(), s.endpoint));
  print_head("visitor");
  for (const VisitorTotals& each : *best) print_row(each.name, each.items, each.added);
  return 0;
}

Result<int> run_purge(const PurgeOptions& options, const Target& target) {
  FRESHET_TRY(session, open(target));
  Session& s = **session;
  FRESHET_TRY(names, resolve(options.visitors, s.settings));
  if (names->empty()) return fail(ErrorCode::kInvalid, "no_visitor", {}, "whose counts? See --help");
  for (const std::string& name : *names) {
    const auto items = redis::wait(hot::added_by(s.redis, s.keys, name));
    if (!items) return tl::unexpected(at_redis(items.error(), s.endpoint));
    if (options.dry_run) {
      print_items(name, *items);
      continue;
    }
    std::vector<ItemId> ids;
    for (const hot::AddedTo& each : *items) ids.push_back(each.item);
    const auto done = redis::wait(hot::take_back(s.redis, s.settings, s.keys, name, ids));
    if (!done) return tl::unexpected(at_redis(done.error(), s.endpoint));
    const hot::Added all = sum(*done);
    fmt::print("{}: taken back from {} articles: {} page views, {} visitors, {} of reading, {} views\n", name,
               grouped(static_cast<std::int64_t>(done->size())), grouped(all.pv), grouped(all.uv),
               spent(all.dwell_ms), grouped(all.views));
  }
  return 0;
}

}  // namespace freshet::ctl
