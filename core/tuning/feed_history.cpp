#include "core/tuning/feed_history.h"

#include <algorithm>
#include <queue>
#include <utility>

#include "core/database/database_schema.h"
#include "core/readers/interaction.h"

namespace freshet::tuning {
namespace {

constexpr seconds kFeedDay{86400};

// Spreads the readers of a day evenly (splitmix64).
std::uint64_t sample_order(std::int64_t reader, std::size_t day) {
  std::uint64_t x = static_cast<std::uint64_t>(reader) * 64 + day + 0x9e3779b97f4a7c15U;
  x = (x ^ (x >> 30)) * 0xbf58476d1ce4e5b9U;
  x = (x ^ (x >> 27)) * 0x94d049bb133111ebU;
  return x ^ (x >> 31);
}

}  // namespace

Result<FeedHistoryReader> FeedHistoryReader::open(const std::string& database) {
  FRESHET_TRY(db, database::SqliteConnection::open(database, SQLITE_OPEN_READONLY | SQLITE_OPEN_NOMUTEX));
  if (auto ok = database::prepare_file(*db, false); !ok) return tl::unexpected(ok.error());
  return FeedHistoryReader(std::move(*db));
}

Result<FeedHistory> FeedHistoryReader::read(UnixSeconds now, const InteractionSettings& weights,
                                            const FeedHistoryLimits& limits) {
  const UnixSeconds end = now - now.time_since_epoch() % kFeedDay, begin = end - limits.days * kFeedDay;
  FeedHistory out;
  if (auto ok = sample_visits(begin, end, limits.visits_per_day, out); !ok) return tl::unexpected(ok.error());
  if (out.visits.empty()) return out;
  if (auto ok = read_items(end, limits.items, out); !ok) return tl::unexpected(ok.error());
  if (auto ok = read_events(end, weights, limits.events_per_reader, out); !ok)
    return tl::unexpected(ok.error());
  if (out.items.size() == limits.items) {
    const UnixSeconds first = out.items[out.items.size() / 4].published;
    std::erase_if(out.visits, [&](const FeedVisit& visit) { return visit.day < first; });
  }
  return out;
}

Result<void> FeedHistoryReader::sample_visits(UnixSeconds begin, UnixSeconds end, std::size_t per_day,
                                              FeedHistory& out) {
  using Visitor = std::pair<std::uint64_t, std::int64_t>;  // sample_order() and key
  std::vector<std::priority_queue<Visitor>> days(static_cast<std::size_t>((end - begin) / kFeedDay));
  // The primary key's order: by reader and time.
  FRESHET_TRY(query, db_.prepare("SELECT reader, at FROM interactions ORDER BY reader, at"));
  std::int64_t reader = -1;
  UnixSeconds first{};
  std::size_t next_day = 0;  // days before this are done for the reader
  for (;;) {
    FRESHET_TRY(more, query->step());
    if (!*more) break;
    const UnixSeconds at{seconds{query->integer(1)}};
    if (std::exchange(reader, query->integer(0)) != query->integer(0)) {
      first = at;
      next_day = 0;
    }
    if (at < begin || at >= end) continue;
    const auto day = static_cast<std::size_t>((at - begin) / kFeedDay);
    if (day < next_day) continue;
    next_day = day + 1;
    if (first >= begin + static_cast<std::int64_t>(day) * kFeedDay) continue;
    days[day].emplace(sample_order(reader, day), reader);
    if (days[day].size() > per_day) days[day].pop();
  }
  std::unordered_map<std::int64_t, std::uint32_t> numbers;
  for (std::size_t day = 0; day < days.size(); ++day) {
    for (; !days[day].empty(); days[day].pop()) {
      const auto [number, is_new] =
          numbers.emplace(days[day].top().second, static_cast<std::uint32_t>(numbers.size()));
      if (is_new) reader_keys_.push_back(number->first);
      out.visits.push_back({begin + static_cast<std::int64_t>(day) * kFeedDay, number->second});
    }
  }
  return {};
}

Result<void> FeedHistoryReader::read_items(UnixSeconds end, std::size_t limit, FeedHistory& out) {
  FRESHET_TRY(query,
              db_.prepare("SELECT key, id, published_at FROM items WHERE hidden = 0 AND published_at < ?1"
                          " ORDER BY published_at DESC, id DESC LIMIT ?2"));
  query->bind(1, unix_s(end)).bind(2, static_cast<std::int64_t>(limit));
  for (;;) {
    FRESHET_TRY(more, query->step());
    if (!*more) break;
    item_keys_.push_back(query->integer(0));
    out.items.push_back(
        {ItemId::trusted(std::string(query->text(1))), UnixSeconds{seconds{query->integer(2)}}});
  }
  std::ranges::reverse(item_keys_);
  std::ranges::reverse(out.items);
  for (std::uint32_t i = 0; i < out.items.size(); ++i) item_numbers_.emplace(out.items[i].id.str(), i);
  return {};
}

Result<void> FeedHistoryReader::read_events(UnixSeconds end, const InteractionSettings& weights,
                                            std::int64_t limit, FeedHistory& out) {
  FRESHET_TRY(query, db_.prepare("SELECT at, item, kind FROM interactions WHERE reader = ?1 AND at < ?2"
                                 " ORDER BY at DESC LIMIT ?3"));
  for (const std::int64_t reader : reader_keys_) {
    query->bind(1, reader).bind(2, unix_s(end)).bind(3, limit);
    auto& events = out.readers.emplace_back();
    for (;;) {
      FRESHET_TRY(more, query->step());
      if (!*more) break;
      const auto item = item_numbers_.find(std::string(query->text(1)));
      const auto kind =
          query->text(2).size() == 1 ? readers::interaction_from_letter(query->text(2)[0]) : std::nullopt;
      if (item == item_numbers_.end() || !kind) continue;
      events.push_back({UnixSeconds{seconds{query->integer(0)}}, item->second,
                        readers::interaction_weight(weights, *kind) > 0});
    }
    query->reset();
    std::ranges::reverse(events);
  }
  return {};
}

Result<std::optional<items::Item>> FeedHistoryReader::item(std::uint32_t index) {
  FRESHET_TRY(query,
              db_.prepare("SELECT id, published_at, title, author, author_id, text_format, text FROM items"
                          " WHERE key = ?1 AND hidden = 0"));
  query->bind(1, item_keys_[index]);
  FRESHET_TRY(more, query->step());
  if (!*more) return std::nullopt;
  items::Item item;
  item.id = ItemId::trusted(std::string(query->text(0)));
  item.published_at = UnixSeconds{seconds{query->integer(1)}};
  item.title = query->text(2);
  item.author = query->text(3);
  item.author_id = query->text(4);
  item.text_format = items::text_format_of(query->text(5)).value_or(items::TextFormat::kPlain);
  item.text = query->text(6);
  FRESHET_TRY(tags, db_.prepare("SELECT tag FROM item_tags WHERE item = ?1 ORDER BY place"));
  tags->bind(1, item_keys_[index]);
  for (;;) {
    FRESHET_TRY(tag, tags->step());
    if (!*tag) break;
    item.tags.push_back(TagName::trusted(std::string(tags->text(0))));
  }
  return item;
}

}  // namespace freshet::tuning
