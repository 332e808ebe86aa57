#include "core/items/item_store.h"

#include <algorithm>
#include <unordered_map>

#include "core/hot/article.h"
#include "core/hot/placing.h"
#include "core/items/card_json.h"
#include "core/items/item_fields.h"
#include "core/redis/fields.h"
#include "core/redis/script_words.h"
#include "core/redis/scripts.h"

namespace freshet::items {
namespace {

using redis::Pipeline;

constexpr std::size_t kBatch = 500;
// Two writers of one item meet rarely; whoever loses so often is told.
constexpr int kAttempts = 4;

// What pages show of an item: lists the first five.
constexpr std::array<std::string_view, 8> kCardFields{"published_at", "title",       "url",    "author",
                                                      "tags",         "update_time", "hidden", "deleted"};
constexpr std::size_t kOfLists = 5, kTags = 4, kHidden = 6, kDeleted = 7;

std::int64_t hour_of(std::string_view date) { return redis::to_int(date) / kHourSeconds; }

}  // namespace

RedisItemStore::RedisItemStore(redis::Redis& redis, const Settings& settings, redis::Keys keys, Tell tell)
    : redis_(redis),
      settings_(settings),
      keys_(std::move(keys)),
      stream_max_(tell == Tell::kRecorder ? keys_.per_partition(settings.recorder.stream_max_len) : kNoStream) {}

Task<Result<void>> RedisItemStore::put(const Item& item) {
  std::vector<Change> one;
  one.push_back(Change{&item, false, {}, {}, {}, {}});
  co_return co_await write(std::move(one));
}

Task<Result<void>> RedisItemStore::put_many(const std::vector<Item>& items) {
  for (std::size_t from = 0; from < items.size(); from += kBatch) {
    const std::size_t end = std::min(from + kBatch, items.size());
    // Of an item that comes more than once only the last: the others would be in its way.
    std::unordered_map<std::string_view, std::size_t> last;
    for (std::size_t i = from; i < end; ++i) last[items[i].id.view()] = i;
    std::vector<Change> batch;
    for (std::size_t i = from; i < end; ++i) {
      if (last[items[i].id.view()] == i) batch.push_back(Change{&items[i], false, {}, {}, {}, {}});
    }
    if (auto ok = co_await write(std::move(batch)); !ok) co_return ok;
  }
  co_return Result<void>();
}

Task<Result<void>> RedisItemStore::remove(const ItemId& id) {
  Item item;
  item.id = id;
  std::vector<Change> one;
  one.push_back(Change{&item, true, {}, {}, {}, {}});
  co_return co_await write(std::move(one));
}

// --- read, write, and again whatever changed in between

Task<Result<void>> RedisItemStore::write(std::vector<Change> changes) {
  for (int attempt = 0; attempt < kAttempts && !changes.empty(); ++attempt) {
    if (auto read = co_await read_old(changes); !read) co_return read;
    FRESHET_CO_TRY(left, co_await write_once(changes));
    changes = std::move(*left);
  }
  if (!changes.empty())
    co_return fail(ErrorCode::kConflict, "item_busy", "id", changes.front().item->id.str());
  co_return Result<void>();
}

Task<Result<void>> RedisItemStore::read_old(std::vector<Change>& changes) {
  Pipeline command;
  std::vector<std::int64_t> more(keys_.partition_count());
  for (const Change& each : changes) ++more[keys_.partition_of(each.item->id.view())];
  for (unsigned group = 0; group < more.size(); ++group) {
    if (more[group] > 0) command.add("XLEN", keys_.partition(group).stream());
  }
  const std::size_t streams = command.size();
  for (const Change& each : changes) {
    const std::string_view id = each.item->id.view();
    command.command(3 + kCardFields.size()).arg("HMGET").arg(keys_.item(id)).arg("rev");
    for (const std::string_view name : kCardFields) command.arg(name);
    command.add("HMGET", keys_.article(id), "date", "first");
  }
  FRESHET_CO_TRY(replies, co_await redis::run_all(redis_, command));
  std::erase(more, 0);
  for (std::size_t i = 0; i < streams && stream_max_ != kNoStream; ++i) {
    // An empty stream of many takes any batch: else one that is uneven would never be taken.
    const std::int64_t waiting = (*replies)[i].integer().value_or(0);
    if (waiting + more[i] > stream_max_ && (waiting > 0 || keys_.partition_count() == 1))
      co_return redis::stream_full();
  }
  for (std::size_t i = 0; i < changes.size(); ++i) {
    const redis::Reply &was = (*replies)[streams + 2 * i], &dates = (*replies)[streams + 2 * i + 1];
    Change& change = changes[i];
    change.rev = redis::string_at(was, 0);
    for (std::size_t field = 0; field < kCardFields.size(); ++field)
      change.old[field] = redis::string_at(was, field + 1);
    change.old_date = std::string(redis::string_at(dates, dates[0].is_nil() ? 1 : 0));
    change.gone.clear();
    for (const std::string_view tag : redis::split_words(change.old[kTags])) {
      const auto& now = change.item->tags;
      const bool kept =
          std::any_of(now.begin(), now.end(), [&](const TagName& t) { return t.view() == tag; });
      if (!kept) change.gone.push_back(tag);
    }
  }
  co_return Result<void>();
}

Task<Result<std::vector<RedisItemStore::Change>>> RedisItemStore::write_once(std::vector<Change>& changes) {
  Pipeline command;
  for (const Change& each : changes) append_places(command, each);
  if (stream_max_ != kNoStream) {
    for (const Change& each : changes) append_entry(command, each);
  }
  command.barrier();
  for (const Change& each : changes) append_put(command, each);
  for (const Change& each : changes) hot::append_article(command, keys_, each.item->id.view());
  FRESHET_CO_TRY(replies, co_await redis::run_all(redis_, command));
  FRESHET_CO_TRY(finished, co_await finish(changes, *replies));
  const redis::Reply* put = &(*replies)[replies->size() - 2 * changes.size()];
  std::vector<Change> again;
  for (const Change& each : changes) {
    if ((put++)->text() == redis::word::kRetry)
      again.push_back(Change{each.item, each.remove, {}, {}, {}, {}});
  }
  co_return again;
}

// `replies`: of each change that of item_places.lua; those of the entries; of each that of
// item_put.lua, then its article.
Task<Result<void>> RedisItemStore::finish(const std::vector<Change>& changes, const redis::Replies& replies) {
  constexpr std::int64_t kLists = 2, kRanked = 1;
  const redis::Reply *stands = replies.data(), *put = &replies[replies.size() - 2 * changes.size()];
  const redis::Reply* article = put + changes.size();
  UnixSeconds now;
  hot::Places places;
  Pipeline command;
  for (std::size_t i = 0; i < changes.size(); ++i) {
    const auto time = put[i].integer();
    if (!time) continue;
    now = UnixSeconds{seconds{*time}};
    const std::string id = changes[i].item->id.str();
    hot::add_places(places, id, hot::article_of(article[i], now, settings_), settings_, hot::Leaves::kNone);
    // Lists that show it, or showed it a moment ago, are wrong now; what workers know of it is
    // (core/items/card_cache.h).
    const std::int64_t told = stands[i].integer().value_or(0);
    const Shows shows = changed(changes[i]);
    if (told == kLists || is_another_to_hide(changes[i]) || (told == kRanked && shows == Shows::kAnotherRow))
      command.add("INCR", keys_.epoch()).add("PUBLISH", keys_.epoch(), "list " + id);
    else if (shows != Shows::kTheSame)
      command.add("PUBLISH", keys_.epoch(), "card " + id);
  }
  hot::append_places(command, places, now, settings_, keys_);
  if (command.empty()) co_return Result<void>();
  FRESHET_CO_TRY(done, co_await redis::run_all(redis_, command));
  co_return Result<void>();
}

// Lists must show it no more, or again: what item_places.lua said may have reached nobody, and is
// not said twice.
bool RedisItemStore::is_another_to_hide(const Change& change) {
  return (change.old[kHidden] == "1") != (change.remove || change.item->hidden);
}

RedisItemStore::Shows RedisItemStore::changed(const Change& change) {
  CardTexts now;
  if (change.remove) {
    now[kHidden] = now[kDeleted] = "1";
  } else {
    for (auto& [name, value] : fields_of(*change.item)) {
      const auto field = std::ranges::find(kCardFields, name);
      if (field != kCardFields.end()) now[static_cast<std::size_t>(field - kCardFields.begin())] = value;
    }
  }
  const auto [before, differs] = std::ranges::mismatch(change.old, now);
  if (differs == now.end()) return Shows::kTheSame;
  return differs - now.begin() < std::ptrdiff_t{kOfLists} ? Shows::kAnotherRow : Shows::kAnotherCard;
}

void RedisItemStore::append_places(Pipeline& out, const Change& change) const {
  const Item& item = *change.item;
  const redis::PartitionKeys group = keys_.partition_for(item.id.view());
  out.script(scripts::kItemPlaces)
      .key(group.published())
      .key(group.current_bucket_index())
      .key(group.hidden())
      .key(group.newest())
      .key(group.current_bucket(hour_of(change.old_date)));
  for (const hot::Model& model : hot::kModels) out.key(group.rank(model)).key(group.rank_versions(model));
  for (const std::string_view tag : change.gone) out.key(group.tagged_items(tag));
  for (const TagName& tag : item.tags) out.key(group.tagged_items(tag.view()));
  const std::int64_t date = unix_s(item.published_at);
  out.arg(item.id.view()).arg(change.remove ? 1 : 0).arg(item.hidden ? 1 : 0).arg(date);
  out.arg(std::to_string(date) != change.old_date ? 1 : 0).arg(settings_.engagement.counter_ttl.count());
  out.arg(hot::kModels.size()).arg(change.gone.size());
}

void RedisItemStore::append_entry(Pipeline& out, const Change& change) const {
  const std::string_view id = change.item->id.view();
  const std::string stream = keys_.partition_for(id).stream();
  if (change.remove) {
    out.add("XADD", stream, "*", "op", kOpDelete, "id", id);
    return;
  }
  const auto fields = fields_of(*change.item);
  out.command(7 + 2 * fields.size()).arg("XADD").arg(stream).arg("*");
  out.arg("op").arg(kOpPut).arg("id").arg(id);
  for (const auto& [name, value] : fields) out.arg(name).arg(value);
}

void RedisItemStore::append_put(Pipeline& out, const Change& change) const {
  const Item& item = *change.item;
  const std::string_view id = item.id.view();
  out.script(scripts::kItemPut).key(keys_.item(id)).key(keys_.article(id));
  out.arg(change.rev).arg(change.old_date).arg(change.remove ? 1 : 0).arg(item.hidden ? 1 : 0);
  out.arg(unix_s(item.published_at)).arg(settings_.engagement.counter_ttl.count());
  for (const auto& [name, value] : fields_of(item)) out.arg(name).arg(value);
}

// --- reading

Task<Result<Item>> RedisItemStore::get(const ItemId& id) {
  Pipeline command;
  append_item(command, keys_, id);
  FRESHET_CO_TRY(reply, co_await redis::run_one(redis_, command));
  auto item = item_of(id, *reply);
  if (!item) co_return fail(ErrorCode::kNotFound, "unknown_item", "id");
  co_return std::move(*item);
}

void append_item(Pipeline& out, const redis::Keys& keys, const ItemId& id) {
  out.command(2 + kItemFields.size()).arg("HMGET").arg(keys.item(id.view()));
  for (const std::string_view name : kItemFields) out.arg(name);
}

std::optional<Item> item_of(const ItemId& id, const redis::Reply& fields) {
  ItemValues values;
  for (std::size_t i = 0; i < values.size(); ++i) values[i] = redis::string_at(fields, i);
  return item_of(id, values);
}

Task<Result<std::vector<ItemCard>>> RedisItemStore::cards(const std::vector<ItemId>& ids) {
  std::vector<ItemCard> out;
  if (ids.empty()) co_return out;
  Pipeline command;
  for (const ItemId& id : ids) append_card(command, keys_, id);
  FRESHET_CO_TRY(replies, co_await redis::run_all(redis_, command));
  out.reserve(ids.size());
  for (const redis::Reply& fields : *replies) out.push_back(card_of(fields));
  co_return out;
}

void append_card(Pipeline& out, const redis::Keys& keys, const ItemId& id) {
  out.command(2 + kCardFields.size()).arg("HMGET").arg(keys.item(id.view()));
  for (const std::string_view name : kCardFields) out.arg(name);
}

ItemCard card_of(const redis::Reply& fields) {
  ItemCard card;
  card.known = fields.size() > 0 && !fields[0].is_nil();
  if (card.known) card.shown_from = UnixSeconds{seconds{redis::to_int(redis::string_at(fields, 0))}};
  if (redis::string_at(fields, 6) == "1") card.shown_from = kNever;
  card.deleted = redis::string_at(fields, 7) == "1";
  if (!card.known) return card;
  card.title = std::string(redis::string_at(fields, 1));
  card.url = std::string(redis::string_at(fields, 2));
  card.author = std::string(redis::string_at(fields, 3));
  for (const std::string_view tag : redis::split_words(redis::string_at(fields, 4))) card.tags.emplace_back(tag);
  const std::string_view updated = redis::string_at(fields, 5);
  card.update_time = redis::to_int(updated.empty() ? redis::string_at(fields, 0) : updated);
  card.json = json_of(card);
  return card;
}

}  // namespace freshet::items
