// Quality of the feed on public data: what a refresh at midnight would put on a reader's first
// page, compared with what the reader opened on that day. Uses the search index, recall, the order
// by trend and the default settings of the service; Redis is not used.
//
// Moments: midnight UTC. Readers: those with an event before it. Candidates: items published before
// it that the reader has not touched. Relevant (binary): candidates that the reader touches on that
// day. Metric: NDCG@20, the mean over (reader, day) with a relevant item. The index holds the items
// published before the moment; interests are the reader's newest 20 items; the hottest items are
// the first 100 by the trending model with its default half-life, over all events before the
// moment.
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
#include <set>
#include <unordered_map>

#include "core/base/json.h"
#include "core/feed/recall.h"
#include "core/feed/smart_feed.h"
#include "core/search/search_index.h"
#include "core/training/validation.h"
#include "scripts/ctl/replay/csv.h"
#include "tests/bench/public_data/data.h"
#include "tests/bench/public_data/sets.h"

namespace freshet::bench {
namespace {

constexpr std::int64_t kDay = 86400;
constexpr std::size_t kMaxInterests = 20, kHotItems = 100;

struct Event {
  std::int64_t at = 0;
  std::uint32_t item = 0;
  std::string reader;  // empty: anonymous
};

struct Site {
  std::vector<items::Item> items;
  std::vector<Event> events;  // in order of time
};

// A ranking to compare, with NDCG@20 by case.
struct Variant {
  std::string name;
  RecallSettings settings;
  std::vector<double> ndcg = {};
};

RecallSettings recall_settings(seconds scale, double interest_weight, double trend_weight) {
  RecallSettings out;
  out.decay_scale = scale;
  out.interest_weight = interest_weight;
  out.trend_weight = trend_weight;
  return out;
}

std::vector<Variant> variants() {
  const RecallSettings defaults;
  std::vector<Variant> out{{"newest", recall_settings(defaults.decay_scale, 1e-9, 0)}};
  for (const int days : {1, 7}) {
    out.push_back(
        {fmt::format("matches first, scale {} d", days), recall_settings(std::chrono::days(days), 0, 0)});
  }
  for (const double interest : {.005, .01, .02, .05, .1}) {
    for (const double trend : {0., .02, .05, .1, .2, .5, 1.}) {
      out.push_back({fmt::format("interests {}, trend {}", interest, trend),
                     recall_settings(defaults.decay_scale, interest, trend)});
    }
  }
  out.push_back({"served", defaults});
  return out;
}

class FeedEvaluation {
 public:
  FeedEvaluation(Site site, const Progress& progress)
      : site_(std::move(site)), progress_(progress), variants_(variants()) {
    for (const Variant& each : variants_) {
      Settings settings;
      settings.search.index = (folder_.path() / "index").string();
      settings.recall = each.settings;
      settings.recall.budget = milliseconds(0);  // no limit: results do not depend on the machine
      settings_.push_back(std::move(settings));
    }
    std::ranges::stable_sort(site_.events, {}, &Event::at);
    by_date_.resize(site_.items.size());
    for (std::uint32_t i = 0; i < by_date_.size(); ++i) {
      by_date_[i] = i;
      numbers_.emplace(site_.items[i].id, i);
    }
    std::ranges::sort(by_date_, {}, [&](std::uint32_t item) { return site_.items[item].published_at; });
  }

  // Measures the days from `first` on, counted from the first event.
  Result<void> run(std::int64_t first) {
    FRESHET_TRY(index, search::SearchIndex::open(settings_.front().search));
    std::vector<std::unique_ptr<feed::BlockingRecall>> recalls;
    for (const Settings& each : settings_) recalls.push_back(std::make_unique<feed::BlockingRecall>(each));
    const std::int64_t begin = site_.events.front().at / kDay, end = site_.events.back().at / kDay + 1;
    std::size_t indexed = 0, past = 0;
    for (std::int64_t day = begin; day < end; ++day) {
      progress_("feed by day", static_cast<double>(day - begin) / static_cast<double>(end - begin));
      const UnixSeconds now(seconds(day * kDay));
      for (; indexed < by_date_.size() && site_.items[by_date_[indexed]].published_at < now; ++indexed) {
        if (auto ok = (*index)->put(site_.items[by_date_[indexed]]); !ok) return ok;
      }
      if (auto ok = (*index)->commit(); !ok) return ok;
      std::size_t tomorrow = past;
      while (tomorrow < site_.events.size() && site_.events[tomorrow].at < (day + 1) * kDay) ++tomorrow;
      if (day - begin >= first) {
        const auto hot = hottest(now, past);
        for (const auto& [reader, relevant] : cases(now, past, tomorrow)) {
          days_.push_back(day - begin);
          for (std::size_t i = 0; i < variants_.size(); ++i) {
            FRESHET_TRY(page, first_page(*recalls[i], variants_[i].settings, reader, now, hot));
            variants_[i].ndcg.push_back(training::ndcg(*page, relevant));
          }
        }
      }
      for (; past < tomorrow; ++past) touch(site_.events[past]);
    }
    return {};
  }

