#include "scripts/ctl/check/visitors.h"

#include <fmt/format.h>

#include <algorithm>
#include <chrono>
#include <limits>

#include "core/base/json.h"
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

void print_row(std::string_view name, std::int64_t items, const hot::Contribution& added) {
  fmt::print("{:<{}}  {:>10}  {:>10}  {:>10}  {:>12}  {:>10}\n", name, kNameWidth, grouped(items),
             grouped(added.pv), grouped(added.uv), spent(added.dwell_ms), grouped(added.views));
}

// Of visitors, whom more is known of than of articles.
void print_visitor(const VisitorTotals& visitor) {
  const hot::Contribution& added = visitor.added;
  fmt::print("{:<{}}  {:>10}  {:>10}  {:>10}  {:>12}  {:>10}  {:>10}  {}\n", visitor.name, kNameWidth,
             grouped(visitor.items), grouped(added.pv), grouped(added.uv), spent(added.dwell_ms),
             grouped(added.views), grouped(visitor.from.uncounted_events),
             visitor.from.network.empty() ? "-" : visitor.from.network);
}

hot::Contribution sum(const std::vector<hot::ItemContribution>& items) {
  hot::Contribution all;
  for (const hot::ItemContribution& each : items) all += each.contribution;
  return all;
}

// What is said of visitors: tables and lines as they come, or one list of JSON at the end:
// [{visitor, articles, pv, uv, dwell_ms, views, not_remembered_max?, items?: [{id, pv, …}]}].
class Report {
 public:
  // `not_remembered_max`: reports a day and host that stay when a visitor's are taken back.
  explicit Report(bool json, int not_remembered_max = 0)
      : json_(json), not_remembered_max_(not_remembered_max) {
    if (json_) writer_.begin_array();
  }
  void totals(const std::vector<VisitorTotals>& all) {
    if (!json_)
      fmt::print("{:<{}}  {:>10}  {:>10}  {:>10}  {:>12}  {:>10}  {:>10}  {}\n", "visitor", kNameWidth,
                 "articles", "page views", "visitors", "reading", "views", "beyond", "network");
    for (const VisitorTotals& each : all) {
      if (json_) {
        begin(each.name, each.items, each.added).key("beyond").integer(each.from.uncounted_events);
        writer_.key("network").string(each.from.network).end_object();
      } else {
        print_visitor(each);
      }
    }
  }
  void items(std::string_view visitor, const std::vector<hot::ItemContribution>& items) {
    if (json_) return write(visitor, items);
    print_head(std::string(visitor).c_str());
    for (const hot::ItemContribution& each : items) print_row(each.item.view(), 1, each.contribution);
    print_row("together", static_cast<std::int64_t>(items.size()), sum(items));
  }
  void taken_back(std::string_view visitor, const std::vector<hot::ItemContribution>& items) {
    if (json_) return write(visitor, items);
    const hot::Contribution all = sum(items);
    fmt::print("{}: taken back from {} articles: {} page views, {} visitors, {} of reading, {} views\n",
               visitor, grouped(static_cast<std::int64_t>(items.size())), grouped(all.pv), grouped(all.uv),
               spent(all.dwell_ms), grouped(all.views));
  }
  // What was added before it was remembered.
  void not_remembered() {
    if (!json_ && not_remembered_max_ > 0)
      fmt::print(
          "up to {} reports of each day, visitor (or network of those who are not signed in) and host "
          "stay: limits.remember_after\n",
          not_remembered_max_);
  }
  void end() {
    if (json_) fmt::print("{}\n", (writer_.end_array(), out_));
  }

 private:
  json::Writer& begin(std::string_view visitor, std::int64_t articles, const hot::Contribution& added) {
    writer_.begin_object().key("visitor").string(visitor).key("articles").integer(articles);
    return write(added);
  }
  json::Writer& write(const hot::Contribution& added) {
    writer_.key("pv").integer(added.pv).key("uv").integer(added.uv);
    return writer_.key("dwell_ms").integer(added.dwell_ms).key("views").integer(added.views);
  }
  void write(std::string_view visitor, const std::vector<hot::ItemContribution>& items) {
    begin(visitor, static_cast<std::int64_t>(items.size()), sum(items));
    if (not_remembered_max_ > 0) writer_.key("not_remembered_max").integer(not_remembered_max_);
    writer_.key("items").begin_array();
    for (const hot::ItemContribution& each : items) {
      writer_.begin_object().key("id").string(each.item.view());
      write(each.contribution).end_object();
    }
    writer_.end_array().end_object();
  }

  const bool json_;
  const int not_remembered_max_;
  std::string out_;
  json::Writer writer_{out_};
};

