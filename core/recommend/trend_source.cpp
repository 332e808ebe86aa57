#include "core/recommend/trend_source.h"

#include <algorithm>
#include <array>
#include <unordered_set>

#include "core/base/utf8.h"
#include "core/items/ports.h"
#include "core/redis/fields.h"
#include "core/redis/partitions/partitioned_top_n.h"
#include "core/search/readable_text.h"

namespace freshet::recommend {
namespace {

using redis::Pipeline;

// Items per round trip. Keeps Redis busy for a fraction of a millisecond, because readers' requests
// queue behind it.
constexpr std::size_t kChunkItems = 125;
// The beginning of a long text is enough to classify it.
constexpr std::size_t kMaxTextBytes = 16UL * 1024;

UnixSeconds parse_time(std::string_view text) { return UnixSeconds{seconds{redis::to_int(text)}}; }

// Returns whether there is a model and it lacks the item, so that the item's content must be
// loaded.
bool is_missing(const model::Model* model, std::string_view id) {
  return model != nullptr && !model->find(id);
}

}  // namespace

TrendSource::TrendSource(redis::Redis& redis, const Settings& settings, redis::Keys keys)
    : redis_(redis), all_settings_(settings), settings_(settings.recommend), keys_(std::move(keys)) {}

Task<Result<std::vector<LiveItem>>> TrendSource::read(std::shared_ptr<const model::Model> model) {
  FRESHET_CO_TRY(ids, co_await read_heads());
  FRESHET_CO_TRY(loaded, co_await load_metadata(*ids, model.get()));
  const UnixSeconds now = wall_now();
  std::erase_if(*ids, [&](const std::string& id) {
    const CachedItem& cached = cache_.at(id);
    return cached.hidden || cached.item.published > now;
  });
  const bool none_registered = std::none_of(
      ids->begin(), ids->end(), [this](const std::string& id) { return cache_.at(id).registered; });
  if (!none_registered)
    std::erase_if(*ids, [this](const std::string& id) { return !cache_.at(id).registered; });
  std::vector<LiveItem> out;
  out.reserve(ids->size());
  for (const std::string& id : *ids) {
    const CachedItem& cached = cache_.at(id);
    out.push_back(cached.item);
    if (model && cached.has_content) out.back().terms = model::content_vector(*model, cached.content);
  }
  FRESHET_CO_TRY(counted, co_await read_counts(out));
  co_return out;
}

Task<Result<std::vector<std::string>>> TrendSource::read_heads() {
  using redis::PartitionedTopN, redis::PartitionKeys;
  std::array lists{
      PartitionedTopN(keys_, settings_.trend_items,
                      [](const PartitionKeys& partition) { return partition.rank(hot::kViewsModel); }),
      PartitionedTopN(keys_, settings_.trend_items,
                      [](const PartitionKeys& partition) { return partition.rank(hot::kEngagementModel); }),
      PartitionedTopN(keys_, settings_.trend_items,
                      [](const PartitionKeys& partition) { return partition.rank(hot::kTrendingModel); }),
      PartitionedTopN(
          keys_, settings_.newest_items, [](const PartitionKeys& partition) { return partition.newest(); },
          unix_s(wall_now()))};
  Pipeline command;
  command.add("GET", keys_.epoch()).barrier();  // so the data is at least as new as the epoch
  for (PartitionedTopN& each : lists) each.append(command);
  FRESHET_CO_TRY(replies, co_await redis::run_all(redis_, command));
  const std::string epoch(replies->front().text());
  if (epoch != epoch_) cache_.clear();
  epoch_ = epoch;
  const redis::Reply* at = &(*replies)[1];
  for (PartitionedTopN& each : lists) each.consume(at);
  FRESHET_CO_TRY(rest, co_await redis::read_remaining(redis_, lists));
  std::vector<std::string> ids;
  std::unordered_set<std::string> seen;
  for (const PartitionedTopN& each : lists) {
    for (const std::string& id : each.members()) {
      if (seen.insert(id).second) ids.push_back(id);
    }
  }
  std::erase_if(cache_, [&](const auto& each) { return !seen.contains(each.first); });
  co_return ids;
}

bool TrendSource::needs_load(const std::string& id, const model::Model* model, Clock::time_point now) const {
  const auto cached = cache_.find(id);
  if (cached == cache_.end() || now - cached->second.read >= settings_.card_ttl) return true;
  return !cached->second.has_content && is_missing(model, id);
}

TrendSource::CachedItem TrendSource::parse_item(const std::string& id, const redis::Reply& fields,
                                                const redis::Reply& first_seen, bool has_content) const {
  CachedItem item;
  item.read = Clock::now();
  item.registered = !redis::string_at(fields, 0).empty();
  item.hidden = redis::string_at(fields, 4) == "1";
  item.item.id = id;
  item.item.title = std::string(redis::string_at(fields, 1));
  item.item.author = std::string(redis::string_at(fields, 2));
  item.item.author_id = std::string(redis::string_at(fields, 6));
  for (const std::string_view tag : redis::split_words(redis::string_at(fields, 3), kIdSeparator))
    item.item.tags.emplace_back(tag);
  item.item.published = parse_time(item.registered ? redis::string_at(fields, 0) : first_seen.text());
  item.has_content = has_content;
  if (has_content) {
    const auto format = items::text_format_of(redis::string_at(fields, 7));
    const std::string_view text = utf8::prefix(redis::string_at(fields, 5), kMaxTextBytes);
    std::string buffer;
    item.content = model::content_terms(
        item.item.title, search::readable_text(text, format.value_or(items::TextFormat::kPlain), buffer),
        item.item.tags);
  }
  return item;
}

Task<Result<void>> TrendSource::load_metadata(const std::vector<std::string>& ids,
                                              const model::Model* model) {
  const auto now = Clock::now();
  std::vector<std::string> to_load;
  std::copy_if(ids.begin(), ids.end(), std::back_inserter(to_load),
               [&](const std::string& id) { return needs_load(id, model, now); });
  for (std::size_t from = 0; from < to_load.size(); from += kChunkItems) {
    const std::size_t end = std::min(from + kChunkItems, to_load.size());
    Pipeline command;
    for (std::size_t i = from; i < end; ++i) {
      // If the text is not needed, a short field takes its place in the reply.
      const std::string_view text = is_missing(model, to_load[i]) ? "text" : "hidden";
      command.add("HMGET", keys_.item(to_load[i]), "published_at", "title", "author", "tags", "hidden", text,
                  "author_id", "text_format");
      command.add("HGET", keys_.article(to_load[i]), "first");
    }
    FRESHET_CO_TRY(replies, co_await redis::run_all(redis_, command));
    for (std::size_t i = from; i < end; ++i) {
      const std::size_t reply = 2 * (i - from);
      cache_.insert_or_assign(to_load[i], parse_item(to_load[i], (*replies)[reply], (*replies)[reply + 1],
                                                     is_missing(model, to_load[i])));
    }
  }
  co_return Result<void>();
}

Task<Result<void>> TrendSource::read_counts(std::vector<LiveItem>& items) {
  for (std::size_t from = 0; from < items.size(); from += kChunkItems) {
    const std::size_t end = std::min(from + kChunkItems, items.size());
    Pipeline command;
    for (std::size_t i = from; i < end; ++i) hot::append_article_read(command, keys_, items[i].id);
    FRESHET_CO_TRY(replies, co_await redis::run_all(redis_, command));
    for (std::size_t i = from; i < end; ++i) {
      const hot::Article article = hot::parse_article((*replies)[i - from], wall_now(), all_settings_);
      items[i].points = std::max(article.views_total, static_cast<double>(article.counts.pv));
      items[i].trend = article.trend;
      items[i].exposure = {static_cast<double>(std::max(article.views, article.counts.pv)),
                           static_cast<double>(article.impressions)};
    }
  }
  co_return Result<void>();
}

Task<Result<std::vector<items::Covisit>>> TrendSource::covisits(const ItemId& item) {
  Pipeline command;
  command.add("GET", keys_.covisits(item.view()));
  FRESHET_CO_TRY(reply, co_await redis::run_one(redis_, command));
  co_return items::parse_covisits(reply->text());
}

}  // namespace freshet::recommend
