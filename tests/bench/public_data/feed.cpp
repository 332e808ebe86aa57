// Quality of the feed on public data (core/tuning/feed_scores.h): what a refresh at midnight would
// put on a reader's first page, compared with what the reader opened on that day, under the default
// settings. The mean over all cases. The hottest items are the first 100 by the trending model with
// its default half-life, over all events before the moment.
//
// feed-stackexchange: events of the sample by readers with an account (questions, answers,
// comments, favorites, accepted answers); votes are anonymous and count for the trend only. From
// day 28 on. recall.interest_weight was chosen on the days before day 90; "held out" are those from
// day 90 on. recall.trend_weight would be 0 here; it is small instead, because a news site's feed
// depends on it.
// feed-deskdrop: all events; an item is published at its first one. The last 141 days. The set has
// neither titles nor tags, so that interests match nothing.
#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <fstream>
#include <map>
#include <numeric>
#include <optional>
#include <set>
#include <unordered_map>

#include "core/base/json.h"
#include "core/tuning/feed_scores.h"
#include "core/tuning/scratch_folder.h"
#include "scripts/ctl/replay/csv.h"
#include "tests/bench/public_data/data.h"
#include "tests/bench/public_data/sets.h"

namespace freshet::bench {
namespace {

constexpr std::int64_t kDay = 86400;
constexpr std::size_t kHotItems = 100;

struct Event {
  std::int64_t at = 0;
  std::uint32_t item = 0;
  std::string reader;  // empty: anonymous
};

struct Site {
  std::vector<items::Item> items;
  std::vector<Event> events;  // in order of time
};

// A ranking to compare.
struct Variant {
  std::string name;
  tuning::FeedCandidate values;
};

std::vector<Variant> variants() {
  const tuning::FeedCandidate defaults;
  std::vector<Variant> out{{"newest", {defaults.decay_scale, 1e-9, 0}}};
  for (const int days : {1, 7})
    out.push_back({fmt::format("matches first, scale {} d", days), {std::chrono::days(days), 0, 0}});
  for (const double interest : {.005, .01, .02, .05, .1}) {
    for (const double trend : {0., .02, .05, .1, .2, .5, 1.})
      out.push_back(
          {fmt::format("interests {}, trend {}", interest, trend), {defaults.decay_scale, interest, trend}});
  }
  out.push_back({"served", defaults});
  return out;
}

class FeedEvaluation {
 public:
  FeedEvaluation(Site site, const Progress& progress)
      : site_(std::move(site)), progress_(progress), variants_(variants()) {
    std::ranges::stable_sort(site_.events, {}, &Event::at);
    by_date_.resize(site_.items.size());
    std::iota(by_date_.begin(), by_date_.end(), 0U);
    std::ranges::sort(by_date_, {}, [&](std::uint32_t item) { return site_.items[item].published_at; });
  }

  // Measures the days from `first` on, counted from the first event.
  Result<void> run(std::int64_t first) {
    const std::int64_t begin = site_.events.front().at / kDay, end = site_.events.back().at / kDay + 1;
    const tuning::FeedHistory history = history_from(begin + first);
    const tuning::FeedSource source{
        .item = [&](std::uint32_t item) -> Result<std::optional<items::Item>> {
          return site_.items[by_date_[item]];
        },
        .hottest =
            [&](UnixSeconds now) {
              progress_("feed by day",
                        static_cast<double>(unix_s(now) / kDay - begin) / static_cast<double>(end - begin));
              return hottest(now);
            }};
    std::vector<tuning::FeedCandidate> candidates;
    for (const Variant& each : variants_) candidates.push_back(each.values);
    const tuning::ScratchFolder folder{std::filesystem::temp_directory_path()};
    FRESHET_TRY(scores, tuning::score_feed(history, source, candidates, Settings(), folder.path()));
    scores_ = *std::move(scores);
    for (const UnixSeconds day : scores_.days) days_.push_back(unix_s(day) / kDay - begin);
    return {};
  }

  // Mean NDCG@20 of a variant over the cases of days in [from, until).
  double mean(std::size_t variant, std::int64_t from, std::int64_t until) const {
    double sum = 0;
    std::size_t count = 0;
    for (std::size_t i = 0; i < days_.size(); ++i) {
      if (days_[i] < from || days_[i] >= until) continue;
      sum += scores_.ndcg[variant][i];
      ++count;
    }
    return sum / static_cast<double>(std::max<std::size_t>(count, 1));
  }
  const std::vector<Variant>& variants_measured() const { return variants_; }
  std::size_t cases_measured() const { return days_.size(); }
  std::int64_t last_day() const { return days_.empty() ? 0 : days_.back(); }

