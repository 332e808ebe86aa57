#include "core/feed/exact_top.h"

#include <algorithm>
#include <cmath>
#include <functional>
#include <iterator>
#include <unordered_set>
#include <utility>

#include "core/feed/recall_query.h"
#include "core/search/index_folder.h"
#include "core/search/search_schema.h"

namespace freshet::feed {
namespace {

// Relative tolerance of bounds. Xapian adds the weights of terms in varying order, so the last bits
// of a sum may differ. The tolerance errs on the side of reading more.
constexpr double kBoundTolerance = 1.0 - 1e-9;
// A range with more matches than this multiple of the wanted count is read in several steps.
constexpr std::size_t kFirstStepFactor = 3;
// The first range should hold this many times the wanted items, since only some will match.
constexpr double kFirstRangeFactor = 8.0;
// The parts of a range in memory whose decay is bounded separately, which saves most exponentials.
constexpr std::int64_t kDecaySteps = 64;

std::int64_t to_unix(UnixSeconds at) { return at.time_since_epoch().count(); }
UnixSeconds from_unix(std::int64_t second) { return UnixSeconds{seconds{second}}; }

// Two commits during a search can remove a match's values, which Xapian does not always notice.
std::string order_key_of(const Xapian::MSetIterator& match) {
  std::string key = match.get_sort_key();
  if (!search::is_order_key(key)) throw Xapian::DatabaseModifiedError("a match has no order key");
  return key;
}

std::int64_t published_bound(const std::string& value) {
  return value.empty() ? 0 : static_cast<std::int64_t>(Xapian::sortable_unserialise(value));
}

}  // namespace

ExactTop::ExactTop(const Xapian::Database& database, MatchQuery query, const GaussDecay& decay,
                   UnixSeconds now, std::size_t size, const search::SearchDeadline* deadline,
                   NewestItems* newest, search::RecentIndex* recent)
    : database_(database),
      query_(std::move(query)),
      decay_(decay),
      now_(to_unix(now)),
      size_(size),
      wanted_(size + 1),
      newest_cache_(newest),
      deadline_(deadline),
      recent_(query_.alternatives.empty() ? nullptr : recent) {}

const Xapian::Query& ExactTop::terms() {
  if (query_.terms.empty()) query_.terms = any_of(query_.alternatives);
  return query_.terms;
}

RecallResult ExactTop::search() {
  if (database_.get_doccount() == 0) return {{}, true};
  oldest_ = published_bound(database_.get_value_lower_bound(search::kPublishedSlot));
  newest_ = published_bound(database_.get_value_upper_bound(search::kPublishedSlot));
  if (newest_ > now_) {  // items dated in the future are excluded
    search_end_ = now_ + 1;
    newest_ = now_;
    if (oldest_ > now_) return {{}, true};
  }
  bool complete = true;
  try {
    if (query_.base > 0) load_newest();
    if (has_terms()) collect_scored();
    add_newest_to_hits();
    // A match whose score is 0 ranks like an item without a match, by date.
    std::erase_if(hits_, [](const Hit& each) { return each.score == 0; });
    if (hits_.size() < wanted_ && (has_terms() || !query_.matches_only)) append_unscored();
  } catch (const search::SearchTimeout&) {
    add_newest_to_hits();
    if (hits_.empty() && unscored_.empty()) throw;
    complete = false;
  }
  RecallResult result = build_result();
  result.exhausted = result.exhausted && complete;
  return result;
}

Xapian::Query ExactTop::restrict_to_range(const Xapian::Query& query, const Range& range) const {
  const Xapian::Query dated(Xapian::Query::OP_FILTER, query,
                            search::published_within(from_unix(range.begin), from_unix(range.end)));
  return deadline_ != nullptr ? deadline_->guard(dated) : dated;
}

// Decay of the newest item published before `end`.
double ExactTop::max_decay_before(std::int64_t end) const {
  return end > now_ ? 1.0 : decay_.at(seconds{now_ - end + 1});
}

bool ExactTop::can_stop_before(std::int64_t end) const {
  if (end <= oldest_) return true;
  const double youngest = max_decay_before(end);
  return youngest == 0 ||
         (is_full_ && (query_.base + highest_weight_) * youngest < nth_score_ * kBoundTolerance);
}

void ExactTop::collect_scored() {
  Range range{0, search_end_};
  if (recent_ != nullptr) highest_weight_ = recent_->highest_weight(query_.alternatives);
  range.begin =
      recent_ != nullptr && is_full_ ? next_range_begin({now_, now_}) : newest_ - first_range_width();
  for (;;) {
    if (!match_recent(range)) {
      range.begin = std::max(oldest_, aligned_begin(range));
      search_range(range);
    }
    if (can_stop_before(range.begin)) return;
    range = {next_range_begin(range), range.begin};
  }
}

// Moves the start of the range down to a likely time slice boundary if that is not far. A slice
// that lies entirely in one range is searched without checking each date, and is not searched again
// for the next range.
std::int64_t ExactTop::aligned_begin(const Range& range) const {
  const std::int64_t start = to_unix(search::slice_start(from_unix(range.begin)));
  return range.begin - start <= std::min(range.end, now_) - range.begin ? start : range.begin;
}

std::int64_t ExactTop::first_range_width() const {
  const double span = static_cast<double>(std::max<std::int64_t>(newest_ - oldest_, 1));
  const double width = kFirstRangeFactor * static_cast<double>(wanted_) * span / database_.get_doccount();
  const std::int64_t slope = decay_.age_below(0.5).count();
  return width < static_cast<double>(slope) ? static_cast<std::int64_t>(width) + 1 : slope;
}

// Start of the range that follows `searched`.
std::int64_t ExactTop::next_range_begin(const Range& searched) const {
  if (is_full_) {  // the whole remainder: another range would cost more than its tighter cutoff saves
    const double useful = nth_score_ * kBoundTolerance / (query_.base + highest_weight_);
    return std::min(now_ - decay_.age_below(useful).count(), searched.begin - 1);
  }
  // Not enough hits yet: extend by as much as all ranges so far, or further if they had few
  // matches.
  const double covered = static_cast<double>(std::max<std::int64_t>(now_ - searched.begin, 1));
  const double matched = std::max(static_cast<double>(hits_.size()), 1.0);
  const double missing = 1.5 * (static_cast<double>(wanted_) - matched) / matched * covered;
  const double reach = std::clamp(missing, covered, 16 * covered);
  return searched.begin - static_cast<std::int64_t>(std::min(reach, 1e12)) - 1;
}

// Adds the matches of the range's items that are in memory, and moves its begin to where this
// stopped. False if there are none in memory.
bool ExactTop::match_recent(Range& range) {
  if (recent_ == nullptr) return false;
  const std::int64_t begin = std::max(oldest_, range.begin);
  const std::int64_t since = recent_->load_since(begin);
  if (since >= std::min(range.end, now_ + 1)) return false;
  const Range known{std::max(begin, since), std::min(range.end, now_ + 1)};
  // Parts, the newest first: their best results raise the weight that older items need.
  Range part{known.end, known.end};
  std::int64_t width = first_range_width() + std::max<std::int64_t>(0, known.end - 1 - newest_);
  do {
    part = {std::max(known.begin, part.begin - width), part.begin};
    width *= 2;
    if (!match_part(part)) {
      recent_ = nullptr;
      if (part.end == known.end) return false;
      part.begin = part.end;
      break;
    }
  } while (part.begin > known.begin && !can_stop_before(part.begin));
  range = {part.begin, known.end};
  return true;
}

// False if the part cannot be matched in memory.
bool ExactTop::match_part(const Range& range) {
  const double min_weight =
      is_full_ ? nth_score_ * kBoundTolerance / max_decay_before(range.end) - query_.base : 0;
  const auto matches = recent_->match(query_.alternatives, range.begin, range.end, min_weight, deadline_);
  if (!matches) return false;
  const std::size_t hits_before = hits_.size();
  const std::int64_t width = (range.end - range.begin) / kDecaySteps + 1;
  const std::vector<double> bounds = decay_bounds(range, width);
  using Match = search::RecentIndex::Match;
  std::vector<std::pair<double, const Match*>> scored;
  for (const Match& each : *matches) {
    const double bound = bounds[static_cast<std::size_t>((each.published - range.begin) / width)];
    if ((query_.base + each.weight) * bound < nth_score_ * kBoundTolerance) continue;
    const double score = score_of(each.weight, seconds{std::max<std::int64_t>(0, now_ - each.published)});
    if (!is_full_ || score >= nth_score_ * kBoundTolerance) scored.emplace_back(score, &each);
  }
  if (scored.size() > wanted_) {
    const auto ranks_higher = [](const auto& a, const auto& b) {
      return a.first != b.first ? a.first > b.first : a.second->order_key > b.second->order_key;
    };
    std::nth_element(scored.begin(), scored.begin() + static_cast<std::ptrdiff_t>(wanted_), scored.end(),
                     ranks_higher);
    scored.resize(wanted_);
  }
  for (const auto& [score, match] : scored)
    hits_.push_back({score, match->published, copy_id(search::parse_order_key(match->order_key).item)});
  keep_best_hits(hits_before);
  return true;
}

// The highest decay of each part of a range, all parts being `width` seconds wide.
std::vector<double> ExactTop::decay_bounds(const Range& range, std::int64_t width) const {
  std::vector<double> bounds;
  for (std::int64_t begin = range.begin; begin < range.end; begin += width)
    bounds.push_back(max_decay_before(begin + width));
  return bounds;
}

void ExactTop::search_range(const Range& range) {
  const double youngest = max_decay_before(range.end);
  Xapian::Enquire enquire(database_);
  enquire.set_query(restrict_to_range(terms(), range));
  enquire.set_sort_by_relevance_then_value(search::kOrderSlot, true);
  const std::vector<Hit> hits_before = hits_;
  for (std::size_t step = kFirstStepFactor * wanted_;; step *= 4) {
    const double cutoff = is_full_ ? nth_score_ * kBoundTolerance / youngest - query_.base : 0;
    enquire.set_cutoff(0, std::max(0.0, cutoff));
    // Start from the first match again, not from where the last step ended: weights that differ
    // only in their last bits are ordered differently each time, and a match between two steps
    // would be missed.
    const Xapian::MSet matches = enquire.get_mset(0, static_cast<Xapian::doccount>(step));
    hits_ = hits_before;
    highest_weight_ = std::max(highest_weight_, matches.get_max_possible());
    const double lowest_weight = add_hits(matches);
    if (matches.size() < step ||
        (is_full_ && (query_.base + lowest_weight) * youngest < nth_score_ * kBoundTolerance))
      return;
  }
}

// Adds matches to hits_. Returns the lowest weight among them.
double ExactTop::add_hits(const Xapian::MSet& matches) {
  double lowest_weight = 0;
  const std::size_t hits_before = hits_.size();
  for (auto each = matches.begin(); each != matches.end(); ++each) {
    lowest_weight = each.get_weight();
    const std::string key = order_key_of(each);
    const search::OrderKey read = search::parse_order_key(key);
    const std::int64_t published = to_unix(read.published);
    const double score = score_of(lowest_weight, seconds{std::max<std::int64_t>(0, now_ - published)});
    if (!is_full_ || score >= nth_score_ * kBoundTolerance)
      hits_.push_back({score, published, copy_id(read.item)});
  }
  keep_best_hits(hits_before);
  return lowest_weight;
}

std::string_view ExactTop::copy_id(std::string_view id) {
  char* const copy = static_cast<char*>(ids_.allocate(id.size(), 1));
  std::copy(id.begin(), id.end(), copy);
  return {copy, id.size()};
}

// Call after hits_ has grown from `known` items. Removes hits that are not among the best `wanted_`
// of hits and newest items.
void ExactTop::keep_best_hits(std::size_t known) {
  if (!newest_hits_.empty()) {  // a hit replaces the same item without its match
    const std::int64_t oldest = newest_hits_.back().published;
    std::unordered_set<std::string_view> matched;
    for (std::size_t i = known; i < hits_.size(); ++i) {
      if (hits_[i].published >= oldest) matched.insert(hits_[i].item);
    }
    if (!matched.empty())
      std::erase_if(newest_hits_, [&](const Hit& each) { return matched.contains(each.item); });
  }
  std::vector<const Hit*> all;
  all.reserve(hits_.size() + newest_hits_.size());
  for (const Hit& each : hits_) all.push_back(&each);
  for (const Hit& each : newest_hits_) all.push_back(&each);
  is_full_ = all.size() >= wanted_;
  if (!is_full_) return;
  const auto nth = all.begin() + static_cast<std::ptrdiff_t>(wanted_) - 1;
  std::nth_element(all.begin(), nth, all.end(), [](const Hit* a, const Hit* b) { return *b < *a; });
  const Hit last = **nth;
  nth_score_ = last.score;
  std::erase_if(hits_, [&](const Hit& each) { return each < last; });
}

// On timeout, keeps the items found so far.
void ExactTop::load_newest() {
  const auto take = [&](const std::vector<Candidate>& newest) {
    const std::size_t count = std::min(newest.size(), wanted_);
    newest_hits_.reserve(count);
    for (std::size_t i = 0; i < count; ++i) {
      const std::int64_t published = to_unix(newest[i].published_at);
      newest_hits_.push_back({score_of(0, seconds{now_ - published}), published, newest[i].item.view()});
    }
  };
  try {
    take(newest_items());
  } catch (const search::SearchTimeout&) {
    take(uncached_newest_.items);
    throw;
  }
  keep_best_hits(hits_.size());
}

void ExactTop::add_newest_to_hits() {
  hits_.insert(hits_.end(), newest_hits_.begin(), newest_hits_.end());
  newest_hits_.clear();
}

// Appends items without a score, newest first. All items with a score are in hits_.
void ExactTop::append_unscored() {
  std::unordered_set<std::string> known;
  for (const Hit& each : hits_) known.emplace(each.item);
  const std::size_t missing = wanted_ - hits_.size();
  if (query_.matches_only) return find_newest(terms(), missing, std::move(known), unscored_);
  const auto append_unknown = [&](const std::vector<Candidate>& newest) {
    for (auto each = newest.begin(); each != newest.end() && unscored_.size() < missing; ++each) {
      if (known.empty() || !known.contains(each->item.str())) unscored_.push_back(*each);
    }
  };
  unscored_.reserve(missing);
  try {
    append_unknown(newest_items());
  } catch (const search::SearchTimeout&) {
    append_unknown(uncached_newest_.items);
    throw;
  }
}

// The newest items, at least `wanted_` if the index has them. On timeout, those found so far are in
// uncached_newest_.
const std::vector<Candidate>& ExactTop::newest_items() {
  if (newest_cache_ != nullptr && newest_cache_->is_valid_for(from_unix(now_), wanted_))
    return newest_cache_->items;
  NewestItems& found = uncached_newest_;
  if (found.is_valid_for(from_unix(now_), wanted_)) return found.items;
  find_newest(Xapian::Query::MatchAll, wanted_, {}, found.items);
  found.complete = found.items.size() < wanted_;
  found.has_future_items = search_end_ == now_ + 1;
  found.as_of = from_unix(now_);
  if (newest_cache_ == nullptr || wanted_ > NewestItems::kMaxItems) return found.items;
  *newest_cache_ = std::move(found);
  return newest_cache_->items;
}

// The newest `wanted` of `items`, skipping those in `known`.
void ExactTop::find_newest(const Xapian::Query& items, std::size_t wanted,
                           std::unordered_set<std::string> known, std::vector<Candidate>& out) {
  Xapian::Enquire enquire(database_);
  enquire.set_weighting_scheme(Xapian::BoolWeight());
  enquire.set_sort_by_value(search::kOrderSlot, true);
  const double per_item =
      static_cast<double>(std::max<std::int64_t>(newest_ - oldest_, 1)) / database_.get_doccount();
  double width = 2 * static_cast<double>(wanted_) * per_item + 1;
  Range range;
  for (range.begin = newest_ + 1; out.size() < wanted && range.begin > oldest_; width *= 4) {
    range.end = range.begin;
    range.begin = std::max(oldest_, range.end - static_cast<std::int64_t>(width) - 1);
    enquire.set_query(restrict_to_range(items, range));
    const Xapian::MSet found = enquire.get_mset(0, static_cast<Xapian::doccount>(wanted_));
    for (auto each = found.begin(); each != found.end() && out.size() < wanted; ++each) {
      const std::string key = order_key_of(each);
      const search::OrderKey read = search::parse_order_key(key);
      std::string item(read.item);
      if (known.insert(item).second) out.push_back({ItemId::trusted(std::move(item)), 0, read.published});
    }
  }
}

RecallResult ExactTop::build_result() {
  RecallResult result;
  result.exhausted = hits_.size() + unscored_.size() <= size_;
  std::sort(hits_.begin(), hits_.end(), [](const Hit& a, const Hit& b) { return b < a; });
  if (hits_.size() > size_) hits_.resize(size_);
  result.candidates.reserve(hits_.size() + unscored_.size());
  // An item that is being moved between time slices may match in both. The newest items are
  // distinct.
  const bool may_repeat = has_terms();
  std::unordered_set<std::string_view> added;
  if (may_repeat) added.reserve(hits_.size());
  for (const Hit& each : hits_) {
    if (may_repeat && !added.insert(each.item).second) continue;
    result.candidates.push_back(
        {ItemId::trusted(std::string(each.item)), each.score, from_unix(each.published)});
  }
  unscored_.resize(std::min(unscored_.size(), size_ - result.candidates.size()));
  std::move(unscored_.begin(), unscored_.end(), std::back_inserter(result.candidates));
  return result;
}

}  // namespace freshet::feed
