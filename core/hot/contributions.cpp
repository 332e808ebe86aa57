#include "core/hot/contributions.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <cmath>
#include <iterator>
#include <map>
#include <string>

#include "core/hot/article.h"
#include "core/hot/rank_updater.h"
#include "core/hot/views.h"
#include "core/redis/fields.h"
#include "core/redis/scripts.h"

namespace freshet::hot {
namespace {

using redis::Pipeline;

constexpr std::size_t kItemsPerBatch = 100;
constexpr std::size_t kVisitorsPerCall = 64;
constexpr int kMaxAttempts = 4;

// A contribution as it is recorded in the visitor's field "a:{item}".
std::string encode_contribution(const Contribution& each) {
  std::string out = fmt::format("{} {} {} {} {} {} {}", each.pv, each.uv, each.dwell_ms, each.views,
                                each.first_views, each.views_score, each.first_version);
  if (std::isfinite(each.trend.front())) out += fmt::format(" {}", fmt::join(each.trend, " "));
  return out;
}

Contribution decode_contribution(std::string_view text) {
  const auto numbers = redis::split_words(text);
  const auto word = [&](std::size_t i) { return i < numbers.size() ? numbers[i] : std::string_view(); };
  const auto integer = [&](std::size_t i) { return redis::parse_or_zero<std::int64_t>(word(i)); };
  Contribution out{.pv = integer(0),
                   .uv = integer(1),
                   .dwell_ms = integer(2),
                   .views = integer(3),
                   .first_views = integer(4),
                   .views_score = redis::parse_or_zero<double>(word(5)),
                   .first_version = integer(6)};
  if (numbers.size() == 7 + out.trend.size()) {
    for (std::size_t i = 0; i < out.trend.size(); ++i)
      out.trend[i] = redis::parse_or_zero<double>(numbers[7 + i]);
  }
  return out;
}

// Reverts a visitor's contributions to items. Each contribution is staged in the visitor's hash,
// subtracted from the article's counters together with a mark of it, and unstaged once the
// article's ranks are updated; then the mark is deleted. An interrupted revert can therefore be
// resumed, and subtracts nothing twice: a contribution that is still staged after the article was
// read has its mark if it was subtracted. A revert killed at its last step leaves the mark.
class ContributionReverter {
 public:
  ContributionReverter(redis::Redis& redis, const Settings& settings, const redis::Keys& keys,
                       std::string_view visitor)
      : redis_(redis), settings_(settings), keys_(keys), visitor_(visitor) {}

  // Appends what was subtracted to `done`.
  Task<Result<void>> run(const std::vector<std::string>& ids, std::vector<ItemContribution>& done) {
    for (const std::string& id : ids) reverted_[id] = {};
    std::vector<std::string> remaining = ids;
    for (int attempt = 0; attempt < kMaxAttempts && !remaining.empty(); ++attempt) {
      FRESHET_CO_TRY(staged, co_await stage(remaining));
      FRESHET_CO_TRY(conflicts, co_await subtract(*staged));
      remaining.insert(remaining.end(), conflicts->begin(), conflicts->end());
    }
    if (!remaining.empty()) co_return fail(ErrorCode::kConflict, "write_conflict", {}, remaining.front());
    for (const std::string& id : ids) done.push_back({ItemId::trusted(id), reverted_[id]});
    co_return Result<void>();
  }

 private:
  struct StagedContribution {
    std::string id, text;
    Contribution contribution;
    // Field of the article's hash. No two contributions to an article have the same first version.
    std::string mark() const { return "r:" + std::to_string(contribution.first_version); }
  };

  // Leaves the ids of articles with another contribution, which was recorded since an earlier
  // revert staged one.
  Task<Result<std::vector<StagedContribution>>> stage(std::vector<std::string>& ids) {
    Pipeline write;
    for (const std::string& id : ids)
      write.script(scripts::kContributionStage).key(keys_.contributions(visitor_)).arg(id);
    FRESHET_CO_TRY(replies, co_await redis::run_all(redis_, write));
    std::vector<StagedContribution> staged;
    std::vector<std::string> remaining;
    for (std::size_t i = 0; i < ids.size(); ++i) {
      const std::string_view text = redis::string_at((*replies)[i], 0);
      if (!text.empty()) staged.push_back({ids[i], std::string(text), decode_contribution(text)});
      if ((*replies)[i][1].integer() == 1) remaining.push_back(ids[i]);
    }
    ids = std::move(remaining);
    co_return staged;
  }

