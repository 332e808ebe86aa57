#include "core/recommend/selection.h"

#include <algorithm>
#include <bitset>
#include <cmath>

#include "core/base/fingerprint.h"
#include "core/base/utf8.h"

namespace freshet::recommend {
namespace {

// Texts that are looked up by views.
struct TextHash : std::hash<std::string_view> {
  using is_transparent = void;
};

// Counts the authors and tags of the selected items, by their keys.
class DiversityCaps {
 public:
  DiversityCaps(int per_author, int per_tag) : per_author_(per_author), per_tag_(per_tag) {}

  bool allows(const ItemMetadata& metadata) const {
    std::string buffer;
    const std::string_view author = author_key(metadata.author_id, metadata.author, buffer);
    if (per_author_ > 0 && is_full(authors_, author, per_author_)) return false;
    return per_tag_ <= 0 ||
           std::none_of(metadata.tags.begin(), metadata.tags.end(), [&](std::string_view tag) {
             return is_full(tags_, utf8::fold(tag, buffer), per_tag_);
           });
  }
  void add(const ItemMetadata& metadata) {
    std::string buffer;
    const std::string_view author = author_key(metadata.author_id, metadata.author, buffer);
    if (!author.empty()) ++authors_[std::string(author)];
    for (const std::string_view tag : metadata.tags) ++tags_[utf8::fold(tag)];
  }

 private:
  using Counts = std::unordered_map<std::string, int, TextHash, std::equal_to<>>;
  static bool is_full(const Counts& counts, std::string_view name, int limit) {
    const auto at = counts.find(name);
    return at != counts.end() && at->second >= limit;
  }
  const int per_author_, per_tag_;
  Counts authors_, tags_;
};

}  // namespace

double soft_exclusion_factor(seconds age, seconds half_life) {
  const double half_lives =
      static_cast<double>(std::max<std::int64_t>(0, age.count())) / static_cast<double>(half_life.count());
  return 1 - std::exp2(-half_lives);
}

Selection::Selection(const CandidateSet& candidate_set, const readers::ReaderState& state, ExclusionMode mode,
                     const SelectionSettings& settings, UnixSeconds now, const ReaderId& reader)
    : candidate_set_(candidate_set),
      state_(state),
      settings_(settings),
      mode_(mode),
      own_author_(utf8::fold(reader.view())) {
  collect_exclusions();
  candidates_.reserve(candidate_set.candidates().size());
  for (const RankedCandidate& each : candidate_set.candidates())
    candidates_.push_back({&each, 1, Eligibility::kEligible});
  classify(now);
  demote_similar_to_dismissed(now);
  const auto scores_higher = [](const SelectionCandidate& a, const SelectionCandidate& b) {
    return a.score() > b.score();
  };
  if (!std::is_sorted(candidates_.begin(), candidates_.end(), scores_higher))
    std::stable_sort(candidates_.begin(), candidates_.end(), scores_higher);
}

void Selection::collect_exclusions() {
  for (const readers::ViewedItem& each : state_.dismissals) dismissed_.insert(each.item.view());
  counts_.not_interested = dismissed_.size();
  if (mode_ == ExclusionMode::kOff) return;
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
    const auto also_archived =
        std::count_if(interacted_.begin(), interacted_.end(),
                      [&](std::string_view each) { return state_.archived->contains(fingerprint(each)); });
    counts_.interacted += state_.archived->size() - static_cast<std::size_t>(also_archived);
  }
  if (mode_ == ExclusionMode::kHard) counts_.viewed = viewed_.size();
}

Eligibility Selection::eligibility(std::string_view id) const {
  if (dismissed_.contains(id)) return Eligibility::kNotInterested;
  if (interacted_.contains(id)) return Eligibility::kInteracted;
  if (mode_ != ExclusionMode::kOff && state_.archived && state_.archived->contains(fingerprint(id)))
    return Eligibility::kInteracted;
  return mode_ == ExclusionMode::kHard && viewed_.contains(id) ? Eligibility::kViewed
                                                               : Eligibility::kEligible;
}

bool Selection::is_own(std::string_view author_id, std::string_view author) const {
  std::string buffer;
  return !own_author_.empty() && author_key(author_id, author, buffer) == own_author_;
}

