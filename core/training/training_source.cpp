#include "core/training/training_source.h"

#include <algorithm>
#include <string_view>
#include <unordered_map>

#include "core/base/ids.h"
#include "core/database/database_schema.h"
#include "core/database/sqlite.h"

namespace freshet::training {
namespace {

constexpr std::string_view kItems =
    "SELECT key, id, title, text, author, published_at, hidden, author_id, text_format"
    " FROM items ORDER BY id";
constexpr std::string_view kTags = "SELECT item, tag FROM item_tags ORDER BY item, place";
constexpr std::string_view kViewCounts =
    "SELECT item, bucket, seconds, views FROM view_counts WHERE views > 0 ORDER BY bucket, item";
constexpr std::string_view kEvents = "SELECT reader, item, kind, at FROM interactions ORDER BY reader, at";

// Runs `sql` and calls `visit` for every row.
template <class Each>
Result<void> for_each_row(database::SqliteConnection& db, std::string_view sql, Each visit) {
  FRESHET_TRY(query, db.prepare(sql));
  for (;;) {
    FRESHET_TRY(more, query->step());
    if (!*more) return {};
    visit(*query);
  }
}

Result<void> read_items(database::SqliteConnection& db, TrainingData& out) {
  std::unordered_map<std::int64_t, std::size_t> index_of_key;
  auto read = for_each_row(db, kItems, [&](const database::PreparedStatement& row) {
    index_of_key.emplace(row.integer(0), out.items.size());
    TrainingItem& item = out.items.emplace_back();
    item.id = row.text(1);
    item.title = row.text(2);
    item.text = row.text(3);
    item.text_format = items::text_format_of(row.text(8)).value_or(items::TextFormat::kPlain);
    item.author = row.text(4);
    if (!row.text(7).empty()) item.author.append(1, kIdSeparator).append(row.text(7));
    item.published = UnixSeconds{seconds{row.integer(5)}};
    item.hidden = row.integer(6) != 0;
  });
  if (!read) return read;
  return for_each_row(db, kTags, [&](const database::PreparedStatement& row) {
    const auto item = index_of_key.find(row.integer(0));
    if (item != index_of_key.end()) out.items[item->second].tags.emplace_back(row.text(1));
  });
}

// The newest events of the current reader: a ring buffer of at most max_events_ at the end of all
// events.
class ReaderEventWindow {
 public:
  ReaderEventWindow(std::vector<TrainingEvent>& events, std::size_t max_events)
      : events_(events), max_events_(max_events) {}
  void add(const TrainingEvent& event) {
    if (count_ < max_events_)
      events_.push_back(event);
    else
      events_[begin_ + count_ % max_events_] = event;
    ++count_;
  }
  void end_reader() {
    if (count_ > max_events_) {
      const auto begin = events_.begin() + static_cast<std::ptrdiff_t>(begin_);
      std::rotate(begin, begin + static_cast<std::ptrdiff_t>(count_ % max_events_), events_.end());
    }
    begin_ = events_.size();
    count_ = 0;
  }

 private:
  std::vector<TrainingEvent>& events_;
  const std::size_t max_events_;
  std::size_t begin_ = 0, count_ = 0;
};

// Indexes of the items by id.
using ItemIndexes = std::unordered_map<std::string_view, std::uint32_t>;

Result<void> read_view_counts(database::SqliteConnection& db, const ItemIndexes& items, TrainingData& out) {
  return for_each_row(db, kViewCounts, [&](const database::PreparedStatement& row) {
    const auto item = items.find(row.text(0));
    if (item == items.end()) return;
    out.view_counts.push_back(
        {item->second, UnixSeconds{seconds{row.integer(1)}}, seconds{row.integer(2)}, row.integer(3)});
  });
}

Result<void> read_events(database::SqliteConnection& db, const TrainSettings& settings,
                         const ItemIndexes& items, TrainingData& out) {
  ReaderEventWindow newest(out.events, static_cast<std::size_t>(std::max(settings.max_per_reader, 1)));
  std::int64_t reader = -1;
  TrainingEvent event;
  bool first = true;
  auto read = for_each_row(db, kEvents, [&](const database::PreparedStatement& row) {
    if (row.integer(0) != reader) {
      newest.end_reader();
      reader = row.integer(0);
      if (!std::exchange(first, false)) ++event.reader;
    }
    const auto item = items.find(row.text(1));
    const auto kind =
        row.text(2).size() == 1 ? readers::interaction_from_letter(row.text(2)[0]) : std::nullopt;
    if (item == items.end() || !kind) return;
    event.item = item->second;
    event.kind = *kind;
    event.at = UnixSeconds{seconds{row.integer(3)}};
    newest.add(event);
  });
  newest.end_reader();
  return read;
}

}  // namespace

Result<TrainingData> read_training_data(const std::string& database, const TrainSettings& settings,
                                        UnixSeconds now) {
  FRESHET_TRY(db, database::SqliteConnection::open(database, SQLITE_OPEN_READONLY | SQLITE_OPEN_NOMUTEX));
  if (auto ok = database::prepare_file(*db, false); !ok) return tl::unexpected(ok.error());
  // One snapshot for all queries; it ends with the connection.
  if (auto ok = db->execute("BEGIN"); !ok) return tl::unexpected(ok.error());
  TrainingData out;
  out.now = now;
  if (auto ok = read_items(*db, out); !ok) return tl::unexpected(ok.error());
  ItemIndexes items;
  items.reserve(out.items.size());
  for (std::size_t i = 0; i < out.items.size(); ++i)
    items.emplace(out.items[i].id, static_cast<std::uint32_t>(i));
  if (auto ok = read_events(*db, settings, items, out); !ok) return tl::unexpected(ok.error());
  if (auto ok = read_view_counts(*db, items, out); !ok) return tl::unexpected(ok.error());
  return out;
}

}  // namespace freshet::training
