#include "scripts/ctl/commands/tune.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cmath>
#include <cstring>
#include <numeric>
#include <type_traits>
#include <utility>

#include "core/base/descriptor.h"
#include "core/base/secret.h"
#include "core/config/tuning.h"
#include "core/redis/fields.h"
#include "scripts/ctl/commands/json_report.h"
#include "scripts/ctl/commands/owner.h"
#include "scripts/ctl/commands/print.h"
#include "scripts/ctl/commands/progress.h"
#include "scripts/ctl/commands/tune_feed.h"

namespace freshet::ctl {
namespace {

using tuning::Estimate;
using tuning::FeedDecision;
using tuning::FixedFeedValues;
using tuning::HotDecision;
using tuning::HotScores;
using tuning::HotValues;
using tuning::ViewHistory;

constexpr std::string_view kValues = "[values]\n", kEnd = "# end ";
constexpr std::string_view kCreated = "\ncreated = ";

// The values in a tuned file, as text.
std::string_view values_of(std::string_view text) {
  const auto from = text.find(kValues);
  return from == std::string_view::npos ? "" : text.substr(from, text.rfind(kEnd) - from);
}

UnixSeconds created_at(std::string_view text) {
  const auto from = text.find(kCreated);
  if (from == std::string_view::npos) return {};
  const auto begin = from + kCreated.size();
  return UnixSeconds{
      seconds{redis::parse_or_zero<std::int64_t>(text.substr(begin, text.find('\n', begin) - begin))}};
}

// Replaces the file atomically and durably.
Result<void> replace_file(const std::string& path, std::string_view text) {
  const auto failed = [](const std::string& what) {
    const int error = errno;
    return fail(ErrorCode::kUnavailable, error == ENOSPC ? "disk_full" : "tune_io", {},
                what + ": " + std::strerror(error));
  };
  const std::string temporary = path + ".new";
  unlink(temporary.c_str());
  {
    const Descriptor out(open(temporary.c_str(), O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0644));
    if (!out) return failed(temporary);
    while (!text.empty()) {
      const ssize_t written = write(out.get(), text.data(), text.size());
      if (written < 0 && errno == EINTR) continue;
      if (written < 0) return failed(temporary);
      text.remove_prefix(static_cast<std::size_t>(written));
    }
    if (fsync(out.get()) != 0) return failed(temporary);
  }
  if (rename(temporary.c_str(), path.c_str()) != 0) return failed(path);
  const auto slash = path.rfind('/');
  const std::string folder = slash == std::string::npos ? "." : path.substr(0, slash + 1);
  const Descriptor of_folder(open(folder.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC));
  if (!of_folder || fsync(of_folder.get()) != 0) return failed(folder);
  return {};
}

std::string three_digits(double value) { return std::isnan(value) ? "" : fmt::format("{:.3f}", value); }

// The lists by quality, best first.
std::vector<std::size_t> by_quality(const HotScores& scores) {
  std::vector<std::size_t> order(scores.lists.size());
  std::iota(order.begin(), order.end(), std::size_t{0});
  std::ranges::stable_sort(order, std::greater(), [&](std::size_t i) { return quality(scores, i).mean; });
  return order;
}

UnixSeconds first_count(const ViewHistory& history) {
  UnixSeconds first = history.until;
  for (const auto& each : history.counts) first = std::min(first, each.from);
  return first;
}

void print_decision(const HotDecision& decision, const FeedDecision& feed, const HotValues& current,
                    const ViewHistory& history, bool with_table) {
  if (with_table) {
    std::int64_t views = 0;
    for (const auto& each : history.counts) views += each.views;
    ctl::print("{} views of {} articles since {}; {} moments\n", format_number(views),
               format_number(static_cast<std::int64_t>(history.published.size())),
               to_rfc3339(first_count(history)),
               format_number(static_cast<std::int64_t>(decision.scores.moments.size())));
    std::vector<std::string> marks(decision.scores.lists.size());
    for (std::size_t i = 0; i < marks.size(); ++i) {
      if (decision.scores.lists[i] == current.served()) marks[i] = "served now";
      if (decision.scores.lists[i] == decision.values.served())
        marks[i] = decision.values == current ? "served now, kept" : "chosen";
    }
    print_hot_lists(decision.scores, marks);
    print_feeds(feed);
  }
  for (const std::string& each : decision.reasons) ctl::print("{}\n", each);
  ctl::print("{}\n", feed.reason);
}

void print_json(const HotDecision& decision, const FeedDecision& feed, std::string_view outcome) {
  report_json([&](json::Writer& out) {
    out.key("outcome").string(outcome).key("has_evidence").boolean(decision.has_evidence);
    const HotValues& values = decision.values;
    out.key("values").begin_object().key("hot.default_model").string(values.default_model);
    out.key("views.default_mode").string(values.default_mode);
    out.key("trending.half_life").integer(values.trending_half_life.count());
    out.key("hot.half_life").integer(values.engagement_half_life.count());
    out.key("views.gamma").number(values.gamma);
    out.key("recall.decay_scale").integer(feed.values.decay_scale.count());
    out.key("recall.interest_weight").number(feed.values.interest_weight);
    out.key("recall.trend_weight").number(feed.values.trend_weight).end_object();
    out.key("reasons").begin_array();
    for (const std::string& each : decision.reasons) out.string(each);
    out.string(feed.reason);
    out.end_array().key("lists");
    write_hot_lists(out, decision.scores);
    out.key("feeds");
    write_feeds(out, feed.scores);
  });
}

}  // namespace

tuning::HotValues hot_values(const Settings& settings) {
  return {.default_model = settings.hot_default_model,
          .default_mode = settings.views_default_mode,
          .trending_half_life = settings.trending.half_life,
          .engagement_half_life = settings.engagement.half_life,
          .gamma = settings.views.gamma,
          .base_hours = settings.views.base_hours,
          .birth_views = settings.trending.birth_views};
}

std::string tuned_text(const HotDecision& decision, UnixSeconds created, const HotValues& configured,
                       const FeedDecision& feed, const FixedFeedValues& fixed) {
  const HotValues defaults, &values = decision.values;
  const auto is_chosen = [&](const auto HotValues::*member) {
    return values.*member != defaults.*member && values.*member != configured.*member;
  };
  std::string out =
      "# Written by `freshetctl tune`, which replaces this file. To choose yourself, set the directives in\n"
      "# freshet.toml; they win.\n";
  for (const std::string& each : decision.reasons) out += "# " + each + "\n";
  if (!feed.reason.empty()) out += "# " + feed.reason + "\n";
  out += fmt::format("format = 1\ncreated = {}\n\n{}", unix_s(created), kValues);
  if (is_chosen(&HotValues::default_model))
    out += fmt::format("hot.default_model = \"{}\"\n", values.default_model);
  if (is_chosen(&HotValues::default_mode))
    out += fmt::format("views.default_mode = \"{}\"\n", values.default_mode);
  if (is_chosen(&HotValues::trending_half_life))
    out += fmt::format("trending.half_life = {}\n", values.trending_half_life.count());
  if (is_chosen(&HotValues::engagement_half_life))
    out += fmt::format("hot.half_life = {}\n", values.engagement_half_life.count());
  if (is_chosen(&HotValues::gamma)) out += fmt::format("views.gamma = {}\n", values.gamma);
  out += tuned_feed_lines(feed.values, fixed);
  return out + tuning_checksum_line(out);
}

void print_hot_lists(const HotScores& scores, const std::vector<std::string>& marks) {
  ctl::print("  {:<32}{:>11}{:>11}{:>11}  {:<17}\n", "", "next hour", "next day", "mean", "95 % interval");
  for (const std::size_t i : by_quality(scores)) {
    const Estimate estimate = quality(scores, i);
    const std::string interval =
        std::isnan(estimate.low) ? "" : fmt::format("{:.3f} to {:.3f}", estimate.low, estimate.high);
    ctl::print("  {:<32}{:>11}{:>11}{:>11.3f}  {:<17}{}\n", scores.lists[i].name(),
               three_digits(tuning::mean_of(scores.next_hour[i])),
               three_digits(tuning::mean_of(scores.next_day[i])), estimate.mean, interval, marks[i]);
  }
}

void write_hot_lists(json::Writer& out, const HotScores& scores) {
  out.begin_array();
  if (scores.moments.empty()) {
    out.end_array();
    return;
  }
  for (const std::size_t i : by_quality(scores)) {
    const auto number = [&](const char* name, double value) {
      out.key(name);
      std::isnan(value) ? out.null() : out.number(value);
    };
    const Estimate estimate = quality(scores, i);
    out.begin_object().key("name").string(scores.lists[i].name());
    number("next_hour", tuning::mean_of(scores.next_hour[i]));
    number("next_day", tuning::mean_of(scores.next_day[i]));
    number("mean", estimate.mean);
    number("low", estimate.low);
    number("high", estimate.high);
    out.end_object();
  }
  out.end_array();
}

HotValues keep_configured(HotDecision& decision, const HotValues& current, const ConfigSources& sources,
                          const std::string& tune_file) {
  HotValues configured;
  const auto keep = [&](std::string_view name, auto HotValues::*member) {
    const auto source = sources.find(name);
    const bool is_auto = [&] {
      if constexpr (std::is_same_v<decltype(current.*member), const std::string&>)
        return current.*member == "auto";
      return false;
    }();
    if (source == sources.end() || source->second == tune_file || is_auto) return;
    configured.*member = current.*member;
    if (std::exchange(decision.values.*member, current.*member) != current.*member)
      decision.reasons.push_back(fmt::format("{} stays as it is set by {}.", name, source->second));
  };
  keep("hot.default_model", &HotValues::default_model);
  keep("views.default_mode", &HotValues::default_mode);
  keep("trending.half_life", &HotValues::trending_half_life);
  keep("hot.half_life", &HotValues::engagement_half_life);
  keep("views.gamma", &HotValues::gamma);
  return configured;
}

Result<int> run_tune(const TuneOptions& options, const Target& target) {
  FRESHET_TRY(loaded, load_config(config_path(target)));
  const Settings* settings = &loaded->settings;
  const std::string file = options.output.empty() ? settings->tune_file : options.output;
  if (file.empty() && !options.dry_run)
    return fail(ErrorCode::kInvalid, "no_tune_file", {}, "tune.file is empty");
  if (auto ok = switch_to_owner(settings->recorder.database); !ok) return tl::unexpected(ok.error());
  const UnixSeconds now = wall_now();
  FRESHET_TRY(history,
              tuning::read_view_history(settings->recorder.database, now, tuning::HotMoments().period));
  const std::string before = read_whole_file(file).value_or("");
  const UnixSeconds created = created_at(before);
  const bool is_young = now - first_count(*history) < kHourlyFor;
  if (options.if_due && !is_young && created <= now && now - created < kTuneInterval) {
    if (!options.quiet && !options.json)
      ctl::print("{} is {} h old; nothing to do\n", file, (now - created) / seconds(3600));
    return 0;
  }
  const HotValues current = hot_values(*settings);
  HotDecision decision = tune_hot_lists(*history, current);
  const HotValues configured = keep_configured(decision, current, loaded->sources, settings->tune_file);
  const FixedFeedValues fixed = fixed_feed_values(loaded->sources, settings->tune_file);
  const FeedDecision feed = decide_feed(*settings, fixed, *history, decision.values, now);
  const auto previous = load_tuning(file, now);
  const std::string after = tuned_text(decision, now, configured, feed, fixed);
  const bool is_same = previous && values_of(before) == values_of(after);
  const bool writes = !options.dry_run && !(options.if_due && is_young && is_same);
  if (writes) {
    if (auto ok = replace_file(file, after); !ok) return tl::unexpected(ok.error());
  }
  const std::string_view outcome = options.dry_run ? "dry_run" : is_same ? "kept" : "changed";
  if (options.json) {
    print_json(decision, feed, outcome);
    return 0;
  }
  print_decision(decision, feed, current, *history, !options.quiet);
  if (writes) ctl::print("{} written\n", file);
  return 0;
}

}  // namespace freshet::ctl