// A connection, and what is needed to ask over it.
struct Session {
  Session(Settings of, redis::Endpoint at) : settings(std::move(of)), endpoint(std::move(at)) {}
  const Settings settings;
  const redis::Endpoint endpoint;
  redis::BlockingRedis redis{endpoint, kRedisTimeout, redis::kAllScripts};
  const redis::Keys keys{settings.redis};
};

Result<std::unique_ptr<Session>> open(const Target& target) {
  FRESHET_TRY(settings, settings_of(target));
  if (settings->limits.contribution_ttl.count() == 0)
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
    add(identity->visitor_for_reader(*id).str());
  }
  if (!visitors.address.empty()) {
    Request request;
    request.remote_addr = visitors.address;
    request.user_agent = visitors.agent;
    FRESHET_TRY(who, identity->identify(request, {}, wall_now()));
    add(who->stable_visitor.str());
  }
  return out;
}

Result<std::string> resolve_network(const std::string& network, const Settings& settings) {
  const std::string address = network.substr(0, network.find('/'));
  if (http::network_prefix(address) == address) return network;  // no address: as it is printed
  FRESHET_TRY(identity, identity_of(settings.identity));
  return identity->network_pseudonym(address);
}

Result<std::vector<VisitorTotals>> top_visitors(redis::BlockingRedis& redis, const Settings& settings, int top,
                                                const std::string& network) {
  const auto most = static_cast<std::size_t>(top);
  const auto heavier = [](const VisitorTotals& a, const VisitorTotals& b) {
    const std::int64_t of_a = a.added.pv + a.added.views, of_b = b.added.pv + b.added.views;
    return of_a != of_b ? of_a > of_b : a.name < b.name;
  };
  const redis::Keys keys(settings.redis);
  std::vector<VisitorTotals> best;
  auto walked = walk(redis, "SCAN", "", [&](const std::vector<std::string>& found) -> Result<void> {
    redis::Pipeline look;
    std::vector<std::string> names;
    for (const std::string& key : found) {
      const auto plain = keys.strip_prefix(key);
      const auto visitor = plain ? after(*plain, "hot:added:") : std::nullopt;
      if (!visitor) continue;
      names.emplace_back(*visitor);
      look.add("HGETALL", key);
    }
    if (names.empty()) return {};
    FRESHET_TRY(replies, ask(redis, look));
    for (std::size_t i = 0; i < names.size(); ++i) {
      const auto items = hot::parse_contributions((*replies)[i]);
      auto from = hot::parse_visitor_origin((*replies)[i]);
      if (!network.empty() && from.network != network) continue;
      if (items.empty() || std::ranges::find(best, names[i], &VisitorTotals::name) != best.end()) continue;
      best.push_back({names[i], std::move(from), static_cast<std::int64_t>(items.size()), sum(items)});
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
  Report report(options.json);
  for (const std::string& name : *names) {
    const auto items = redis::run_sync(hot::read_contributions(s.redis, s.keys, name));
    if (!items) return tl::unexpected(at_redis(items.error(), s.endpoint));
    report.items(name, *items);
  }
  if (names->empty()) {
    FRESHET_TRY(network, resolve_network(options.visitors.network, s.settings));
    const auto best = top_visitors(s.redis, s.settings, options.top, *network);
    if (!best) return tl::unexpected(at_redis(best.error(), s.endpoint));
    report.totals(*best);
  }
  report.end();
  return 0;
}

Result<int> run_purge(const PurgeOptions& options, const Target& target) {
  FRESHET_TRY(session, open(target));
  Session& s = **session;
  FRESHET_TRY(names, resolve(options.visitors, s.settings));
  if (!options.visitors.network.empty()) {
    FRESHET_TRY(network, resolve_network(options.visitors.network, s.settings));
    const auto all = top_visitors(s.redis, s.settings, std::numeric_limits<int>::max(), *network);
    if (!all) return tl::unexpected(at_redis(all.error(), s.endpoint));
    for (const VisitorTotals& each : *all) names->push_back(each.name);
  } else if (names->empty())
    return fail(ErrorCode::kInvalid, "no_visitor", {}, "whose counts? See --help");
  Report report(options.json, 2 * s.settings.limits.contribution_after);
  for (const std::string& name : *names) {
    const auto items = redis::run_sync(hot::read_contributions(s.redis, s.keys, name));
    if (!items) return tl::unexpected(at_redis(items.error(), s.endpoint));
    if (options.dry_run) {
      report.items(name, *items);
      continue;
    }
    std::vector<ItemId> ids;
    for (const hot::ItemContribution& each : *items) ids.push_back(each.item);
    const auto done = redis::run_sync(hot::revert_contributions(s.redis, s.settings, s.keys, name, ids));
    if (!done) return tl::unexpected(at_redis(done.error(), s.endpoint));
    report.taken_back(name, *done);
  }
  report.not_remembered();
  report.end();
  return 0;
}

}  // namespace freshet::ctl