  // Returns the ids of articles that changed between the read and the write.
  Task<Result<std::vector<std::string>>> subtract(const std::vector<StagedContribution>& staged) {
    std::vector<std::string> conflicts;
    if (staged.empty()) co_return conflicts;
    Pipeline read, write;
    for (const StagedContribution& each : staged) read.add("HGETALL", keys_.article(each.id));
    read.barrier();
    for (const StagedContribution& each : staged)
      read.add("HGET", keys_.contributions(visitor_), "p:" + each.id);
    read.add("TIME");
    FRESHET_CO_TRY(found, co_await redis::run_all(redis_, read));
    const UnixSeconds read_at{seconds{redis::to_int(redis::string_at(found->back(), 0))}};
    std::vector<const StagedContribution*> done, requested;
    std::vector<Contribution> subtracted;
    for (std::size_t i = 0; i < staged.size(); ++i) {
      const redis::Reply& article = (*found)[i];
      const bool is_known = !redis::field_value(article, "v").empty(),
                 is_subtracted = !redis::field_value(article, staged[i].mark()).empty(),
                 is_staged = (*found)[staged.size() + i].text() == staged[i].text;
      if (is_known && is_staged && !is_subtracted) {
        subtracted.push_back(append_subtraction(write, staged[i], article, read_at));
        requested.push_back(&staged[i]);
      } else {
        done.push_back(&staged[i]);
      }
    }
    if (!write.empty()) {
      FRESHET_CO_TRY(replies, co_await redis::run_all(redis_, write));
      for (std::size_t i = 0; i < requested.size(); ++i) {
        if ((*replies)[i].integer() == 1) {
          done.push_back(requested[i]);
          reverted_[requested[i]->id] += subtracted[i];
        } else {
          conflicts.push_back(requested[i]->id);
        }
      }
    }
    FRESHET_CO_TRY(updated, co_await update_ranks(done));
    co_return conflicts;
  }

  // Appends a write of the article without the staged contribution. Returns what it subtracts.
  Contribution append_subtraction(Pipeline& out, const StagedContribution& staged, const redis::Reply& reply,
                                  UnixSeconds now) const {
    const auto text = [&](std::string_view field) { return redis::field_value(reply, field); };
    const auto integer = [&](std::string_view field) { return redis::to_int(text(field)); };
    const auto number = [&](std::string_view field) { return redis::parse_or_zero<double>(text(field)); };
    // Counters that expired since do not have the contribution, even if they started again.
    Contribution contribution = staged.contribution;
    const auto has = [&](std::string_view began, std::string_view renewed, seconds ttl) {
      return !text(renewed).empty() && unix_s(now) < integer(renewed) + ttl.count() &&
             contribution.first_version >= integer(began);
    };
    if (text("pv").empty() || !has("began", "renewed", settings_.engagement.counter_ttl))
      contribution.pv = contribution.uv = contribution.dwell_ms = 0;
    if (text("views").empty() || !has("views_began", "viewed", settings_.views.counter_ttl))
      contribution.views = contribution.first_views = 0, contribution.views_score = 0;
    std::vector<std::string_view> deleted_fields;
    std::vector<std::pair<std::string_view, std::string>> fields;
    const std::string mark = staged.mark();
    fields.emplace_back(mark, "1");
    bool delete_hll = false;
    if (contribution.pv > 0 || contribution.uv > 0 || contribution.dwell_ms > 0) {
      const std::int64_t pv = integer("pv") - contribution.pv;
      delete_hll = pv <= 0;
      if (delete_hll)
        deleted_fields.insert(deleted_fields.end(),
                              {"pv", "uv", "counted", "ms", "renewed", "uv_correction"});
      else
        fields.insert(
            fields.end(),
            {{"pv", fmt::to_string(pv)},
             {"ms", fmt::to_string(std::max<std::int64_t>(0, integer("ms") - contribution.dwell_ms))},
             {"uv_correction", fmt::to_string(integer("uv_correction") + contribution.uv)}});
    }
    if (contribution.views > 0) {
      const std::int64_t views = integer("views") - contribution.views;
      const double weight = settings_.views.pv_weight * static_cast<double>(contribution.views) +
                            settings_.views.uv_weight * static_cast<double>(contribution.first_views);
      const double total = number("total") - weight;
      const double score = number("score") - current_views_score(contribution, weight, reply);
      if (views > 0 && total > 0 && score > 0) {
        fields.insert(fields.end(), {{"total", fmt::to_string(total)},
                                     {"score", fmt::to_string(score)},
                                     {"views", fmt::to_string(views)}});
        if (!text("increments").empty() && contribution.views_score > 0) {
          const seconds age{std::llround(age_of_score(weight, contribution.views_score, settings_.views))};
          fields.emplace_back(
              "increments",
              without_increment(text("increments"), UnixSeconds{seconds{integer("first")}} + age, weight));
        }
      } else {
        deleted_fields.insert(deleted_fields.end(),
                              {"total", "score", "views", "viewed", "increments", "redated"});
      }
    }
    const auto trend = parse_trend(text("trend"));
    if (trend && contribution.pv + contribution.views > 0) {
      if (integer("pv") + integer("views") <= contribution.pv + contribution.views)
        deleted_fields.push_back("trend");
      else
        fields.emplace_back("trend", encode_trend(without(*trend, contribution.trend, reply, now)));
    }
    out.script(scripts::kArticleSet).key(keys_.article(staged.id));
    if (delete_hll) out.key(keys_.uv_hll(staged.id));
    out.arg(text("v")).arg("").arg(deleted_fields.size());
    for (const std::string_view each : deleted_fields) out.arg(each);
    for (const auto& [field, value] : fields) out.arg(field).arg(value);
    return contribution;
  }

