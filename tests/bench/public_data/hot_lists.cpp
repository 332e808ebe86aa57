// Quality of hot lists on public data: how well each list predicts what is read next.
//
// Metric: NDCG@20 of a list's best 20 against the reads of the next hour and of the next 24 hours.
// Gains are the reads. Candidates are the items published by the moment; an item without a
// publication date is published at its first read, and the tuner is told that date. Of items with
// equal scores, the newer one comes first. Means are over the moments that count.
//
// hot-news: a read is a click. Moments: every 2 h of days 4.5 to 7, if the next hour has 200 reads.
// "160 an hour" and "40 an hour": the lists and the tuner know only a share of the readers, chosen
// by a hash; what is predicted are the reads of all.
// hot-stackexchange: a read is an event of the sample (question, answer, comment, vote). Moments:
// midnight UTC from day 28 on, if the next 24 h have 20 reads. The next hour is not measured.
// hot-deskdrop: a read is a VIEW. Moments: midnight UTC of the last 141 days, if the next 24 h have
// 20 reads. The next hour is not measured.
//
// Lists know all reads before the moment, with their exact times. "Served by auto": at the
// beginning of each UTC day, from the second one on, the tuner gets the counts of the days before
// it, stored as the recorder stores them (five minutes for two days, then hours up to 14 days; of
// each, the 2,000 most read items). Its choice serves that day and is its current one on the next.
// At first that is views/accumulate.
#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <fstream>
#include <limits>
#include <map>
#include <stdexcept>
#include <unordered_map>

#include "core/base/json.h"
#include "core/tuning/hot_tuner.h"
#include "scripts/ctl/replay/csv.h"
#include "tests/bench/public_data/reads.h"
#include "tests/bench/public_data/sets.h"

