#include "core/training/learn_rerank.h"

#include <algorithm>
#include <map>

#include "core/training/past_days.h"
#include "core/training/rerank_lessons.h"

namespace freshet::training {
namespace {

// The days to learn from, ascending: evenly spread over the last ones that are over.
std::vector<UnixSeconds> lesson_days(const TrainingData& data, const PastDays& past,
                                     const LessonSettings& settings) {
  const double events = std::max(1.0, static_cast<double>(data.events.size()));
  const int most = std::clamp(static_cast<int>(settings.most_events / events), 7, settings.days);
  const UnixSeconds end = std::min(day_of(data.now), past.last() + kOneDay);
  const auto span = static_cast<int>(std::min<std::int64_t>((end - past.first()) / kOneDay, settings.within));
  std::vector<UnixSeconds> days;
  const int count = std::min(most, span);
  for (int i = count; i > 0; --i) days.push_back(end - kOneDay * (1 + (i - 1) * span / count));
  return days;
}

// The lessons of past.known().now.
void add_moment(RerankLessons& lessons, const PastDays& past, const recommend::Catalogue& catalogue,
                UnixSeconds until, std::size_t most) {
  const auto index = indexes_in(catalogue, past.known());
  const auto readers = first_touches(past, until);
  const std::size_t stride = std::max<std::size_t>(1, (readers.size() + most - 1) / most);
  std::size_t number = 0;
  for (const auto& [reader, items] : readers) {
    if (number++ % stride != 0) continue;
    std::vector<recommend::ProfileEvent> profile;
    std::vector<std::uint32_t> touched, taken;
    for (const TrainingEvent& each : past.of_reader(reader)) {
      if (index[each.item] == kNowhere) continue;
      profile.push_back({index[each.item], each.kind, each.at});
      touched.push_back(index[each.item]);
    }
    if (profile.empty()) continue;
    std::reverse(profile.begin(), profile.end());
    std::sort(touched.begin(), touched.end());
    for (const std::uint32_t item : items) {
      if (index[item] != kNowhere) taken.push_back(index[item]);
    }
    lessons.add(catalogue, {profile, touched, taken, past.known().now, number});
  }
}

}  // namespace

std::map<std::uint32_t, std::vector<std::uint32_t>> first_touches(const PastDays& past, UnixSeconds until) {
  std::map<std::uint32_t, std::vector<std::uint32_t>> out;
  for (const TrainingEvent& each : past.until(until)) {
    if (!past.exists(each.item) || past.touched(each.reader, each.item)) continue;
    if (past.of_reader(each.reader).empty()) continue;
    auto& taken = out[each.reader];
    if (std::find(taken.begin(), taken.end(), each.item) == taken.end()) taken.push_back(each.item);
  }
  return out;
}

std::vector<std::uint32_t> indexes_in(const recommend::Catalogue& catalogue, const TrainingData& data) {
  std::vector<std::uint32_t> out;
  out.reserve(data.items.size());
  for (const TrainingItem& each : data.items) out.push_back(catalogue.find(each.id).value_or(kNowhere));
  return out;
}

void add_lessons(RerankLessons& lessons, PastDays& past, const std::shared_ptr<const model::Model>& model,
                 const LessonSettings& settings, std::size_t most) {
  const UnixSeconds day = past.known().now, end = day + kOneDay;
  const auto moments = static_cast<std::size_t>(std::max<std::int64_t>(1, kOneDay / settings.every));
  lessons.begin_day(day);
  for (UnixSeconds at = day; at < end; at += settings.every) {
    past.advance(at);
    const UnixSeconds until = at == day ? end : std::min(end, at + settings.every);
    const recommend::Catalogue catalogue(model, past.live(settings.trend, settings.newest));
    add_moment(lessons, past, catalogue, until, 1 + most / moments);
  }
}

std::vector<float> learn_rerank(const TrainingData& data, const recommend::RankingSettings& ranking,
                                const Relate& relate, const LessonSettings& settings) {
  if (data.events.empty()) return {};
  PastDays past(data);
  RerankLessons lessons(ranking);
  const auto days = lesson_days(data, past, settings);
  for (const UnixSeconds day : days) {
    past.advance(day);
    const auto model = relate(past.known());
    if (!model) continue;
    add_lessons(lessons, past, model, settings, settings.most_lessons / days.size());
  }
  return lessons.learn();
}

}  // namespace freshet::training
