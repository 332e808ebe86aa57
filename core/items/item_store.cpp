#include "core/items/item_store.h"

#include <algorithm>
#include <unordered_map>

#include "core/hot/engagement.h"
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

std::int64_t hour_of(std::string_view date) { return redis::whole(date) / kHourSeconds; }

Error first_error(const redis::Replies& replies) {
  for (const redis::Reply& each : replies) {
    if (redis::says(each.error(), redis::word::kStreamFull)) return redis::stream_full();
    if (each.is_error()) return redis::classify(each.error());
  }
  return {};
}

bool any_error(const redis::Replies& replies) {
  return std::any_of(replies.begin(), replies.end(), [](const auto& each) { return each.is_error(); });
}

}  // namespace

RedisItemStore::RedisItemStore(redis::Redis& redis, const Settings& settings, redis::Keys keys, Tell tell)
    : redis_(redis),
      engagement_(settings.engagement),
      formula_(hot::formula_argument(settings.engagement)),
      list_(settings.list),
      keys_(std::move(keys)),
      stream_max_(tell == Tell::kRecorder ? settings.recorder.stream_max_len : kNoStream) {}

Task<Result<void>> RedisItemStore::put(const Item& item) {
  std::vector<Change> one;
  one.push_back(Change{&item, false, {}, {}, {}});
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
      if (last[items[i].id.view()] == i) batch.push_back(Change{&items[i], false, {}, {}, {}});
    }
    if (auto ok = co_await write(std::move(batch)); !ok) co_return ok;
  }
  co_return Result<void>();
}

Task<Result<void>> RedisItemStore::remove(const ItemId& id) {
  Item item;
  item.id = id;
  std::vector<Change> one;
  one.push_back(Change{&item, true, {}, {}, {}});
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
  for (const Change& each : changes) {
    const std::string_view id = each.item->id.view();
    command.add("HMGET", keys_.item(id), "tags", "published_at").add("GET", keys_.first_ts(id));
  }
  FRESHET_CO_TRY(replies, co_await redis_.run(command));
  if (any_error(*replies)) co_return tl::unexpected(first_error(*replies));
  for (std::size_t i = 0; i < changes.size(); ++i) {
    const redis::Reply& item = (*replies)[2 * i];
    Change& change = changes[i];
    change.old_tags = std::string(redis::text_at(item, 0));
    change.old_date =
        std::string(item[1].is_nil() ? (*replies)[2 * i + 1].string().value_or("") : redis::text_at(item, 1));
    change.gone.clear();
    for (const std::string_view tag : redis::words(change.old_tags)) {
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
  for (const Change& each : changes) append_put(command, each);
  FRESHET_CO_TRY(replies, co_await redis_.run(command));
  if (any_error(*replies)) co_return tl::unexpected(first_error(*replies));
  std::vector<Change> again;
  for (std::size_t i = 0; i < changes.size(); ++i) {
    if ((*replies)[i].string().value_or("") == redis::word::kRetry)
      again.push_back(Change{changes[i].item, changes[i].remove, {}, {}, {}});
  }
  co_return again;
}

void RedisItemStore::append_place_keys(Pipeline& out, const Change& change) const {
  out.arg(keys_.rank())
      .arg(keys_.score())
      .arg(keys_.published())
      .arg(keys_.current_index())
      .arg(keys_.hidden())
      .arg(keys_.epoch())
      .arg(keys_.newest())
      .arg(keys_.current(hour_of(change.old_date)))
      .arg(keys_.current(unix_s(change.item->published_at) / kHourSeconds));
  for (const std::string_view tag : change.gone) out.arg(keys_.tag(tag));
  for (const TagName& tag : change.item->tags) out.arg(keys_.tag(tag.view()));
}

void RedisItemStore::append_put(Pipeline& out, const Change& change) const {
  const Item& item = *change.item;
  const std::string_view id = item.id.view();
  const auto fields = fields_of(item);
  out.script(scripts::kItemPut, 17 + change.gone.size() + item.tags.size(), 11 + 2 * fields.size())
      .arg(keys_.item(id))
      .arg(keys_.first_ts(id))
      .arg(keys_.pv(id))
      .arg(keys_.uv_hll(id))
      .arg(keys_.dwell_sum(id))
      .arg(keys_.dwell_count(id))
      .arg(keys_.views(id))
      .arg(keys_.stream());
  append_place_keys(out, change);
  out.arg(id).arg(change.old_tags).arg(change.old_date).arg(change.remove ? 1 : 0).arg(item.hidden ? 1 : 0);
  out.arg(unix_s(item.published_at))
      .arg(formula_)
      .arg(engagement_.counter_ttl.count())
      .arg(list_.max_members)
      .arg(change.gone.size())
      .arg(stream_max_);
  for (const auto& [name, value] : fields) out.arg(name).arg(value);
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
  for (std::size_t i = 0; i < values.size(); ++i) values[i] = redis::text_at(fields, i);
  return item_of(id, values);
}

Task<Result<std::vector<ItemCard>>> RedisItemStore::cards(const std::vector<ItemId>& ids) {
  std::vector<ItemCard> out;
  if (ids.empty()) co_return out;
  Pipeline command;
  for (const ItemId& id : ids) append_card(command, keys_, id);
  FRESHET_CO_TRY(replies, co_await redis_.run(command));
  if (any_error(*replies)) co_return tl::unexpected(first_error(*replies));
  out.reserve(ids.size());
  for (const redis::Reply& fields : *replies) out.push_back(card_of(fields));
  co_return out;
}

void append_card(Pipeline& out, const redis::Keys& keys, const ItemId& id) {
  out.add("HMGET", keys.item(id.view()), "published_at", "title", "url", "author", "tags", "update_time",
          "hidden");
}

ItemCard card_of(const redis::Reply& fields) {
  ItemCard card;
  card.known = fields.size() > 0 && !fields[0].is_nil();
  if (card.known) card.shown_from = UnixSeconds{seconds{redis::whole(redis::text_at(fields, 0))}};
  if (redis::text_at(fields, 6) == "1") card.shown_from = kNever;
  if (!card.known) return card;
  card.title = std::string(redis::text_at(fields, 1));
  card.url = std::string(redis::text_at(fields, 2));
  card.author = std::string(redis::text_at(fields, 3));
  for (const std::string_view tag : redis::words(redis::text_at(fields, 4))) card.tags.emplace_back(tag);
  const std::string_view updated = redis::text_at(fields, 5);
  card.update_time = redis::whole(updated.empty() ? redis::text_at(fields, 0) : updated);
  return card;
}

}  // namespace freshet::items