namespace freshet::bench {
namespace {

using tuning::HotFormula;
using tuning::HotMoments;
using tuning::HotScores;
using tuning::HotValues;
using tuning::ViewCount;
using tuning::ViewHistory;

constexpr std::int64_t kDay = 86400;

// The measurement of a set.
struct Protocol {
  HotMoments moments;
  bool needs_next_hour = false;  // only moments whose next hour counts
  UnixSeconds from, until;       // of the moments
};

ViewHistory exact_history(const Reads& data) {
  ViewHistory out{{}, data.published, UnixSeconds(seconds(data.reads.back().at + 1))};
  for (const Read& each : data.reads)
    out.counts.push_back({each.item, UnixSeconds(seconds(each.at)), seconds(0), 1});
  return out;
}

// The counts at `now`, as the recorder stores them.
ViewHistory stored_history(const Reads& data, std::int64_t now) {
  constexpr std::int64_t kShort = 300, kLong = 3600;
  constexpr std::size_t kMaxItems = 2000;
  std::map<std::pair<std::int64_t, std::int64_t>, std::unordered_map<std::uint32_t, std::int64_t>> buckets;
  for (const Read& each : data.reads) {
    if (each.at >= now) break;
    if (each.at < now - 14 * kDay) continue;
    const std::int64_t length = each.at / kLong * kLong < now - 2 * kDay ? kLong : kShort;
    ++buckets[{each.at / length * length, length}][each.item];
  }
  ViewHistory out{{}, data.published, UnixSeconds(seconds(now))};
  for (const auto& [bucket, items] : buckets) {
    std::vector<std::pair<std::int64_t, std::uint32_t>> most;
    for (const auto& [item, views] : items) most.emplace_back(-views, item);
    std::ranges::sort(most);
    most.resize(std::min(most.size(), kMaxItems));
    for (const auto& [views, item] : most)
      out.counts.push_back({item, UnixSeconds(seconds(bucket.first)), seconds(bucket.second), -views});
  }
  return out;
}

struct Row {
  std::string name;
  double next_hour = 0, next_day = 0;
};

struct Measurement {
  std::vector<Row> rows;  // the lists, then "served by auto"
  std::vector<std::string> choices;
};

// `next`: whose reads are predicted, if they are not those of `data`.
Measurement measure(const Reads& data, const Protocol& protocol, const Progress& progress,
                    const Reads* next = nullptr) {
  HotValues values;
  HotMoments moments = protocol.moments;
  const ViewHistory history = exact_history(data);
  moments.period = history.until - protocol.from;
  const std::vector<tuning::HotCandidate> lists = hot_candidates(values);
  progress("scoring lists", 0);
  const ViewHistory all = next != nullptr ? exact_history(*next) : ViewHistory{};
  const HotScores scores = score_hot_lists(history, values, moments, next != nullptr ? &all.counts : nullptr);
  Measurement out;
  std::vector<double> hour, day;
  std::int64_t tuned_before = -1;
  const auto counts = [&](std::size_t moment) {
    const UnixSeconds at = scores.moments[moment];
    return at >= protocol.from && at < protocol.until &&
           !(protocol.needs_next_hour && std::isnan(scores.next_hour[0][moment]));
  };
  // The tuner runs every day from the first one on, also before the measured period.
  const std::int64_t first_day = data.reads.front().at / kDay;
  for (std::size_t i = 0; i < scores.moments.size(); ++i) {
    if (!counts(i)) continue;
    const std::int64_t today = unix_s(scores.moments[i]) / kDay;
    for (std::int64_t tuned = tuned_before < 0 ? first_day + 1 : tuned_before + 1; tuned <= today; ++tuned) {
      progress("tuning", static_cast<double>(i) / static_cast<double>(scores.moments.size()));
      const auto before = values;
      values = tuning::tune_hot_lists(stored_history(data, tuned * kDay), values).values;
      if (before.served() != values.served())
        out.choices.push_back(fmt::format("day {}: {}", tuned - first_day, values.served().name()));
    }
    tuned_before = today;
    const auto served = static_cast<std::size_t>(std::ranges::find(lists, values.served()) - lists.begin());
    if (served == lists.size()) throw std::logic_error("the tuner chose a list that is not a candidate");
    hour.push_back(scores.next_hour[served][i]);
    day.push_back(scores.next_day[served][i]);
  }
  for (std::size_t list = 0; list < lists.size(); ++list) {
    std::vector<double> list_hour, list_day;
    for (std::size_t i = 0; i < scores.moments.size(); ++i) {
      if (!counts(i)) continue;
      list_hour.push_back(scores.next_hour[list][i]);
      list_day.push_back(scores.next_day[list][i]);
    }
    out.rows.push_back({lists[list].name(), tuning::mean_of(list_hour), tuning::mean_of(list_day)});
  }
  out.rows.push_back({"served by auto", tuning::mean_of(hour), tuning::mean_of(day)});
  out.choices.push_back(fmt::format("{} moments", hour.size()));
  return out;
}

struct Goal {
  std::optional<double> hour_must, hour_stretch, day_must, day_stretch;
};

void add_rows(EvaluationReport& report, const std::string& set, const Measurement& measured,
              const Goal& goal) {
  for (const Row& row : measured.rows) {
    const bool is_auto = &row == &measured.rows.back();
    const auto add = [&](const char* what, double value, std::optional<double> must,
                         std::optional<double> stretch) {
      if (std::isnan(value)) return;
      report.add({is_auto && must ? "auto" : "", fmt::format("{}{}: {}", set, what, row.name), value, "",
                  is_auto ? must : std::nullopt, is_auto ? stretch : std::nullopt});
    };
    add("next hour", row.next_hour, goal.hour_must, goal.hour_stretch);
    add("next 24 h", row.next_day, goal.day_must, goal.day_stretch);
  }
  std::string choices;
  for (const std::string& each : measured.choices) choices += (choices.empty() ? "" : "; ") + each;
  report.note(set + choices);
}

// --- News

// Readers in a share of 1/`of`, by a hash of their number.
Reads thinned(const Reads& all, std::uint64_t of) {
  Reads out{{}, all.published};
  for (const Read& each : all.reads) {
    if (reader_hash(each.reader) % of == 0) out.reads.push_back(each);
  }
  return out;
}

}  // namespace

Result<EvaluationReport> evaluate_hot_news(const std::string& directory, const Progress& progress) {
  FRESHET_TRY(clicks, read_clicks(std::filesystem::path(directory) / "clicks.csv"));
  const Reads& reads = *clicks;
  EvaluationReport report(
      "news-clicks: hot lists every 2 h on days 4.5 to 7, NDCG@20 against the reads of the next hour (if "
      "there "
      "are 200) and of the next 24 h");
  Protocol protocol;
  protocol.moments = {.min_next_hour = 200, .min_next_day = 200};
  protocol.needs_next_hour = true;
  const std::int64_t start = reads.reads.front().at / kDay * kDay;
  protocol.from = UnixSeconds(seconds(start + 9 * kDay / 2));
  protocol.until = UnixSeconds(seconds(start + 7 * kDay + 1));
  add_rows(report, "", measure(reads, protocol, progress), {.92, .933, .48, .497});
  const double per_hour = static_cast<double>(reads.reads.size()) /
                          static_cast<double>((reads.reads.back().at - start) / 3600 + 1);
  for (const double rate : {160.0, 40.0}) {
    const Reads some = thinned(reads, static_cast<std::uint64_t>(std::lround(per_hour / rate)));
    const bool is_first = rate == 160;
    add_rows(report, fmt::format("{:.0f} an hour, ", rate), measure(some, protocol, progress, &reads),
             {{}, {}, is_first ? .44 : .41, is_first ? .45 : .42});
  }
  return report;
}

Result<EvaluationReport> evaluate_hot_stackexchange(const std::string& directory, const Progress& progress) {
  const std::filesystem::path folder(directory);
  Reads data;
  std::unordered_map<std::string, std::uint32_t> items;
  for (const char* name : {"items.ndjson", "events.ndjson"}) {
    std::ifstream in(folder / name);
    if (!in) return fail(ErrorCode::kNotFound, "no_file", {}, "cannot read " + (folder / name).string());
    for (std::string line; std::getline(in, line);) {
      json::Document document;
      if (!document.parse(line)) return fail(ErrorCode::kInvalid, "bad_data", {}, "not JSON: " + line);
      const json::Value root = document.root();
      const bool is_item = name == std::string_view("items.ndjson");
      const auto id = json::id_text(root[is_item ? "id" : "item"], "item");
      if (!id) return tl::unexpected(id.error());
      const std::int64_t at = root[is_item ? "published_at" : "at"].integer().value_or(0);
      const auto number = items.emplace(*id, static_cast<std::uint32_t>(items.size())).first->second;
      if (number == data.published.size()) data.published.emplace_back();
      if (is_item)
        data.published[number] = UnixSeconds(seconds(at));
      else
        data.reads.push_back({at, number, 0});
    }
  }
  if (data.reads.empty()) return fail(ErrorCode::kInvalid, "bad_data", {}, "no events");
  std::ranges::stable_sort(data.reads, {}, &Read::at);
  EvaluationReport report(
      "stackexchange-site (as scripts/make-sample writes it): hot lists at midnight from day 28 on, NDCG@20 "
      "against the events of the next 24 h (if there are 20)");
  Protocol protocol;
  protocol.moments = {
      .step = seconds(kDay), .min_next_hour = std::numeric_limits<std::int64_t>::max(), .min_next_day = 20};
  protocol.from = UnixSeconds(seconds(data.reads.front().at / kDay * kDay + 28 * kDay));
  protocol.until = UnixSeconds::max();
  add_rows(report, "", measure(data, protocol, progress), {{}, {}, .61, .63});
  return report;
}

Result<EvaluationReport> evaluate_hot_deskdrop(const std::string& directory, const Progress& progress) {
  const std::filesystem::path path = std::filesystem::path(directory) / "users_interactions.csv";
  std::ifstream in(path, std::ios::binary);
  if (!in) return fail(ErrorCode::kNotFound, "no_file", {}, "cannot read " + path.string());
  const std::string text{std::istreambuf_iterator<char>(in), {}};
  ctl::CsvReader csv(text);
  Reads data;
  std::unordered_map<std::string, std::uint32_t> items;
  for (std::vector<std::string> fields;;) {
    FRESHET_TRY(more, csv.next(fields));
    if (!*more) break;
    if (fields.size() < 4 || fields[1] != "VIEW") continue;
    const auto number = items.emplace(fields[2], static_cast<std::uint32_t>(items.size())).first->second;
    data.reads.push_back({std::strtoll(fields[0].c_str(), nullptr, 10), number, 0});
  }
  if (data.reads.empty()) return fail(ErrorCode::kInvalid, "bad_data", {}, path.string() + ": no views");
  data.published.resize(items.size());
  std::ranges::stable_sort(data.reads, {}, &Read::at);
  date_items(data);
  EvaluationReport report(
      "deskdrop: hot lists at midnight on the last 141 days, NDCG@20 against the views of the next 24 h (if "
      "there are 20)");
  Protocol protocol;
  protocol.moments = {
      .step = seconds(kDay), .min_next_hour = std::numeric_limits<std::int64_t>::max(), .min_next_day = 20};
  protocol.from = UnixSeconds(seconds((data.reads.back().at / kDay - 141) * kDay));
  protocol.until = UnixSeconds::max();
  const Measurement measured = measure(data, protocol, progress);
  double best = 0;
  for (const Row& row : measured.rows)
    best = std::max(best, &row == &measured.rows.back() ? 0 : row.next_day);
  add_rows(report, "", measured, {{}, {}, best - .01, {}});
  return report;
}

}  // namespace freshet::bench
