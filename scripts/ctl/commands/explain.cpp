#include "scripts/ctl/commands/explain.h"

#include <fmt/format.h>

#include <unordered_map>
#include <unordered_set>

#include "core/feed/recall.h"
#include "core/items/item_store.h"
#include "core/readers/reader_store.h"
#include "core/recommend/reason_text.h"
#include "core/recommend/recommendations.h"
#include "core/recommend/recommender.h"
#include "core/redis/scripts.h"
#include "core/redis/sync_redis.h"
#include "scripts/ctl/commands/without_worker.h"

namespace freshet::ctl {
namespace {

constexpr std::size_t kFirst = 100;  // candidates shown without --all
constexpr std::size_t kIdColumn = 24;

Result<recommend::Exclude> exclude_named(const std::string& name) {
  if (name == "hard") return recommend::Exclude::kHard;
  if (name == "soft") return recommend::Exclude::kSoft;
  if (name == "off") return recommend::Exclude::kOff;
  return fail(ErrorCode::kInvalid, "bad_exclude", "exclude", "--exclude is hard, soft or off");
}

std::string_view name_of(recommend::Source source) {
  switch (source) {
    case recommend::Source::kTrend:
      return "trend";
    case recommend::Source::kAffinity:
      return "affinity";
    case recommend::Source::kNewest:
      return "newest";
  }
  return "";
}

class DirectRecall final : public feed::Recall {
 public:
  explicit DirectRecall(const Settings& settings) : searcher_(settings) {}
  Task<Result<feed::Recalled>> search(feed::RecallQuery query) override { co_return searcher_.search(query); }

 private:
  feed::BlockingRecall searcher_;
};

class Table {
 public:
  explicit Table(const recommend::Explained& explained) : explained_(explained) {
    for (std::size_t i = 0; i < explained.page.items.size(); ++i)
      place_.emplace(explained.page.items[i].id.view(), i);
  }

  void print(std::size_t most) const {
    fmt::print("{:<{}} {:>12} {:>10} {:>9} {:>9} {:>9} {:>9} {:>8} {:>6} {:<8} {}\n", "item", kIdColumn,
               "score", "trend", "affinity", "cf", "content", "points", "age h", "factor", "source",
               "what became of it");
    const auto& choices = explained_.selection->choices();
    for (std::size_t i = 0; i < std::min(most, choices.size()); ++i) print_row(choices[i], i);
    if (choices.size() > most) fmt::print("… and {} more (--all)\n", choices.size() - most);
    print_filled_up();
  }

 private:
  std::string_view id(const recommend::Choice& choice) const { return explained_.selection->id(choice); }

  void print_row(const recommend::Choice& choice, std::size_t at) const {
    const recommend::Ranked& each = *choice.ranked;
    fmt::print("{:<{}} {:>12.6g} {:>10.4g} {:>9.4g} {:>9.4g} {:>9.4g} {:>9.4g} {:>8.1f} {:>6.3g} {:<8} {}\n",
               id(choice), kIdColumn, choice.score(), each.trend, each.affinity, each.cf, each.content,
               each.points, each.age_hours, choice.factor, each.discovery ? "discover" : name_of(each.source),
               verdict(choice, at));
  }

  // What the search index filled the page up with stands among no choices.
  void print_filled_up() const {
    std::unordered_set<std::string_view> chosen;
    for (const recommend::Choice& each : explained_.selection->choices()) chosen.insert(id(each));
    const auto& page = explained_.page.items;
    for (std::size_t i = 0; i < page.size(); ++i) {
      if (!chosen.contains(page[i].id.view()))
        fmt::print("{:<{}} from the index, served as {}: {}\n", page[i].id.view(), kIdColumn, i + 1,
                   recommend::reason_text(page[i].reason));
    }
  }

  std::string verdict(const recommend::Choice& choice, std::size_t at) const {
    switch (choice.verdict) {
      case recommend::Verdict::kInteracted:
        return "dropped: interacted with";
      case recommend::Verdict::kViewed:
        return "dropped: viewed lately";
      case recommend::Verdict::kNotInterested:
        return "dropped: not interested";
      case recommend::Verdict::kEligible:
        break;
    }
    const auto place = place_.find(id(choice));
    if (place != place_.end()) {
      return fmt::format("served as {}: {}", place->second + 1,
                         recommend::reason_text(explained_.page.items[place->second].reason));
    }
    if (explained_.unshowable.contains(std::string(id(choice)))) return "dropped: hidden or not an item";
    return at <= last_position() ? "dropped: enough of its author or tag" : "below the page";
  }

  // Where in the choices the lowest served one stands.
  std::size_t last_position() const {
    const auto& choices = explained_.selection->choices();
    for (std::size_t i = choices.size(); i > 0; --i) {
      if (place_.contains(id(choices[i - 1]))) return i - 1;
    }
    return 0;
  }

  const recommend::Explained& explained_;
  std::unordered_map<std::string_view, std::size_t> place_;
};

void print_reader(const ReaderId& reader, const recommend::Explained& explained) {
  const readers::ReaderState& state = explained.state;
  const recommend::ExcludedCounts& out = explained.page.excluded;
  fmt::print("reader {}: {} topics and {} replies viewed, {} interactions, {} dismissed\n", reader.view(),
             state.topics.size(), state.replies.size(), state.done.size(), state.dismissed.size());
  fmt::print("excluded: {} interacted, {} viewed, {} not interested; model {}\n\n", out.interacted,
             out.viewed, out.not_interested, explained.page.model);
}

}  // namespace

Result<int> run_explain(const ExplainOptions& options, const Target& target) {
  FRESHET_TRY(reader, ReaderId::parse(options.user, "user"));
  FRESHET_TRY(exclude, exclude_named(options.exclude));
  FRESHET_TRY(settings, settings_of(target));
  FRESHET_TRY(endpoint, redis_endpoint(target, *settings));
  redis::SyncRedis redis(*endpoint, kRedisTimeout, redis::kAllScripts);
  const redis::Keys keys(settings->redis.key_prefix);
  NoDeferred deferred;
  DirectRecall recall(*settings);
  readers::RedisReaderStore readers(redis, deferred, *settings, keys, [] { return std::string(); });
  items::RedisItemStore items(redis, *settings, keys);
  recommend::TrendReader trend(redis, *settings, keys);
  model::ServedModel model;
  model.open(settings->recommend.model);
  recommend::MappedRecommender recommender(trend, model, *settings);
  recommend::Recommendations recommendations(readers, recommender, items, recall, *settings);

  const recommend::RecommendRequest request{*reader, static_cast<std::size_t>(options.limit), *exclude};
  const auto explained = redis::wait(recommendations.explain(request));
  if (!explained) return tl::unexpected(at_redis(explained.error(), *endpoint));
  print_reader(*reader, **explained);
  Table(**explained).print(options.all ? SIZE_MAX : kFirst);
  return 0;
}

}  // namespace freshet::ctl