// Keyed by item index, because comparing indexes is faster than comparing ids.
std::vector<Selection::ReaderMark> Selection::collect_marks() const {
  std::vector<std::string_view> ids;
  std::vector<ReaderMark> out;
  const auto mark = [&](std::string_view id, Eligibility eligibility,
                        std::optional<UnixSeconds> viewed = {}) {
    ids.push_back(id);
    out.push_back({model::kNoIndex, eligibility, viewed});
  };
  for (const std::string_view id : dismissed_) mark(id, Eligibility::kNotInterested);
  for (const std::string_view id : interacted_) mark(id, Eligibility::kInteracted);
  const Eligibility viewed_eligibility =
      mode_ == ExclusionMode::kHard ? Eligibility::kViewed : Eligibility::kEligible;
  for (const auto& [id, at] : viewed_) mark(id, viewed_eligibility, at);
  std::vector<std::uint32_t> items(ids.size());
  candidate_set_.find_all(ids, items);
  for (std::size_t i = 0; i < items.size(); ++i) out[i].item = items[i];
  std::sort(out.begin(), out.end(), [](const ReaderMark& a, const ReaderMark& b) { return a.item < b.item; });
  return out;
}

void Selection::classify(UnixSeconds now) {
  const std::vector<ReaderMark> all = collect_marks();
  std::bitset<4096> may_be_marked;  // prefilter: rules out most candidates without a search
  for (const ReaderMark& each : all) may_be_marked.set(each.item % may_be_marked.size());
  const bool check_archive = mode_ != ExclusionMode::kOff && state_.archived;
  for (SelectionCandidate& each : candidates_) {
    const std::uint32_t item = each.ranked->item;
    if (may_be_marked.test(item % may_be_marked.size())) {
      auto mark =
          std::lower_bound(all.begin(), all.end(), item,
                           [](const ReaderMark& one, std::uint32_t target) { return one.item < target; });
      for (; mark != all.end() && mark->item == item; ++mark) {
        each.eligibility = std::max(each.eligibility, mark->eligibility);
        if (mark->viewed) each.factor *= soft_exclusion_factor(now - *mark->viewed, settings_.soft_half_life);
      }
    }
    if (check_archive && each.eligibility < Eligibility::kInteracted &&
        state_.archived->contains(fingerprint(candidate_set_.id(item))))
      each.eligibility = Eligibility::kInteracted;
  }
}

void Selection::demote_similar_to_dismissed(UnixSeconds now) {
  std::unordered_set<std::string, TextHash, std::equal_to<>> authors, tags;
  std::string buffer;
  for (const readers::ViewedItem& each : state_.dismissals) {
    const auto index = candidate_set_.find(each.item.view());
    if (!index) continue;
    const ItemMetadata metadata = candidate_set_.metadata(*index);
    if (metadata.published > now) continue;  // embargoed: must not be noticed
    const std::string_view author = author_key(metadata.author_id, metadata.author, buffer);
    if (!author.empty()) authors.emplace(author);
    for (const std::string_view tag : metadata.tags) tags.emplace(utf8::fold(tag, buffer));
  }
  if (authors.empty() && tags.empty()) return;
  ItemMetadata metadata;
  for (SelectionCandidate& each : candidates_) {
    candidate_set_.metadata(each.ranked->item, metadata);
    if (authors.contains(author_key(metadata.author_id, metadata.author, buffer)))
      each.factor *= settings_.feedback.author_factor;
    const bool shares = std::any_of(metadata.tags.begin(), metadata.tags.end(), [&](std::string_view tag) {
      return tags.contains(utf8::fold(tag, buffer));
    });
    if (shares) each.factor *= settings_.feedback.tag_factor;
  }
}

std::vector<std::size_t> Selection::select(
    std::size_t limit, const std::function<bool(const SelectionCandidate&)>& is_visible) const {
  std::vector<std::size_t> selected, capped;
  DiversityCaps caps(settings_.per_author, settings_.per_tag);
  ItemMetadata metadata;
  for (std::size_t i = 0; i < candidates_.size() && selected.size() < limit; ++i) {
    const SelectionCandidate& each = candidates_[i];
    if (each.eligibility != Eligibility::kEligible || !is_visible(each)) continue;
    candidate_set_.metadata(each.ranked->item, metadata);
    if (is_own(metadata.author_id, metadata.author)) continue;
    if (!caps.allows(metadata)) {
      capped.push_back(i);
      continue;
    }
    caps.add(metadata);
    selected.push_back(i);
  }
  for (std::size_t i = 0; i < capped.size() && selected.size() < limit; ++i) selected.push_back(capped[i]);
  return selected;
}

}  // namespace freshet::recommend
