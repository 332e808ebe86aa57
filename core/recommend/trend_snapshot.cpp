#include "core/recommend/trend_snapshot.h"

#include <algorithm>
#include <array>
#include <unordered_set>

#include "core/hot/article.h"
#include "core/redis/fields.h"
#include "core/redis/groups/group_merge.h"

namespace freshet::recommend {
namespace {

using redis::Pipeline;

// Commands a round trip: a fraction of a millisecond of Redis' time, since readers' requests wait
// behind them.
constexpr std::size_t kChunkItems = 125;
// Of a longer text the beginning says what it is about.
constexpr std::size_t kMostText = 16UL * 1024;

UnixSeconds at(std::string_view text) { return UnixSeconds{seconds{redis::to_int(text)}}; }

// Whether its content must be known here, since the model has none.
bool is_new(const model::Model* model, std::string_view id) { return model != nullptr && !model->find(id); }

}  // namespace

TrendReader::TrendReader(redis::Redis& redis, const Settings& settings, redis::Keys keys)
    : redis_(redis), site_(settings), settings_(settings.recommend), keys_(std::move(keys)) {}

Task<Result<std::vector<LiveItem>>> TrendReader::read(std::shared_ptr<const model::Model> model) {
  FRESHET_CO_TRY(ids, co_await heads());
  FRESHET_CO_TRY(learnt, co_await learn(*ids, model.get()));
  const UnixSeconds now = wall_now();
  std::erase_if(*ids, [&](const std::string& id) {
    const Known& known = known_.at(id);
    return known.hidden || known.item.published > now;
  });
  const bool none_put =
      std::none_of(ids->begin(), ids->end(), [this](const std::string& id) { return known_.at(id).put; });
  if (!none_put) std::erase_if(*ids, [this](const std::string& id) { return !known_.at(id).put; });
  FRESHET_CO_TRY(worth, co_await points(*ids));
  std::vector<LiveItem> out;
  out.reserve(ids->size());
  for (std::size_t i = 0; i < ids->size(); ++i) {
    const Known& known = known_.at((*ids)[i]);
    out.push_back(known.item);
    out.back().points = (*worth)[i];
    if (model && known.with_content) out.back().terms = model::content_vector(*model, known.content);
  }
  co_return out;
}

Task<Result<std::vector<std::string>>> TrendReader::heads() {
  using redis::PartitionedTopN, redis::PartitionKeys;
  std::array lists{
      PartitionedTopN(keys_, settings_.trend_items, [](const PartitionKeys& of) { return of.rank(hot::kViewsModel); }),
      PartitionedTopN(keys_, settings_.trend_items, [](const PartitionKeys& of) { return of.rank(hot::kEngagementModel); }),
      PartitionedTopN(
          keys_, settings_.newest_items, [](const PartitionKeys& of) { return of.newest(); }, unix_s(wall_now()))};
  Pipeline command;
  command.add("GET", keys_.epoch()).barrier();  // what is read is never older than it
  for (PartitionedTopN& each : lists) each.append(command);
  FRESHET_CO_TRY(replies, co_await redis::run_all(redis_, command));
  const std::string epoch(replies->front().text());
  if (epoch != epoch_) known_.clear();
  epoch_ = epoch;
  const redis::Reply* at = &(*replies)[1];
  for (PartitionedTopN& each : lists) each.consume(at);
  FRESHET_CO_TRY(rest, co_await redis::read_remaining(redis_, lists));
  std::vector<std::string> ids;
  std::unordered_set<std::string> taken;
  for (const PartitionedTopN& each : lists) {
    for (const std::string& id : each.members()) {
      if (taken.insert(id).second) ids.push_back(id);
    }
  }
  std::erase_if(known_, [&](const auto& each) { return !taken.contains(each.first); });
  co_return ids;
}

bool TrendReader::must_learn(const std::string& id, const model::Model* model, Clock::time_point now) const {
  const auto known = known_.find(id);
  if (known == known_.end() || now - known->second.read >= settings_.card_ttl) return true;
  return !known->second.with_content && is_new(model, id);
}

TrendReader::Known TrendReader::known_of(const std::string& id, const redis::Reply& fields,
                                         const redis::Reply& first_seen, bool with_content) const {
  Known known;
  known.read = Clock::now();
  known.put = !redis::string_at(fields, 0).empty();
  known.hidden = redis::string_at(fields, 4) == "1";
  known.item.id = id;
  known.item.title = std::string(redis::string_at(fields, 1));
  known.item.author = std::string(redis::string_at(fields, 2));
  for (const std::string_view tag : redis::split_words(redis::string_at(fields, 3)))
    known.item.tags.emplace_back(tag);
  known.item.published = at(known.put ? redis::string_at(fields, 0) : first_seen.text());
  known.with_content = with_content;
  if (with_content) {
    const std::string_view text = redis::string_at(fields, 5).substr(0, kMostText);
    known.content = model::content_terms(known.item.title, text, known.item.tags);
  }
  return known;
}

Task<Result<void>> TrendReader::learn(const std::vector<std::string>& ids, const model::Model* model) {
  const auto now = Clock::now();
  std::vector<std::string> unknown;
  std::copy_if(ids.begin(), ids.end(), std::back_inserter(unknown),
               [&](const std::string& id) { return must_learn(id, model, now); });
  for (std::size_t from = 0; from < unknown.size(); from += kChunkItems) {
    const std::size_t end = std::min(from + kChunkItems, unknown.size());
    Pipeline command;
    for (std::size_t i = from; i < end; ++i) {
      // Without a need for the text a short field stands in its place.
      const std::string_view text = is_new(model, unknown[i]) ? "text" : "hidden";
      command.add("HMGET", keys_.item(unknown[i]), "published_at", "title", "author", "tags", "hidden", text);
      command.add("HGET", keys_.article(unknown[i]), "first");
    }
    FRESHET_CO_TRY(replies, co_await redis_.run(command));
    for (std::size_t i = from; i < end; ++i) {
      const std::size_t reply = 2 * (i - from);
      known_.insert_or_assign(unknown[i], known_of(unknown[i], (*replies)[reply], (*replies)[reply + 1],
                                                   is_new(model, unknown[i])));
    }
  }
  co_return Result<void>();
}

Task<Result<std::vector<double>>> TrendReader::points(const std::vector<std::string>& ids) {
  std::vector<double> out;
  out.reserve(ids.size());
  for (std::size_t from = 0; from < ids.size(); from += kChunkItems) {
    const std::size_t end = std::min(from + kChunkItems, ids.size());
    Pipeline command;
    for (std::size_t i = from; i < end; ++i) hot::append_article_read(command, keys_, ids[i]);
    FRESHET_CO_TRY(replies, co_await redis_.run(command));
    for (const redis::Reply& each : *replies) {
      const hot::Article article = hot::parse_article(each, wall_now(), site_);
      out.push_back(std::max(article.views_total, static_cast<double>(article.counts.pv)));
    }
  }
  co_return out;
}

}  // namespace freshet::recommend