 private:
  // All readers with an account, and their visits from this day on.
  tuning::FeedHistory history_from(std::int64_t first_day) const {
    tuning::FeedHistory out;
    std::vector<std::uint32_t> numbers(by_date_.size());
    for (const std::uint32_t item : by_date_) {
      numbers[item] = static_cast<std::uint32_t>(out.items.size());
      out.items.push_back({site_.items[item].id, site_.items[item].published_at});
    }
    std::map<std::string, std::uint32_t> readers;
    std::set<std::pair<std::int64_t, std::string>> visits;  // by day
    for (const Event& event : site_.events) {
      if (event.reader.empty()) continue;
      const auto [reader, is_new] =
          readers.emplace(event.reader, static_cast<std::uint32_t>(out.readers.size()));
      if (is_new) out.readers.emplace_back();
      out.readers[reader->second].push_back({UnixSeconds(seconds(event.at)), numbers[event.item]});
      if (event.at / kDay >= first_day) visits.emplace(event.at / kDay, event.reader);
    }
    for (const auto& [day, reader] : visits)
      out.visits.push_back({UnixSeconds(seconds(day * kDay)), readers.at(reader)});
    return out;
  }

  std::vector<ItemId> hottest(UnixSeconds now) const {
    const auto half_life = static_cast<double>(TrendingSettings{}.half_life.count());
    const auto decayed = [&](std::int64_t at) {
      return std::exp2(-static_cast<double>(unix_s(now) - at) / half_life);
    };
    std::vector<double> sums(site_.items.size(), 0);
    for (const Event& event : site_.events) {
      if (event.at >= unix_s(now)) break;
      sums[event.item] += decayed(event.at);
    }
    std::vector<std::uint32_t> order;
    for (const std::uint32_t item : by_date_) {
      if (site_.items[item].published_at >= now) break;
      sums[item] += TrendingSettings{}.birth_views * decayed(unix_s(site_.items[item].published_at));
      order.push_back(item);
    }
    std::ranges::reverse(order);
    std::ranges::stable_sort(order, std::greater(), [&](std::uint32_t item) { return sums[item]; });
    std::vector<ItemId> out;
    for (std::size_t i = 0; i < std::min(order.size(), kHotItems); ++i)
      out.push_back(site_.items[order[i]].id);
    return out;
  }

