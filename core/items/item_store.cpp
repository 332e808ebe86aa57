#include "core/items/item_store.h"

#include <algorithm>
#include <unordered_map>
#include <unordered_set>

#include "core/base/utf8.h"
#include "core/hot/article.h"
#include "core/hot/rank_updater.h"
#include "core/items/card_json.h"
#include "core/items/item_fields.h"
#include "core/redis/fields.h"
#include "core/redis/script_errors.h"
#include "core/redis/scripts.h"

namespace freshet::items {
namespace {

using redis::Pipeline;

constexpr std::size_t kBatchSize = 500;
// Writers of one item rarely conflict; one that loses this many times returns an error.
constexpr int kMaxAttempts = 4;

// Fields that pages show; lists show the first kListFieldCount.
constexpr std::array<std::string_view, 9> kCardFields{"published_at", "title",  "url",     "author",   "tags",
                                                      "update_time",  "hidden", "deleted", "author_id"};
constexpr std::size_t kListFieldCount = 5, kTags = 4, kHidden = 6, kDeleted = 7;

std::int64_t hour_of(std::string_view date) { return redis::to_int(date) / kHourSeconds; }

}  // namespace

RedisItemStore::RedisItemStore(redis::Redis& redis, const Settings& settings, redis::Keys keys,
                               StreamPolicy stream_policy)
    : redis_(redis),
      settings_(settings),
      keys_(std::move(keys)),
      stream_max_(stream_policy == StreamPolicy::kAppend
                      ? keys_.per_partition(settings.recorder.stream_max_len)
                      : kNoStream) {}

Task<Result<void>> RedisItemStore::put(const Item& item) {
  std::vector<ItemWrite> one;
  one.push_back(ItemWrite{&item, false, {}, {}, {}, {}});
  co_return co_await write(std::move(one));
}

Task<Result<void>> RedisItemStore::put_many(const std::vector<Item>& items) {
  for (std::size_t from = 0; from < items.size(); from += kBatchSize) {
    const std::size_t end = std::min(from + kBatchSize, items.size());
    // If an item occurs more than once, write only the last: the others would conflict with it.
    std::unordered_map<std::string_view, std::size_t> last;
    for (std::size_t i = from; i < end; ++i) last[items[i].id.view()] = i;
    std::vector<ItemWrite> batch;
    for (std::size_t i = from; i < end; ++i) {
      if (last[items[i].id.view()] == i) batch.push_back(ItemWrite{&items[i], false, {}, {}, {}, {}});
    }
    if (auto ok = co_await write(std::move(batch)); !ok) co_return ok;
  }
  co_return Result<void>();
}

Task<Result<void>> RedisItemStore::remove(const ItemId& id) {
  Item item;
  item.id = id;
  std::vector<ItemWrite> one;
  one.push_back(ItemWrite{&item, true, {}, {}, {}, {}});
  co_return co_await write(std::move(one));
}

// --- writing: read, write, and retry what changed in between

Task<Result<void>> RedisItemStore::write(std::vector<ItemWrite> writes) {
  for (int attempt = 0; attempt < kMaxAttempts && !writes.empty(); ++attempt) {
    if (auto read = co_await read_current(writes); !read) co_return read;
    FRESHET_CO_TRY(retry, co_await write_once(writes));
    writes = std::move(*retry);
  }
  if (!writes.empty())
    co_return fail(ErrorCode::kConflict, "write_conflict", "id", writes.front().item->id.str());
  co_return Result<void>();
}

Task<Result<void>> RedisItemStore::read_current(std::vector<ItemWrite>& writes) {
  Pipeline command;
  std::vector<std::int64_t> additions(keys_.partition_count());
  for (const ItemWrite& each : writes) ++additions[keys_.partition_of(each.item->id.view())];
  for (unsigned partition = 0; partition < additions.size(); ++partition) {
    if (additions[partition] > 0) command.add("XLEN", keys_.partition(partition).stream());
  }
  const std::size_t streams = command.size();
  for (const ItemWrite& each : writes) {
    const std::string_view id = each.item->id.view();
    command.command(3 + kCardFields.size()).arg("HMGET").arg(keys_.item(id)).arg("rev");
    for (const std::string_view name : kCardFields) command.arg(name);
    command.add("HMGET", keys_.article(id), "date", "first");
  }
  FRESHET_CO_TRY(replies, co_await redis::run_all(redis_, command));
  std::erase(additions, 0);
  for (std::size_t i = 0; i < streams && stream_max_ != kNoStream; ++i) {
    // With several streams, an empty one accepts a batch of any size; otherwise an unevenly
    // distributed batch would never be accepted.
    const std::int64_t waiting = (*replies)[i].integer().value_or(0);
    if (waiting + additions[i] > stream_max_ && (waiting > 0 || keys_.partition_count() == 1))
      co_return redis::stream_full();
  }
  for (std::size_t i = 0; i < writes.size(); ++i) {
    const redis::Reply &fields = (*replies)[streams + 2 * i], &dates = (*replies)[streams + 2 * i + 1];
    ItemWrite& item_write = writes[i];
    item_write.rev = redis::string_at(fields, 0);
    for (std::size_t field = 0; field < kCardFields.size(); ++field)
      item_write.old_fields[field] = redis::string_at(fields, field + 1);
    item_write.old_date = std::string(redis::string_at(dates, dates[0].is_nil() ? 1 : 0));
    item_write.removed_tags.clear();
    std::unordered_set<std::string> keys;
    for (const TagName& tag : item_write.item->tags) keys.insert(utf8::fold(tag.view()));
    for (const std::string_view tag : redis::split_words(item_write.old_fields[kTags], kIdSeparator)) {
      std::string key = utf8::fold(tag);
      if (!keys.contains(key)) item_write.removed_tags.push_back(std::move(key));
    }
  }
  co_return Result<void>();
}

Task<Result<std::vector<RedisItemStore::ItemWrite>>> RedisItemStore::write_once(
    std::vector<ItemWrite>& writes) {
  Pipeline command;
  for (const ItemWrite& each : writes) append_index_update(command, each);
  if (stream_max_ != kNoStream) {
    for (const ItemWrite& each : writes) append_stream_entry(command, each);
  }
  command.barrier();
  for (const ItemWrite& each : writes) append_item_write(command, each);
  for (const ItemWrite& each : writes) hot::append_article_read(command, keys_, each.item->id.view());
  FRESHET_CO_TRY(replies, co_await redis::run_all(redis_, command));
  FRESHET_CO_TRY(finished, co_await finish(writes, *replies));
  const redis::Reply* put_reply = &(*replies)[replies->size() - 2 * writes.size()];
  std::vector<ItemWrite> retry;
  for (const ItemWrite& each : writes) {
    if ((put_reply++)->text() == redis::script_code::kRetry)
      retry.push_back(ItemWrite{each.item, each.remove, {}, {}, {}, {}});
  }
  co_return retry;
}

// `replies`: for each write that of item_index.lua; those of the stream entries; for each write
// that of item_put.lua, then its article.
Task<Result<void>> RedisItemStore::finish(const std::vector<ItemWrite>& writes,
                                          const redis::Replies& replies) {
  constexpr std::int64_t kListsOutdated = 2, kRanked = 1;
  const redis::Reply *index_replies = replies.data(),
                     *put_replies = &replies[replies.size() - 2 * writes.size()];
  const redis::Reply* article_replies = put_replies + writes.size();
  UnixSeconds now;
  hot::RankWrites rank_writes;
  Pipeline command;
  for (std::size_t i = 0; i < writes.size(); ++i) {
    const auto time = put_replies[i].integer();
    if (!time) continue;
    now = UnixSeconds{seconds{*time}};
    const std::string id = writes[i].item->id.str();
    hot::add_rank_writes(rank_writes, id, hot::parse_article(article_replies[i], now, settings_), settings_,
                         hot::RemovalPolicy::kNone);
    // Lists that show the item are outdated now, and so are the workers' cards
    // (core/items/card_cache.h).
    const std::int64_t index_result = index_replies[i].integer().value_or(0);
    const VisibleChange change = visible_change(writes[i]);
    if (index_result == kListsOutdated || visibility_changed(writes[i]) ||
        (index_result == kRanked && change == VisibleChange::kListRow))
      command.add("INCR", keys_.epoch()).add("PUBLISH", keys_.epoch(), "list " + id);
    else if (change != VisibleChange::kNone)
      command.add("PUBLISH", keys_.epoch(), "card " + id);
  }
  hot::append_rank_writes(command, rank_writes, now, settings_, keys_);
  if (command.empty()) co_return Result<void>();
  FRESHET_CO_TRY(done, co_await redis::run_all(redis_, command));
  co_return Result<void>();
}

// The item became hidden or visible. Needed in addition to the reply of item_index.lua: if that
// reply was lost, a retry does not return it again.
bool RedisItemStore::visibility_changed(const ItemWrite& item_write) {
  return (item_write.old_fields[kHidden] == "1") != (item_write.remove || item_write.item->hidden);
}

RedisItemStore::VisibleChange RedisItemStore::visible_change(const ItemWrite& item_write) {
  CardFields now;
  if (item_write.remove) {
    now[kHidden] = now[kDeleted] = "1";
  } else {
    for (auto& [name, value] : to_fields(*item_write.item)) {
      const auto field = std::ranges::find(kCardFields, name);
      if (field != kCardFields.end()) now[static_cast<std::size_t>(field - kCardFields.begin())] = value;
    }
  }
  const auto [before, differs] = std::ranges::mismatch(item_write.old_fields, now);
  if (differs == now.end()) return VisibleChange::kNone;
  return differs - now.begin() < std::ptrdiff_t{kListFieldCount} ? VisibleChange::kListRow
                                                                 : VisibleChange::kCard;
}

void RedisItemStore::append_index_update(Pipeline& out, const ItemWrite& item_write) const {
  const Item& item = *item_write.item;
  const redis::PartitionKeys partition = keys_.partition_for(item.id.view());
  out.script(scripts::kItemIndex)
      .key(partition.published())
      .key(partition.current_bucket_index())
      .key(partition.hidden())
      .key(partition.newest())
      .key(partition.current_bucket(hour_of(item_write.old_date)));
  for (const hot::Model& model : hot::kModels)
    out.key(partition.rank(model)).key(partition.rank_versions(model));
  for (const std::string& key : item_write.removed_tags) out.key(partition.tagged_items(key));
  for (const TagName& tag : item.tags) out.key(partition.tagged_items(utf8::fold(tag.view())));
  const std::int64_t date = unix_s(item.published_at);
  out.arg(item.id.view()).arg(item_write.remove ? 1 : 0).arg(item.hidden ? 1 : 0).arg(date);
  out.arg(std::to_string(date) != item_write.old_date ? 1 : 0).arg(settings_.engagement.counter_ttl.count());
  out.arg(hot::kModels.size()).arg(item_write.removed_tags.size());
}

void RedisItemStore::append_stream_entry(Pipeline& out, const ItemWrite& item_write) const {
  const std::string_view id = item_write.item->id.view();
  const std::string stream = keys_.partition_for(id).stream();
  if (item_write.remove) {
    out.add("XADD", stream, "*", "op", kOpDelete, "id", id);
    return;
  }
  const auto fields = to_fields(*item_write.item);
  out.command(7 + 2 * fields.size()).arg("XADD").arg(stream).arg("*");
  out.arg("op").arg(kOpPut).arg("id").arg(id);
  for (const auto& [name, value] : fields) out.arg(name).arg(value);
}

void RedisItemStore::append_item_write(Pipeline& out, const ItemWrite& item_write) const {
  const Item& item = *item_write.item;
  const std::string_view id = item.id.view();
  out.script(scripts::kItemPut).key(keys_.item(id)).key(keys_.article(id));
  out.arg(item_write.rev).arg(item_write.old_date).arg(item_write.remove ? 1 : 0).arg(item.hidden ? 1 : 0);
  out.arg(unix_s(item.published_at)).arg(settings_.engagement.counter_ttl.count());
  out.arg(settings_.views.base_hours).arg(settings_.views.gamma);
  for (const auto& [name, value] : to_fields(item)) out.arg(name).arg(value);
}

// --- reading

Task<Result<Item>> RedisItemStore::get(const ItemId& id) {
  Pipeline command;
  append_item_read(command, keys_, id);
  FRESHET_CO_TRY(reply, co_await redis::run_one(redis_, command));
  auto item = parse_item(id, *reply);
  if (!item) co_return fail(ErrorCode::kNotFound, "unknown_item", "id");
  co_return std::move(*item);
}

void append_item_read(Pipeline& out, const redis::Keys& keys, const ItemId& id) {
  out.command(2 + kItemFields.size()).arg("HMGET").arg(keys.item(id.view()));
  for (const std::string_view name : kItemFields) out.arg(name);
}

std::optional<Item> parse_item(const ItemId& id, const redis::Reply& fields) {
  ItemValues values;
  for (std::size_t i = 0; i < values.size(); ++i) values[i] = redis::string_at(fields, i);
  return parse_item(id, values);
}

Task<Result<std::vector<ItemCard>>> RedisItemStore::cards(const std::vector<ItemId>& ids) {
  std::vector<ItemCard> out;
  if (ids.empty()) co_return out;
  Pipeline command;
  for (const ItemId& id : ids) append_card_read(command, keys_, id);
  FRESHET_CO_TRY(replies, co_await redis::run_all(redis_, command));
  out.reserve(ids.size());
  for (const redis::Reply& fields : *replies) out.push_back(parse_card(fields));
  co_return out;
}

void append_card_read(Pipeline& out, const redis::Keys& keys, const ItemId& id) {
  out.command(2 + kCardFields.size()).arg("HMGET").arg(keys.item(id.view()));
  for (const std::string_view name : kCardFields) out.arg(name);
}

ItemCard parse_card(const redis::Reply& fields) {
  ItemCard card;
  card.known = fields.size() > 0 && !fields[0].is_nil();
  if (card.known) card.visible_from = UnixSeconds{seconds{redis::to_int(redis::string_at(fields, 0))}};
  if (redis::string_at(fields, 6) == "1") card.visible_from = kNever;
  card.deleted = redis::string_at(fields, 7) == "1";
  if (!card.known) return card;
  card.title = std::string(redis::string_at(fields, 1));
  card.url = std::string(redis::string_at(fields, 2));
  card.author = std::string(redis::string_at(fields, 3));
  card.author_id = std::string(redis::string_at(fields, 8));
  for (const std::string_view tag : redis::split_words(redis::string_at(fields, 4), kIdSeparator))
    card.tags.emplace_back(tag);
  const std::string_view updated = redis::string_at(fields, 5);
  card.update_time = redis::to_int(updated.empty() ? redis::string_at(fields, 0) : updated);
  card.json = to_json(card);
  return card;
}

}  // namespace freshet::items
