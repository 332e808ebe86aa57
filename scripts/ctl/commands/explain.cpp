#include "scripts/ctl/commands/explain.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <optional>
#include <unordered_map>
#include <unordered_set>

#include "core/base/json.h"
#include "core/config/config.h"
#include "core/config/tuning.h"
#include "core/feed/recall.h"
#include "core/items/item_store.h"
#include "core/readers/reader_store.h"
#include "core/readers/reason.h"
#include "core/recommend/recommendations.h"
#include "core/recommend/recommender.h"
#include "core/redis/blocking_redis.h"
#include "core/redis/scripts.h"
#include "scripts/ctl/commands/noop_services.h"
#include "scripts/ctl/commands/print.h"

namespace freshet::ctl {
namespace {

constexpr std::size_t kDefaultCandidates = 100;  // candidates printed without --all
constexpr std::size_t kIdColumn = 24;
constexpr std::size_t kMaxTitleCharacters = 60;

Result<recommend::ExclusionMode> parse_exclude(const std::string& name) {
  if (name == "hard") return recommend::ExclusionMode::kHard;
  if (name == "soft") return recommend::ExclusionMode::kSoft;
  if (name == "off") return recommend::ExclusionMode::kOff;
  return fail(ErrorCode::kInvalid, "bad_exclude", "exclude", "--exclude must be hard, soft or off");
}

std::string_view source_name(recommend::CandidateSource source) {
  switch (source) {
    case recommend::CandidateSource::kTrend:
      return "trend";
    case recommend::CandidateSource::kAffinity:
      return "affinity";
    case recommend::CandidateSource::kNewest:
      return "newest";
  }
  return "";
}

class DirectRecall final : public feed::Recall {
 public:
  explicit DirectRecall(const Settings& settings) : searcher_(settings) {}
  Task<Result<feed::RecallResult>> search(feed::RecallQuery query) override {
    co_return searcher_.search(query);
  }

 private:
  feed::BlockingRecall searcher_;
};

// Outcome of a candidate.
struct CandidateOutcome {
  std::string_view code;  // for programs
  std::string_view text;
  std::optional<std::size_t> position;  // on the page, from 0
};

std::string truncate_title(std::string_view title) {
  std::size_t characters = 0;
  for (std::size_t at = 0; at < title.size(); ++at) {
    const bool starts_character = (static_cast<unsigned char>(title[at]) & 0xC0) != 0x80;
    if (starts_character && ++characters > kMaxTitleCharacters) return printable(title.substr(0, at)) + "…";
  }
  return printable(title);
}

class Explanation {
 public:
  Explanation(const ReaderId& reader, const recommend::RankingTrace& explained, std::string ranking,
              std::vector<std::string> tuned, UnixSeconds tuned_at)
      : reader_(reader),
        explained_(explained),
        ranking_(std::move(ranking)),
        tuned_(std::move(tuned)),
        tuned_at_(tuned_at) {
    for (std::size_t i = 0; i < explained.page.items.size(); ++i)
      page_position_.emplace(explained.page.items[i].id.view(), i);
    std::unordered_set<std::string_view> chosen;
    for (const recommend::SelectionCandidate& each : choices()) chosen.insert(id(each));
    for (std::size_t i = 0; i < explained.page.items.size(); ++i) {
      if (!chosen.contains(explained.page.items[i].id.view())) from_index_.push_back(i);
    }
    for (std::size_t i = 0; i < choices().size(); ++i) {
      if (page_position_.contains(id(choices()[i]))) lowest_served_ = i;
    }
  }

  void print(std::size_t limit) const {
    print_reader();
    ctl::print("{:<{}} {:>12} {:>10} {:>9} {:>9} {:>9} {:>9} {:>8} {:>6} {:<8} {:<40} {}\n", "item",
               kIdColumn, "score", "trend", "affinity", "cf", "content", "points", "age h", "factor",
               "source", "outcome", "title");
    for (std::size_t i = 0; i < std::min(limit, choices().size()); ++i) print_row(i);
    if (choices().size() > limit) ctl::print("… and {} more (--all)\n", choices().size() - limit);
    for (const std::size_t i : from_index_) {
      const recommend::Recommendation& each = explained_.page.items[i];
      ctl::print("{:<{}} from the index, served as {}: {}; {}\n", each.id.view(), kIdColumn, i + 1,
                 printable(readers::reason_text(each.reason)), truncate_title(each.card->title));
    }
  }