  Site site_;
  const Progress& progress_;
  const std::vector<Variant> variants_;
  std::vector<std::uint32_t> by_date_;  // items, oldest first
  tuning::FeedScores scores_;           // of variants_
  std::vector<std::int64_t> days_;      // of the cases
};

Result<Site> read_sample(const std::filesystem::path& folder) {
  Site site;
  std::unordered_map<std::string, std::uint32_t> numbers;
  for (const char* name : {"items.ndjson", "events.ndjson"}) {
    std::ifstream in(folder / name);
    if (!in) return fail(ErrorCode::kNotFound, "no_file", {}, "cannot read " + (folder / name).string());
    for (std::string line; std::getline(in, line);) {
      const std::string text = line;
      json::Document document;
      if (!document.parse(line)) return fail(ErrorCode::kInvalid, "bad_data", {}, "not JSON: " + text);
      const json::Value root = document.root();
      const auto string = [&](const char* key) {
        return root[key].is_string() ? std::string(root[key].text()) : std::string();
      };
      const bool is_item = name == std::string_view("items.ndjson");
      const auto id = json::id_text(root[is_item ? "id" : "item"], "item");
      if (!id) return tl::unexpected(id.error());
      if (is_item) {
        items::Item item;
        item.id = ItemId::trusted(*id);
        item.title = string("title");
        item.text = string("text");
        item.author = string("author");
        for (const json::Value& tag : root["tags"].elements())
          item.tags.push_back(TagName::trusted(std::string(tag.text())));
        item.published_at = UnixSeconds(seconds(root["published_at"].integer().value_or(0)));
        numbers.emplace(*id, static_cast<std::uint32_t>(site.items.size()));
        site.items.push_back(std::move(item));
        continue;
      }
      const auto number = numbers.find(*id);
      if (number == numbers.end()) return fail(ErrorCode::kInvalid, "bad_data", {}, "unknown item: " + text);
      std::string reader = string("user");
      if (reader.find('-') != std::string::npos) reader.clear();  // vote-12, post-12
      site.events.push_back({root["at"].integer().value_or(0), number->second, std::move(reader)});
    }
  }
  if (site.events.empty()) return fail(ErrorCode::kInvalid, "bad_data", {}, "no events");
  return site;
}

Result<Site> read_deskdrop(const std::filesystem::path& path) {
  std::ifstream in(path, std::ios::binary);
  if (!in) return fail(ErrorCode::kNotFound, "no_file", {}, "cannot read " + path.string());
  const std::string text{std::istreambuf_iterator<char>(in), {}};
  ctl::CsvReader csv(text);
  Site site;
  std::unordered_map<std::string, std::uint32_t> numbers;
  for (std::vector<std::string> fields;;) {
    FRESHET_TRY(more, csv.next(fields));
    if (!*more) break;
    if (fields.size() < 4 || csv.line() == 1) continue;
    const auto number = numbers.emplace(fields[2], static_cast<std::uint32_t>(site.items.size()));
    if (number.second) {
      site.items.emplace_back();
      site.items.back().id = ItemId::trusted(fields[2]);
      site.items.back().published_at = UnixSeconds::max();
    }
    const std::int64_t at = std::strtoll(fields[0].c_str(), nullptr, 10);
    auto& published = site.items[number.first->second].published_at;
    published = std::min(published, UnixSeconds(seconds(at)));
    site.events.push_back({at, number.first->second, fields[3]});
  }
  if (site.events.empty()) return fail(ErrorCode::kInvalid, "bad_data", {}, path.string() + ": no events");
  return site;
}

}  // namespace

Result<EvaluationReport> evaluate_feed_stackexchange(const std::string& directory, const Progress& progress) {
  constexpr std::int64_t kFirstDay = 28, kHeldOutDay = 90, kNoEnd = std::numeric_limits<std::int64_t>::max();
  FRESHET_TRY(site, read_sample(directory));
  FeedEvaluation evaluation(*std::move(site), progress);
  if (auto ok = evaluation.run(kFirstDay); !ok) return tl::unexpected(ok.error());
  EvaluationReport report(
      "stackexchange-site (as scripts/make-sample writes it): the feed at midnight from day 28 on");
  const auto& variants = evaluation.variants_measured();
  for (std::size_t i = 0; i < variants.size(); ++i) {
    const bool is_served = i + 1 == variants.size();
    const std::string& name = variants[i].name;
    Metric metric{is_served ? "feed" : "", "ndcg@20 " + name, evaluation.mean(i, 0, kNoEnd), ""};
    if (is_served) metric.must = .45, metric.stretch = .48;
    report.add(metric);
    report.add({"", "ndcg@20 until day 90 " + name, evaluation.mean(i, 0, kHeldOutDay), ""});
    report.add({"", "ndcg@20 held out " + name, evaluation.mean(i, kHeldOutDay, kNoEnd), ""});
  }
  report.note(fmt::format("{} cases", evaluation.cases_measured()));
  return report;
}

Result<EvaluationReport> evaluate_feed_deskdrop(const std::string& directory, const Progress& progress) {
  FRESHET_TRY(site, read_deskdrop(std::filesystem::path(directory) / "users_interactions.csv"));
  std::int64_t first = std::numeric_limits<std::int64_t>::max(), last = 0;
  for (const Event& each : site->events) {
    first = std::min(first, each.at / kDay);
    last = std::max(last, each.at / kDay);
  }
  FeedEvaluation evaluation(*std::move(site), progress);
  if (auto ok = evaluation.run(last - first - 140); !ok) return tl::unexpected(ok.error());
  EvaluationReport report("deskdrop: the feed at midnight on the last 141 days");
  const auto& variants = evaluation.variants_measured();
  for (std::size_t i = 0; i < variants.size(); ++i) {
    if (variants[i].values.interest_weight > 0.005 && i + 1 < variants.size()) continue;  // nothing matches
    report.add({"", "ndcg@20 " + variants[i].name, evaluation.mean(i, 0, last), ""});
  }
  report.note(fmt::format("{} cases", evaluation.cases_measured()));
  return report;
}

}  // namespace freshet::bench