  static UnixSeconds publish_time(const redis::Reply& article) {
    const std::string_view date = redis::field_value(article, "date");
    return UnixSeconds{seconds{redis::to_int(date.empty() ? redis::field_value(article, "first") : date)}};
  }

  // The article's sums without those of a contribution, but with the views that it entered with.
  TrendSums without(TrendSums sums, const TrendSums& contribution, const redis::Reply& article,
                    UnixSeconds now) const {
    const TrendSums entry = trend_of_view(std::min(publish_time(article), now));
    const double birth = std::log2(settings_.trending.birth_views);
    for (std::size_t i = 0; i < sums.size(); ++i)
      sums[i] = std::max(subtract_log2(sums[i], contribution[i]), entry[i] + birth);
    return sums;
  }

  // The contribution's part of the article's current score. If another publish time replaced a
  // client's, this depends on whether the contribution was counted before or after that, which is
  // derived from its age. If the age does not decide it, or several times were replaced, every view
  // gets an equal share.
  double current_views_score(const Contribution& contribution, double weight,
                             const redis::Reply& article) const {
    const double score = contribution.views_score;
    const auto redated = redis::split_words(redis::field_value(article, "redated"));
    if (redated.empty() || score <= 0) return score;
    if (redated.size() == 2) {
      const auto time = [](std::string_view text) { return UnixSeconds{seconds{redis::to_int(text)}}; };
      constexpr seconds kRounding{2};
      const UnixSeconds client_date = time(redated[0]), redated_at = time(redated[1]);
      const UnixSeconds published = publish_time(article);
      const seconds age{std::llround(age_of_score(weight, score, settings_.views))};
      if (client_date + age > redated_at + kRounding) return score;
      if (published + age < redated_at - kRounding)
        return view_score(weight, published, client_date + age, settings_.views);
    }
    const auto number = [&](std::string_view field) {
      return redis::parse_or_zero<double>(redis::field_value(article, field));
    };
    return number("score") * weight / number("total");
  }

  // A HyperLogLog cannot remove members: `uv_correction` is the excess of its estimate. A reverted
  // visitor who comes back is still a member and is not counted again while it lives. An item
  // without page views loses the HyperLogLog and with it all members.
  Task<Result<void>> update_ranks(const std::vector<const StagedContribution*>& items) {
    if (items.empty()) co_return Result<void>();
    Pipeline read;
    for (const StagedContribution* each : items) append_article_read(read, keys_, each->id);
    read.add("TIME");
    FRESHET_CO_TRY(articles, co_await redis::run_all(redis_, read));
    const UnixSeconds now{seconds{redis::to_int(redis::string_at(articles->back(), 0))}};
    RankWrites writes;
    for (std::size_t i = 0; i < items.size(); ++i)
      add_rank_writes(writes, items[i]->id, parse_article((*articles)[i], now, settings_), settings_,
                      items[i]->contribution.views > 0 ? RemovalPolicy::kAll : RemovalPolicy::kComputed);
    Pipeline write;
    append_rank_writes(write, writes, now, settings_, keys_);
    write.barrier();
    for (const StagedContribution* each : items)
      write.script(scripts::kContributionStage)
          .key(keys_.contributions(visitor_))
          .arg(each->id)
          .arg(each->text);
    write.barrier();
    for (const StagedContribution* each : items) write.add("HDEL", keys_.article(each->id), each->mark());
    FRESHET_CO_TRY(written, co_await redis::run_all(redis_, write));
    co_return Result<void>();
  }

