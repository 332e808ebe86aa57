#include "scripts/ctl/check/visitor_contributions.h"

#include <fmt/format.h>

#include <algorithm>
#include <cctype>
#include <chrono>
#include <limits>
#include <unordered_map>
#include <unordered_set>

#include "core/base/json.h"
#include "core/base/secret.h"
#include "core/redis/scripts.h"
#include "fcgi/http/identity.h"
#include "scripts/ctl/check/key_names.h"
#include "scripts/ctl/commands/print.h"
#include "scripts/ctl/commands/progress.h"
#include "scripts/ctl/commands/redis_scan.h"

namespace freshet::ctl {
namespace {

constexpr std::size_t kNameWidth = 25;  // for visitor names; item ids may be longer

std::string reading_time(std::int64_t dwell_ms) { return format_duration(milliseconds(dwell_ms)); }

void print_header(const char* first) {
  ctl::print("{:<{}}  {:>10}  {:>10}  {:>10}  {:>12}  {:>10}\n", first, kNameWidth, "articles", "page views",
             "visitors", "reading", "views");
}

void print_row(std::string_view name, std::int64_t items, const hot::Contribution& added) {
  ctl::print("{:<{}}  {:>10}  {:>10}  {:>10}  {:>12}  {:>10}\n", name, kNameWidth, format_number(items),
             format_number(added.pv), format_number(added.uv), reading_time(added.dwell_ms),
             format_number(added.views));
}

// A row for a visitor has more columns than one for an article.
void print_visitor(const VisitorTotals& visitor) {
  const hot::Contribution& added = visitor.contribution;
  ctl::print("{:<{}}  {:>10}  {:>10}  {:>10}  {:>12}  {:>10}  {}\n", visitor.name, kNameWidth,
             format_number(visitor.items), format_number(added.pv), format_number(added.uv),
             reading_time(added.dwell_ms), format_number(added.views),
             visitor.network.empty() ? "-" : visitor.network);
}

hot::Contribution sum_contributions(const std::vector<hot::ItemContribution>& items) {
  hot::Contribution all;
  for (const hot::ItemContribution& each : items) all += each.contribution;
  return all;
}

void print_totals(const TopContributors& top) {
  ctl::print("{:<{}}  {:>10}  {:>10}  {:>10}  {:>12}  {:>10}  {}\n", "visitor", kNameWidth, "articles",
             "page views", "visitors", "reading", "views", "network");
  for (const VisitorTotals& each : top.visitors) print_visitor(each);
  ctl::print("\n{:<{}}  {:>10}  {:>10}  {:>10}  {:>12}  {:>10}\n", "network", kNameWidth, "contributors",
             "page views", "visitors", "reading", "views");
  for (const NetworkTotals& each : top.networks) print_row(each.name, each.visitors, each.contribution);
}

json::Writer& write_contribution(json::Writer& writer, const hot::Contribution& added) {
  writer.key("pv").integer(added.pv).key("uv").integer(added.uv);
  return writer.key("dwell_ms").integer(added.dwell_ms).key("views").integer(added.views);
}

// {visitors: [{visitor, articles, pv, uv, dwell_ms, views, network}],
//  networks: [{network, contributors, pv, uv, dwell_ms, views}]}
void print_totals_json(const TopContributors& top) {
  std::string out;
  json::Writer writer(out);
  writer.begin_object().key("visitors").begin_array();
  for (const VisitorTotals& each : top.visitors) {
    writer.begin_object().key("visitor").string(each.name).key("articles").integer(each.items);
    write_contribution(writer, each.contribution).key("network").string(each.network).end_object();
  }
  writer.end_array().key("networks").begin_array();
  for (const NetworkTotals& each : top.networks) {
    writer.begin_object().key("network").string(each.name).key("contributors").integer(each.visitors);
    write_contribution(writer, each.contribution).end_object();
  }
  print_json_line((writer.end_array().end_object(), out));
}

// Prints tables and lines as they come, or one JSON list at the end: [{visitor, articles, pv, uv,
// dwell_ms, views, unrecorded_per_article?, items: [{id, pv, …}]}].
class VisitorReport {
 public:
  // `max_unrecorded`: page views of an article, and views of it, that are not recorded per day and
  // host, so they cannot be reverted.
  explicit VisitorReport(bool json, int max_unrecorded = 0) : json_(json), max_unrecorded_(max_unrecorded) {
    if (json_) writer_.begin_array();
  }
  void items(std::string_view visitor, const std::vector<hot::ItemContribution>& items) {
    if (json_) return write(visitor, items);
    print_header(std::string(visitor).c_str());
    for (const hot::ItemContribution& each : items) print_row(each.item.view(), 1, each.contribution);
    print_row("total", static_cast<std::int64_t>(items.size()), sum_contributions(items));
  }
  void reverted(std::string_view visitor, const std::vector<hot::ItemContribution>& items) {
    if (json_) return write(visitor, items);
    const hot::Contribution all = sum_contributions(items);
    ctl::print("{}: reverted on {} articles: {} page views, {} visitors, {} of reading, {} views\n", visitor,
               format_number(static_cast<std::int64_t>(items.size())), format_number(all.pv),
               format_number(all.uv), reading_time(all.dwell_ms), format_number(all.views));
  }
  // Notes the contributions that were not recorded (below limits.contribution_after).
  void note_unrecorded() {
    if (!json_ && max_unrecorded_ > 0)
      ctl::print(
          "not reverted: up to {0} page views and {0} views of each article per day and host, which are not "
          "recorded, of a visitor or of a network's anonymous visitors together "
          "(limits.contribution_after)\n",
          max_unrecorded_);
  }
  void end() {
    if (json_) print_json_line((writer_.end_array(), out_));
  }