  std::string json(std::size_t limit) const {
    std::string out;
    json::Writer writer(out);
    const readers::ReaderState& state = explained_.state;
    const recommend::ExcludedCounts& excluded = explained_.page.excluded;
    writer.begin_object().key("reader").string(reader_.view()).key("model").string(explained_.page.model);
    writer.key("ranking").string(ranking_).key("tuned").begin_array();
    for (const std::string& each : tuned_) writer.string(each);
    writer.end_array().key("tuned_at");
    tuned_.empty() ? writer.null() : writer.integer(unix_s(tuned_at_));
    writer.key("topics_viewed").unsigned_integer(state.topic_views.size());
    writer.key("replies_viewed").unsigned_integer(state.reply_views.size());
    writer.key("interactions").unsigned_integer(state.interactions.size());
    writer.key("dismissed").unsigned_integer(state.dismissals.size());
    writer.key("excluded").begin_object().key("interacted").unsigned_integer(excluded.interacted);
    writer.key("viewed").unsigned_integer(excluded.viewed);
    writer.key("not_interested").unsigned_integer(excluded.not_interested).end_object();
    writer.key("candidates").unsigned_integer(choices().size()).key("items").begin_array();
    for (std::size_t i = 0; i < std::min(limit, choices().size()); ++i) write_row(i, writer);
    for (const std::size_t i : from_index_) {
      const recommend::Recommendation& each = explained_.page.items[i];
      writer.begin_object().key("id").string(each.id.view()).key("title").string(each.card->title);
      writer.key("source").string("index").key("fate").string("served");
      write_position(i, writer).end_object();
    }
    writer.end_array().end_object();
    return out;
  }

 private:
  const std::vector<recommend::SelectionCandidate>& choices() const {
    return explained_.selection->candidates();
  }
  std::string_view id(const recommend::SelectionCandidate& choice) const {
    return explained_.selection->id(choice);
  }
  std::string_view title(const recommend::SelectionCandidate& choice) const {
    return explained_.candidates->metadata(choice.ranked->item).title;
  }
  static std::string_view source(const recommend::SelectionCandidate& choice) {
    if (choice.ranked->exploration) return "explore";
    return choice.ranked->discovery ? "discover" : source_name(choice.ranked->source);
  }

  void print_reader() const {
    const readers::ReaderState& state = explained_.state;
    const recommend::ExcludedCounts& out = explained_.page.excluded;
    ctl::print("reader {}: {} topics and {} replies viewed, {} interactions, {} dismissed\n", reader_.view(),
               state.topic_views.size(), state.reply_views.size(), state.interactions.size(),
               state.dismissals.size());
    ctl::print("excluded: {} interacted, {} viewed, {} not interested; model {}; ranking: {}\n",
               out.interacted, out.viewed, out.not_interested, explained_.page.model, ranking_);
    if (!tuned_.empty())
      ctl::print("chosen by freshetctl tune on {}: {}\n", to_rfc3339(tuned_at_), fmt::join(tuned_, ", "));
    ctl::print("\n");
  }

  void print_row(std::size_t at) const {
    const recommend::SelectionCandidate& choice = choices()[at];
    const recommend::RankedCandidate& each = *choice.ranked;
    const CandidateOutcome outcome = outcome_of(at);
    std::string text(outcome.text);
    if (outcome.position) {
      text = fmt::format("served as {}: {}", *outcome.position + 1,
                         printable(readers::reason_text(explained_.page.items[*outcome.position].reason)));
    }
    ctl::print(
        "{:<{}} {:>12.6g} {:>10.4g} {:>9.4g} {:>9.4g} {:>9.4g} {:>9.4g} {:>8.1f} {:>6.3g} {:<8} {:<40} {}\n",
        id(choice), kIdColumn, choice.score(), each.trend, each.affinity, each.cf, each.content, each.points,
        each.age_hours, choice.factor, source(choice), text, truncate_title(title(choice)));
  }

  void write_row(std::size_t at, json::Writer& writer) const {
    const recommend::SelectionCandidate& choice = choices()[at];
    const recommend::RankedCandidate& each = *choice.ranked;
    const CandidateOutcome outcome = outcome_of(at);
    writer.begin_object().key("id").string(id(choice)).key("title").string(title(choice));
    writer.key("score").number(choice.score()).key("trend").number(each.trend);
    writer.key("affinity")
        .number(each.affinity)
        .key("cf")
        .number(each.cf)
        .key("content")
        .number(each.content);
    writer.key("points").number(each.points).key("age_hours").number(each.age_hours);
    writer.key("factor").number(choice.factor).key("source").string(source(choice));
    writer.key("fate").string(outcome.code);
    if (outcome.position) write_position(*outcome.position, writer);
    writer.end_object();
  }

