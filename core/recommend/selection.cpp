#include "core/recommend/selection.h"

#include <algorithm>
#include <bitset>
#include <cmath>

#include "core/base/fingerprint.h"

namespace freshet::recommend {
namespace {

// Counts authors and tags of what was picked so far.
class Caps {
 public:
  Caps(int per_author, int per_tag) : per_author_(per_author), per_tag_(per_tag) {}

  bool allow(const Facts& facts) const {
    if (per_author_ > 0 && full(authors_, facts.author, per_author_)) return false;
    return per_tag_ <= 0 || std::none_of(facts.tags.begin(), facts.tags.end(),
                                         [&](std::string_view tag) { return full(tags_, tag, per_tag_); });
  }
  void add(const Facts& facts) {
    if (!facts.author.empty()) ++authors_[facts.author];
    for (const std::string_view tag : facts.tags) ++tags_[tag];
  }

 private:
  using Counts = std::unordered_map<std::string_view, int>;
  static bool full(const Counts& counts, std::string_view name, int most) {
    const auto at = counts.find(name);
    return at != counts.end() && at->second >= most;
  }
  const int per_author_, per_tag_;
  Counts authors_, tags_;
};

}  // namespace

double soft_exclusion(seconds age, seconds half_life) {
  const double halves =
      static_cast<double>(std::max<std::int64_t>(0, age.count())) / static_cast<double>(half_life.count());
  return 1 - std::exp2(-halves);
}

Selection::Selection(const Suggestions& suggestions, const readers::ReaderState& state, Exclude exclude,
                     const SelectionSettings& settings, UnixSeconds now)
    : suggestions_(suggestions), state_(state), settings_(settings), exclude_(exclude) {
  exclude_by();
  choices_.reserve(suggestions.all().size());
  for (const Ranked& each : suggestions.all()) choices_.push_back({&each, 1, Verdict::kEligible});
  judge(now);
  lower_the_like_of_dismissed();
  const auto better = [](const Choice& a, const Choice& b) { return a.score() > b.score(); };
  if (!std::is_sorted(choices_.begin(), choices_.end(), better))
    std::stable_sort(choices_.begin(), choices_.end(), better);
}

void Selection::exclude_by() {
  for (const readers::ViewedItem& each : state_.dismissals) dismissed_.insert(each.item.view());
  counts_.not_interested = dismissed_.size();
  if (exclude_ == Exclude::kOff) return;
  for (const readers::InteractionRecord& each : state_.interactions) {
    if (each.kind != readers::Interaction::kView) interacted_.insert(each.item.view());
  }
  for (const auto* views : {&state_.topic_views, &state_.reply_views}) {
    for (const readers::ViewedItem& each : *views) {
      const auto [at, added] = viewed_.emplace(each.item.view(), each.at);
      if (!added) at->second = std::max(at->second, each.at);
    }
  }
  counts_.interacted = interacted_.size();
  if (state_.archived) {
    const auto again = std::count_if(interacted_.begin(), interacted_.end(), [&](std::string_view each) {
      return state_.archived->contains(fingerprint(each));
    });
    counts_.interacted += state_.archived->size() - static_cast<std::size_t>(again);
  }
  if (exclude_ == Exclude::kHard) counts_.viewed = viewed_.size();
}

Verdict Selection::verdict(std::string_view id) const {
  if (dismissed_.contains(id)) return Verdict::kNotInterested;
  if (interacted_.contains(id)) return Verdict::kInteracted;
  if (exclude_ != Exclude::kOff && state_.archived && state_.archived->contains(fingerprint(id)))
    return Verdict::kInteracted;
  return exclude_ == Exclude::kHard && viewed_.contains(id) ? Verdict::kViewed : Verdict::kEligible;
}

// By item: candidates are many, and numbers are compared faster than ids.
std::vector<Selection::Mark> Selection::marks() const {
  std::vector<std::string_view> ids;
  std::vector<Mark> out;
  const auto mark = [&](std::string_view id, Verdict verdict, std::optional<UnixSeconds> viewed = {}) {
    ids.push_back(id);
    out.push_back({model::kNone, verdict, viewed});
  };
  for (const std::string_view id : dismissed_) mark(id, Verdict::kNotInterested);
  for (const std::string_view id : interacted_) mark(id, Verdict::kInteracted);
  const Verdict view = exclude_ == Exclude::kHard ? Verdict::kViewed : Verdict::kEligible;
  for (const auto& [id, at] : viewed_) mark(id, view, at);
  std::vector<std::uint32_t> items(ids.size());
  suggestions_.find_all(ids, items);
  for (std::size_t i = 0; i < items.size(); ++i) out[i].item = items[i];
  std::sort(out.begin(), out.end(), [](const Mark& a, const Mark& b) { return a.item < b.item; });
  return out;
}

void Selection::judge(UnixSeconds now) {
  const std::vector<Mark> all = marks();
  std::bitset<4096> marked;  // most candidates are seen here to have none
  for (const Mark& each : all) marked.set(each.item % marked.size());
  const bool earlier = exclude_ != Exclude::kOff && state_.archived;
  for (Choice& each : choices_) {
    const std::uint32_t item = each.ranked->item;
    if (marked.test(item % marked.size())) {
      auto mark = std::lower_bound(all.begin(), all.end(), item,
                                   [](const Mark& one, std::uint32_t wanted) { return one.item < wanted; });
      for (; mark != all.end() && mark->item == item; ++mark) {
        each.verdict = std::max(each.verdict, mark->verdict);
        if (mark->viewed) each.factor *= soft_exclusion(now - *mark->viewed, settings_.soft_half_life);
      }
    }
    if (earlier && each.verdict < Verdict::kInteracted &&
        state_.archived->contains(fingerprint(suggestions_.id(item))))
      each.verdict = Verdict::kInteracted;
  }
}

void Selection::lower_the_like_of_dismissed() {
  std::unordered_set<std::string_view> authors, tags;
  for (const readers::ViewedItem& each : state_.dismissals) {
    const auto index = suggestions_.find(each.item.view());
    if (!index) continue;
    const Facts facts = suggestions_.facts(*index);
    if (!facts.author.empty()) authors.insert(facts.author);
    tags.insert(facts.tags.begin(), facts.tags.end());
  }
  if (authors.empty() && tags.empty()) return;
  for (Choice& each : choices_) {
    const Facts facts = suggestions_.facts(each.ranked->item);
    if (authors.contains(facts.author)) each.factor *= settings_.feedback.author_factor;
    const bool shares = std::any_of(facts.tags.begin(), facts.tags.end(),
                                    [&](std::string_view tag) { return tags.contains(tag); });
    if (shares) each.factor *= settings_.feedback.tag_factor;
  }
}

std::vector<std::size_t> Selection::pick(std::size_t limit,
                                         const std::function<bool(const Choice&)>& showable) const {
  std::vector<std::size_t> picked, capped;
  Caps caps(settings_.per_author, settings_.per_tag);
  Facts facts;
  for (std::size_t i = 0; i < choices_.size() && picked.size() < limit; ++i) {
    const Choice& each = choices_[i];
    if (each.verdict != Verdict::kEligible || !showable(each)) continue;
    suggestions_.facts(each.ranked->item, facts);
    if (!caps.allow(facts)) {
      capped.push_back(i);
      continue;
    }
    caps.add(facts);
    picked.push_back(i);
  }
  for (std::size_t i = 0; i < capped.size() && picked.size() < limit; ++i) picked.push_back(capped[i]);
  return picked;
}

}  // namespace freshet::recommend