 private:
  void write(std::string_view visitor, const std::vector<hot::ItemContribution>& items) {
    writer_.begin_object().key("visitor").string(visitor);
    writer_.key("articles").integer(static_cast<std::int64_t>(items.size()));
    write_contribution(writer_, sum_contributions(items));
    if (max_unrecorded_ > 0) writer_.key("unrecorded_per_article").integer(max_unrecorded_);
    writer_.key("items").begin_array();
    for (const hot::ItemContribution& each : items) {
      writer_.begin_object().key("id").string(each.item.view());
      write_contribution(writer_, each.contribution).end_object();
    }
    writer_.end_array().end_object();
  }

  const bool json_;
  const int max_unrecorded_;
  std::string out_;
  json::Writer writer_{out_};
};

// A Redis connection with the settings it was opened by.
struct RedisSession {
  RedisSession(Settings loaded_settings, redis::Endpoint redis_endpoint)
      : settings(std::move(loaded_settings)), endpoint(std::move(redis_endpoint)) {}
  const Settings settings;
  const redis::Endpoint endpoint;
  redis::BlockingRedis redis{endpoint, kRedisTimeout, redis::kAllScripts};
  const redis::Keys keys{settings.redis};
};

Result<std::unique_ptr<RedisSession>> open(const Target& target) {
  FRESHET_TRY(settings, load_settings(target));
  if (settings->limits.contribution_ttl.count() == 0)
    return fail(ErrorCode::kInvalid, "contributions_disabled", {},
                "limits.contribution_ttl is 0: visitors' contributions are not recorded");
  FRESHET_TRY(endpoint, redis_endpoint(target, *settings));
  return std::make_unique<RedisSession>(std::move(*settings), std::move(*endpoint));
}

Result<http::Identity> load_visitor_identity(const IdentitySettings& settings) {
  if (settings.salt_file.empty())
    return fail(ErrorCode::kInvalid, "no_salt", {},
                "identity.salt_file is required to compute visitors' pseudonyms");
  FRESHET_TRY(salt, read_secret(settings.salt_file));
  return http::Identity::create(http::IdentityMode::kOpen, *salt);
}

}  // namespace

Result<std::vector<std::string>> resolve_visitors(const VisitorSelector& visitors, const Settings& settings) {
  std::vector<std::string> out;
  const auto add = [&out](const std::string& name) {
    if (std::ranges::find(out, name) == out.end()) out.push_back(name);
  };
  for (const std::string& name : visitors.names) {
    FRESHET_TRY(id, VisitorId::parse(name, "visitor"));
    add(id->str());
  }
  if (visitors.address.empty() != visitors.agent.empty())
    return fail(ErrorCode::kInvalid, "no_agent", {},
                "--address and --agent identify an anonymous visitor only together");
  if (visitors.readers.empty() && visitors.address.empty()) return out;
  FRESHET_TRY(identity, load_visitor_identity(settings.identity));
  for (const std::string& reader : visitors.readers) {
    FRESHET_TRY(id, ReaderId::parse(reader, "reader"));
    add(identity->visitor_for_reader(*id).str());
  }
  if (!visitors.address.empty()) {
    Request request;
    request.remote_addr = visitors.address;
    request.user_agent = visitors.agent;
    FRESHET_TRY(principal, identity->identify(request, {}, wall_now()));
    add(principal->stable_visitor.str());
  }
  return out;
}

Result<std::string> resolve_network(const std::string& network, const Settings& settings) {
  constexpr std::size_t kPseudonymSize = 22;
  const auto is_base64url = [](unsigned char c) { return std::isalnum(c) != 0 || c == '-' || c == '_'; };
  if (network.empty() || (network.size() == kPseudonymSize && std::ranges::all_of(network, is_base64url)))
    return network;
  const std::string address = network.substr(0, network.find('/')), prefix = http::network_prefix(address);
  const std::string_view mask = std::string_view(network).substr(address.size());
  if (prefix == address)
    return fail(ErrorCode::kInvalid, "bad_network", {},
                "--network must be an address, a network such as 192.0.2.0/24 or 2001:db8::/48, or as "
                "`freshetctl top-contributors` prints it");
  const std::string_view expected_mask = prefix.size() == 3 ? "/24" : "/48";
  if (!mask.empty() && mask != expected_mask)
    return fail(ErrorCode::kInvalid, "bad_network", {},
                fmt::format("--network: visitors are recorded by networks of /24 (IPv4) or /48 (IPv6); give "
                            "{}{}, and repeat the command for other networks",
                            address, expected_mask));
  FRESHET_TRY(identity, load_visitor_identity(settings.identity));
  return identity->network_pseudonym(address);
}

Result<TopContributors> top_contributors(redis::BlockingRedis& redis, const Settings& settings, int top,
                                         const std::string& network) {
  const auto limit = static_cast<std::size_t>(top);
  const auto keep_largest = [limit](auto& rows) {
    std::ranges::sort(rows, [](const auto& a, const auto& b) {
      const std::int64_t total_a = a.contribution.pv + a.contribution.views,
                         total_b = b.contribution.pv + b.contribution.views;
      return total_a != total_b ? total_a > total_b : a.name < b.name;
    });
    if (rows.size() > limit) rows.resize(limit);
  };
  const redis::Keys keys(settings.redis);
  TopContributors out;
  std::unordered_set<std::string> read;  // SCAN may return a key twice
  std::unordered_map<std::string, NetworkTotals> networks;
  auto scanned = scan_all(redis, "SCAN", "", [&](const std::vector<std::string>& page) -> Result<void> {
    redis::Pipeline query;
    std::vector<std::string> names;
    for (const std::string& key : page) {
      const auto name = keys.strip_prefix(key);
      const auto visitor = name ? strip_key_prefix(*name, "hot:added:") : std::nullopt;
      if (!visitor || !read.emplace(*visitor).second) continue;
      names.emplace_back(*visitor);
      query.add("HGETALL", key);
    }
    if (names.empty()) return {};
    FRESHET_TRY(replies, run_pipeline(redis, query));
    for (std::size_t i = 0; i < names.size(); ++i) {
      const auto items = hot::parse_contributions((*replies)[i]);
      std::string from(hot::parse_visitor_network((*replies)[i]));
      if (items.empty() || (!network.empty() && from != network)) continue;
      const hot::Contribution total = sum_contributions(items);
      if (!from.empty()) {
        NetworkTotals& of_network = networks[from];
        of_network.name = from;
        ++of_network.visitors;
        of_network.contribution += total;
      }
      out.visitors.push_back({names[i], std::move(from), static_cast<std::int64_t>(items.size()), total});
    }
    keep_largest(out.visitors);
    return {};
  });
  if (!scanned) return tl::unexpected(scanned.error());
  for (auto& [name, totals] : networks) out.networks.push_back(std::move(totals));
  keep_largest(out.networks);
  return out;
}

Result<int> run_top_contributors(const TopContributorsOptions& options, const Target& target) {
  FRESHET_TRY(session, open(target));
  RedisSession& s = **session;
  FRESHET_TRY(names, resolve_visitors(options.visitors, s.settings));
  if (names->empty()) {
    FRESHET_TRY(network, resolve_network(options.visitors.network, s.settings));
    const auto top = top_contributors(s.redis, s.settings, options.top, *network);
    if (!top) return tl::unexpected(with_redis_address(top.error(), s.endpoint));
    options.json ? print_totals_json(*top) : print_totals(*top);
    return 0;
  }
  VisitorReport report(options.json);
  for (const std::string& name : *names) {
    const auto items = redis::run_sync(hot::read_contributions(s.redis, s.keys, name));
    if (!items) return tl::unexpected(with_redis_address(items.error(), s.endpoint));
    report.items(name, *items);
  }
  report.end();
  return 0;
}

Result<int> run_revert_visitor(const RevertVisitorOptions& options, const Target& target) {
  FRESHET_TRY(session, open(target));
  RedisSession& s = **session;
  FRESHET_TRY(names, resolve_visitors(options.visitors, s.settings));
  if (!options.visitors.network.empty()) {
    FRESHET_TRY(network, resolve_network(options.visitors.network, s.settings));
    const auto all = top_contributors(s.redis, s.settings, std::numeric_limits<int>::max(), *network);
    if (!all) return tl::unexpected(with_redis_address(all.error(), s.endpoint));
    for (const VisitorTotals& each : all->visitors) names->push_back(each.name);
  } else if (names->empty())
    return fail(ErrorCode::kInvalid, "no_visitor", {}, "name a visitor; see --help");
  VisitorReport report(options.json, s.settings.limits.contribution_after);
  for (const std::string& name : *names) {
    const auto items = redis::run_sync(hot::read_contributions(s.redis, s.keys, name));
    if (!items) return tl::unexpected(with_redis_address(items.error(), s.endpoint));
    if (options.dry_run) {
      report.items(name, *items);
      continue;
    }
    std::vector<ItemId> ids;
    for (const hot::ItemContribution& each : *items) ids.push_back(each.item);
    const auto reverted = redis::run_sync(hot::revert_contributions(s.redis, s.settings, s.keys, name, ids));
    if (!reverted) return tl::unexpected(with_redis_address(reverted.error(), s.endpoint));
    report.reverted(name, *reverted);
  }
  report.note_unrecorded();
  report.end();
  return 0;
}

}  // namespace freshet::ctl