  json::Writer& write_position(std::size_t position, json::Writer& writer) const {
    writer.key("place").unsigned_integer(position + 1);
    return writer.key("reason").string(readers::reason_text(explained_.page.items[position].reason));
  }

  CandidateOutcome outcome_of(std::size_t at) const {
    const recommend::SelectionCandidate& choice = choices()[at];
    switch (choice.eligibility) {
      case recommend::Eligibility::kInteracted:
        return {"interacted", "excluded: interacted with", {}};
      case recommend::Eligibility::kViewed:
        return {"viewed", "excluded: viewed recently", {}};
      case recommend::Eligibility::kNotInterested:
        return {"not_interested", "excluded: not interested", {}};
      case recommend::Eligibility::kEligible:
        break;
    }
    const recommend::ItemMetadata metadata = explained_.candidates->metadata(choice.ranked->item);
    if (explained_.selection->is_own(metadata.author_id, metadata.author))
      return {"own", "excluded: by the reader", {}};
    const auto position = page_position_.find(id(choice));
    if (position != page_position_.end()) return {"served", {}, position->second};
    if (explained_.not_visible.contains(std::string(id(choice))))
      return {"hidden", "dropped: hidden or not an item", {}};
    if (at <= lowest_served_) return {"capped", "dropped: limit of its author or tag reached", {}};
    return {"below", "ranked below the page", {}};
  }

  const ReaderId& reader_;
  const recommend::RankingTrace& explained_;
  const std::string ranking_;             // name of the formula of the scores
  const std::vector<std::string> tuned_;  // tuned settings in use: "trending.half_life = 900"
  const UnixSeconds tuned_at_;
  std::unordered_map<std::string_view, std::size_t> page_position_;
  // positions on the page of items that were added from the index, not from the candidates
  std::vector<std::size_t> from_index_;
  std::size_t lowest_served_ = 0;  // index of the lowest candidate on the page
};

// The settings in use that freshetctl tune chose.
std::vector<std::string> tuned_settings(const LoadedConfig& config) {
  std::vector<std::string> out;
  const auto tuning = load_tuning(config.settings.tune_file, wall_now());
  if (!tuning) return out;
  for (const auto& [name, value] : tuning->values) {
    const auto source = config.sources.find(name);
    if (source != config.sources.end() && source->second == config.settings.tune_file)
      out.push_back(name + " = " + value);
  }
  return out;
}

}  // namespace

Result<int> run_explain(const ExplainOptions& options, const Target& target) {
  FRESHET_TRY(reader, ReaderId::parse(options.user, "user"));
  FRESHET_TRY(exclude, parse_exclude(options.exclude));
  FRESHET_TRY(config, load_config(config_path(target)));
  const Settings* settings = &config->settings;
  FRESHET_TRY(endpoint, redis_endpoint(target, *settings));
  redis::BlockingRedis redis(*endpoint, kRedisTimeout, redis::kAllScripts);
  const redis::Keys keys(settings->redis);
  NoopWriteQueue deferred;
  DirectRecall recall(*settings);
  readers::RedisReaderStore readers(redis, deferred, *settings, keys, [] { return std::string(); });
  items::RedisItemStore items(redis, *settings, keys);
  recommend::TrendSource trend(redis, *settings, keys);
  model::ActiveModel model;
  model.open(settings->recommend.model);
  recommend::MappedRecommender recommender(trend, model, *settings);
  items::CardCache cards(items, settings->items_cache_bytes);
  recommend::Recommendations recommendations(readers, recommender, cards, recall, *settings);

  const recommend::RecommendRequest request{*reader, static_cast<std::size_t>(options.limit), *exclude};
  const auto explained = redis::run_sync(recommendations.explain(request));
  if (!explained) return tl::unexpected(with_redis_address(explained.error(), *endpoint));
  const auto formula =
      recommend::RankingFormula::of(recommend::RankingSettings::from(*settings), model.current().get());
  const bool has_profile = !(*explained)->state.interactions.empty();
  const Explanation explanation(*reader, **explained, formula.name(model.current().get(), has_profile),
                                tuned_settings(*config), settings->tuned_at);
  const std::size_t limit = options.all ? SIZE_MAX : kDefaultCandidates;
  if (options.json)
    print_json_line(explanation.json(limit));
  else
    explanation.print(limit);
  return 0;
}

}  // namespace freshet::ctl