  // Mean NDCG@20 of a variant over the cases of days in [from, until).
  double mean(const Variant& variant, std::int64_t from, std::int64_t until) const {
    double sum = 0;
    std::size_t count = 0;
    for (std::size_t i = 0; i < days_.size(); ++i) {
      if (days_[i] < from || days_[i] >= until) continue;
      sum += variant.ndcg[i];
      ++count;
    }
    return sum / static_cast<double>(std::max<std::size_t>(count, 1));
  }
  const std::vector<Variant>& variants_measured() const { return variants_; }
  std::size_t cases_measured() const { return days_.size(); }
  std::int64_t last_day() const { return days_.empty() ? 0 : days_.back(); }

 private:
  struct Reader {
    std::vector<std::uint32_t> items;  // newest touch last, without duplicates
  };

  void touch(const Event& event) {
    if (event.reader.empty()) return;
    auto& items = readers_[event.reader].items;
    std::erase(items, event.item);
    items.push_back(event.item);
  }

  // Relevant items, ascending, by reader.
  std::map<std::string, std::vector<std::uint32_t>> cases(UnixSeconds now, std::size_t from,
                                                          std::size_t until) const {
    std::map<std::string, std::set<std::uint32_t>> relevant;
    for (std::size_t i = from; i < until; ++i) {
      const Event& event = site_.events[i];
      const auto reader = readers_.find(event.reader);
      if (reader == readers_.end() || site_.items[event.item].published_at >= now) continue;
      if (std::ranges::find(reader->second.items, event.item) != reader->second.items.end()) continue;
      relevant[event.reader].insert(event.item);
    }
    std::map<std::string, std::vector<std::uint32_t>> out;
    for (const auto& [reader, items] : relevant) out[reader].assign(items.begin(), items.end());
    return out;
  }

  std::vector<ItemId> hottest(UnixSeconds now, std::size_t events) const {
    const auto half_life = static_cast<double>(TrendingSettings{}.half_life.count());
    const auto decayed = [&](std::int64_t at) {
      return std::exp2(-static_cast<double>(unix_s(now) - at) / half_life);
    };
    std::vector<double> sums(site_.items.size(), 0);
    for (std::size_t i = 0; i < events; ++i) sums[site_.events[i].item] += decayed(site_.events[i].at);
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

  Result<std::vector<std::uint32_t>> first_page(feed::BlockingRecall& recall, const RecallSettings& settings,
                                                const std::string& name, UnixSeconds now,
                                                const std::vector<ItemId>& hot) const {
    const std::vector<std::uint32_t>& touched = readers_.at(name).items;
    std::vector<feed::Interest> interests;
    for (auto each = touched.rbegin(); each != touched.rend() && interests.size() < kMaxInterests; ++each)
      interests.push_back({site_.items[*each].id});
    feed::RecallQuery query{{}, feed::weigh_interests(interests), now, 0};
    query.size = static_cast<std::size_t>(settings.size);
    query.interest_weight = settings.interest_weight;
    FRESHET_TRY(found, recall.search(query));
    feed::order_by_trend(found->candidates, hot, settings.trend_weight);
    std::vector<std::uint32_t> out;
    for (const feed::Candidate& each : found->candidates) {
      const std::uint32_t item = numbers_.at(each.item);
      if (std::ranges::find(touched, item) != touched.end()) continue;
      out.push_back(item);
      if (out.size() == training::kListLength) break;
    }
    return out;
  }

  Site site_;
  const Progress& progress_;
  const ScratchFolder folder_{std::filesystem::temp_directory_path()};
  std::vector<Settings> settings_;
  std::vector<Variant> variants_;
  std::vector<std::uint32_t> by_date_;  // items, oldest first
  std::unordered_map<ItemId, std::uint32_t> numbers_;
  std::unordered_map<std::string, Reader> readers_;
  std::vector<std::int64_t> days_;  // of the cases
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
  for (const Variant& each : evaluation.variants_measured()) {
    const bool is_served = &each == &evaluation.variants_measured().back();
    Metric metric{is_served ? "feed" : "", "ndcg@20 " + each.name, evaluation.mean(each, 0, kNoEnd), ""};
    if (is_served) metric.must = .45, metric.stretch = .48;
    report.add(metric);
    report.add({"", "ndcg@20 until day 90 " + each.name, evaluation.mean(each, 0, kHeldOutDay), ""});
    report.add({"", "ndcg@20 held out " + each.name, evaluation.mean(each, kHeldOutDay, kNoEnd), ""});
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
  for (const Variant& each : evaluation.variants_measured()) {
    if (each.settings.interest_weight > 0.005 && each.name != "served") continue;  // nothing matches
    report.add({"", "ndcg@20 " + each.name, evaluation.mean(each, 0, last), ""});
  }
  report.note(fmt::format("{} cases", evaluation.cases_measured()));
  return report;
}

}  // namespace freshet::bench