  redis::Redis& redis_;
  const Settings& settings_;
  const redis::Keys& keys_;
  const std::string_view visitor_;
  std::map<std::string, Contribution> reverted_;
};

}  // namespace

Contribution& Contribution::operator+=(const Contribution& other) {
  pv += other.pv;
  uv += other.uv;
  dwell_ms += other.dwell_ms;
  views += other.views;
  first_views += other.first_views;
  views_score += other.views_score;
  first_version = std::min(first_version, other.first_version);
  for (std::size_t i = 0; i < trend.size(); ++i) trend[i] = add_log2(trend[i], other.trend[i]);
  return *this;
}

ContributionBuffer::ContributionBuffer(redis::WriteQueue& write_queue, const Settings& settings,
                                       redis::Keys keys, BatchIdGenerator new_batch_id, redis::RunAfter after)
    : write_queue_(write_queue),
      settings_(settings),
      keys_(std::move(keys)),
      new_batch_id_(std::move(new_batch_id)),
      timer_(std::move(after), kFlushInterval, [this] { flush(); }) {}

void ContributionBuffer::add(const VisitorId& visitor, const std::string& network, const ItemId& item,
                             const Contribution& contribution) {
  const bool is_zero =
      contribution.pv == 0 && contribution.uv == 0 && contribution.dwell_ms == 0 && contribution.views == 0;
  if (settings_.limits.contribution_ttl.count() == 0 || visitor.empty() || is_zero) return;
  VisitorEntry& entry = visitors_[visitor.str()];
  entry.network = network;
  const auto [at, is_new] = entry.contributions.try_emplace(item.str(), contribution);
  is_new ? static_cast<void>(++pending_) : static_cast<void>(at->second += contribution);
  if (pending_ >= kMaxEntries) return flush();
  timer_.start();
}

void ContributionBuffer::append(Pipeline& out,
                                std::span<const VisitorMap::value_type* const> visitors) const {
  out.script(scripts::kContributions);
  for (const auto* each : visitors) out.key(keys_.contributions(each->first));
  out.arg(settings_.limits.contribution_ttl.count()).arg(new_batch_id_().substr(0, 8));
  for (const auto* each : visitors) {
    const VisitorEntry& entry = each->second;
    out.arg(entry.network).arg(entry.contributions.size());
    for (const auto& [id, contribution] : entry.contributions)
      out.arg(id).arg(encode_contribution(contribution));
  }
}

// Contributions are lost if neither the queue nor the spool takes them.
void ContributionBuffer::flush() {
  std::map<unsigned, std::vector<const VisitorMap::value_type*>> calls;
  for (const auto& each : visitors_)
    calls[keys_.slot_or_zero(keys_.contributions(each.first))].push_back(&each);
  Pipeline out;
  for (const auto& [call, visitors] : calls) {
    for (std::size_t from = 0; from < visitors.size(); from += kVisitorsPerCall)
      append(out, std::span(visitors).subspan(from, std::min(kVisitorsPerCall, visitors.size() - from)));
  }
  visitors_.clear();
  pending_ = 0;
  if (!out.empty()) write_queue_.post(std::move(out));
}

std::vector<ItemContribution> parse_contributions(const redis::Reply& hash) {
  std::map<std::string_view, Contribution> items;
  for (std::size_t i = 0; i + 1 < hash.size(); i += 2) {
    const std::string_view field = redis::string_at(hash, i), value = redis::string_at(hash, i + 1);
    if (field.starts_with("a:") || field.starts_with("p:"))
      items[field.substr(2)] += decode_contribution(value);
  }
  std::vector<ItemContribution> out;
  out.reserve(items.size());
  for (const auto& [id, contribution] : items)
    out.push_back({ItemId::trusted(std::string(id)), contribution});
  std::ranges::stable_sort(out, std::greater(), [](const ItemContribution& each) {
    return each.contribution.pv + each.contribution.views;
  });
  return out;
}

std::string_view parse_visitor_network(const redis::Reply& hash) {
  return redis::field_value(hash, "network");
}

Task<Result<std::vector<ItemContribution>>> read_contributions(redis::Redis& redis, const redis::Keys& keys,
                                                               std::string_view visitor) {
  Pipeline command;
  command.add("HGETALL", keys.contributions(visitor));
  FRESHET_CO_TRY(reply, co_await redis::run_one(redis, command));
  co_return parse_contributions(*reply);
}

Task<Result<std::vector<ItemContribution>>> revert_contributions(redis::Redis& redis,
                                                                 const Settings& settings,
                                                                 const redis::Keys& keys,
                                                                 std::string_view visitor,
                                                                 const std::vector<ItemId>& items) {
  std::vector<ItemContribution> done;
  ContributionReverter reverter(redis, settings, keys, visitor);
  for (std::size_t from = 0; from < items.size(); from += kItemsPerBatch) {
    std::vector<std::string> ids;
    for (std::size_t i = from; i < std::min(from + kItemsPerBatch, items.size()); ++i)
      ids.push_back(items[i].str());
    FRESHET_CO_TRY(ok, co_await reverter.run(ids, done));
  }
  Pipeline announce;
  announce.add("INCR", keys.epoch()).barrier().add("PUBLISH", keys.epoch(), "all");
  FRESHET_CO_TRY(announced, co_await redis.run(announce));
  co_return done;
}

}  // namespace freshet::hot
