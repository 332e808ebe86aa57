#include "core/feed/exact_top.h"

#include <algorithm>
#include <cmath>
#include <functional>
#include <iterator>
#include <unordered_set>
#include <utility>

#include "core/search/index_folder.h"
#include "core/search/search_schema.h"

namespace freshet::feed {
namespace {

// A bound may be off by a bit or two, since Xapian adds the weights of terms in one order here and
// in another there; it errs on the side of reading more.
constexpr double kBelow = 1.0 - 1e-9;
// A range with more matches than this many times those wanted is read in steps.
constexpr std::size_t kStep = 3;
// The first range is meant to hold this many times the items wanted, of which a part will match.
constexpr double kFirstItems = 8.0;

std::int64_t count_of(UnixSeconds at) { return at.time_since_epoch().count(); }
UnixSeconds at_second(std::int64_t second) { return UnixSeconds{seconds{second}}; }

// Two commits in mid-search can take a match's values away, which Xapian does not always notice.
std::string key_of(const Xapian::MSetIterator& match) {
  std::string key = match.get_sort_key();
  if (!search::is_order_key(key)) throw Xapian::DatabaseModifiedError("a match has no order key");
  return key;
}

std::int64_t bound(const std::string& value) {
  return value.empty() ? 0 : static_cast<std::int64_t>(Xapian::sortable_unserialise(value));
}

}  // namespace

ExactTop::ExactTop(const Xapian::Database& database, MatchQuery query, const GaussDecay& decay,
                   UnixSeconds now, std::size_t size, const search::SearchDeadline* deadline,
                   NewestItems* newest)
    : database_(database),
      query_(std::move(query)),
      decay_(decay),
      now_(count_of(now)),
      size_(size),
      wanted_(size + 1),
      newest_known_(newest),
      deadline_(deadline) {}

Recalled ExactTop::search() {
  if (database_.get_doccount() == 0) return {{}, true};
  oldest_ = bound(database_.get_value_lower_bound(search::kPublishedSlot));
  newest_ = bound(database_.get_value_upper_bound(search::kPublishedSlot));
  if (newest_ > now_) {  // what is dated ahead is left out
    end_ = now_ + 1;
    newest_ = now_;
    if (oldest_ > now_) return {{}, true};
  }
  bool whole = true;
  try {
    if (!query_.terms.empty()) collect_scored();
    // A match whose score is 0 is no better than an item without one: it stands where its date
    // says.
    std::erase_if(hits_, [](const Hit& each) { return each.score == 0; });
    if (!full() && !(query_.matches_only && query_.terms.empty())) fill_up();
  } catch (const search::SearchTimeout&) {
    if (hits_.empty() && filling_.empty()) throw;
    whole = false;
  }
  Recalled recalled = best();
  recalled.exhausted = recalled.exhausted && whole;
  return recalled;
}

Xapian::Query ExactTop::within(const Xapian::Query& query, const Range& range) const {
  const Xapian::Query dated(Xapian::Query::OP_FILTER, query,
                            search::published_within(at_second(range.from), at_second(range.before)));
  return deadline_ != nullptr ? deadline_->guard(dated) : dated;
}

// The decay of the youngest item published before `before`.
double ExactTop::decay_before(std::int64_t before) const {
  return before > now_ ? 1.0 : decay_.at(seconds{now_ - before + 1});
}

bool ExactTop::rest_is_below(std::int64_t before) const {
  if (before <= oldest_) return true;
  const double youngest = decay_before(before);
  return youngest == 0 || (full() && highest_weight_ * youngest < nth_score_ * kBelow);
}

void ExactTop::collect_scored() {
  Range range{0, end_};
  range.from = newest_ - first_width();
  for (;;) {
    range.from = std::max(oldest_, aligned(range));
    search_range(range);
    if (rest_is_below(range.from)) return;
    range = {next_from(range), range.from};
  }
}

// The start of the range, moved down to where a partition is likely to begin when that is not far:
// a partition that lies in a range as a whole is searched without a look at each date, and not
// again for the next range.
std::int64_t ExactTop::aligned(const Range& range) const {
  const std::int64_t start = count_of(search::slice_start(at_second(range.from)));
  return range.from - start <= std::min(range.before, now_) - range.from ? start : range.from;
}

std::int64_t ExactTop::first_width() const {
  const double span = static_cast<double>(std::max<std::int64_t>(newest_ - oldest_, 1));
  const double width = kFirstItems * static_cast<double>(wanted_) * span / database_.get_doccount();
  const std::int64_t slope = decay_.below(0.5).count();
  return width < static_cast<double>(slope) ? static_cast<std::int64_t>(width) + 1 : slope;
}

// Where the range after `done` begins.
std::int64_t ExactTop::next_from(const Range& done) const {
  if (full()) {  // all that is left; a further range would cost more than its better cutoff saves
    const double useful = nth_score_ * kBelow / highest_weight_;
    return std::min(now_ - decay_.below(useful).count(), done.from - 1);
  }
  // Not enough yet: as far again as all ranges so far, or further if that has not been rich.
  const double covered = static_cast<double>(std::max<std::int64_t>(now_ - done.from, 1));
  const double matched = std::max(static_cast<double>(hits_.size()), 1.0);
  const double missing = 1.5 * (static_cast<double>(wanted_) - matched) / matched * covered;
  const double reach = std::clamp(missing, covered, 16 * covered);
  return done.from - static_cast<std::int64_t>(std::min(reach, 1e12)) - 1;
}

void ExactTop::search_range(const Range& range) {
  const double youngest = decay_before(range.before);
  Xapian::Enquire enquire(database_);
  enquire.set_query(within(query_.terms, range));
  enquire.set_sort_by_relevance_then_value(search::kOrderSlot, true);
  const std::vector<Hit> before = hits_;
  for (std::size_t step = kStep * wanted_;; step *= 4) {
    const double cutoff = full() ? nth_score_ * kBelow / youngest : 0;
    enquire.set_cutoff(0, cutoff);
    // From the first again, not from where the last step ended: weights that differ in their last
    // bits stand in another order each time, and one between two steps would be missed.
    const Xapian::MSet found = enquire.get_mset(0, static_cast<Xapian::doccount>(step));
    hits_ = before;
    highest_weight_ = std::max(highest_weight_, found.get_max_possible());
    const double last = take(found);
    if (found.size() < step || (full() && last * youngest < nth_score_ * kBelow)) return;
  }
}

// Adds to the hits; the lowest weight among them.
double ExactTop::take(const Xapian::MSet& found) {
  double last = 0;
  for (auto each = found.begin(); each != found.end(); ++each) {
    last = each.get_weight();
    Hit hit{0, key_of(each)};
    hit.score = last * decay_.at(seconds{std::max<std::int64_t>(
                           0, now_ - count_of(search::parse_order_key(hit.key).published))});
    if (!full() || hit.score >= nth_score_ * kBelow) hits_.push_back(std::move(hit));
  }
  if (full()) {
    const auto nth = hits_.begin() + static_cast<std::ptrdiff_t>(wanted_) - 1;
    std::nth_element(hits_.begin(), nth, hits_.end(), [](const Hit& a, const Hit& b) { return b < a; });
    hits_.erase(nth + 1, hits_.end());
    nth_score_ = hits_.back().score;
  }
  return last;
}

// With what scores nothing, newest first; the hits have all that scores.
void ExactTop::fill_up() {
  std::unordered_set<std::string> known;
  for (const Hit& each : hits_) known.emplace(search::parse_order_key(each.key).item);
  const std::size_t missing = wanted_ - hits_.size();
  if (query_.matches_only) return find_newest(query_.terms, missing, std::move(known), filling_);
  const auto take_unknown = [&](const std::vector<Candidate>& newest) {
    for (auto each = newest.begin(); each != newest.end() && filling_.size() < missing; ++each) {
      if (known.empty() || !known.contains(each->item.str())) filling_.push_back(*each);
    }
  };
  filling_.reserve(missing);
  if (newest_known_ != nullptr && newest_known_->good_for(at_second(now_), wanted_))
    return take_unknown(newest_known_->items);
  NewestItems found;
  try {
    find_newest(Xapian::Query::MatchAll, wanted_, {}, found.items);
  } catch (const search::SearchTimeout&) {
    take_unknown(found.items);
    throw;
  }
  take_unknown(found.items);
  if (newest_known_ == nullptr || wanted_ > NewestItems::kMost) return;
  found.all = found.items.size() < wanted_;
  found.ahead = end_ == now_ + 1;
  found.at = at_second(now_);
  *newest_known_ = std::move(found);
}

// The newest `wanted` of `items`, without those `known`.
void ExactTop::find_newest(const Xapian::Query& items, std::size_t wanted,
                           std::unordered_set<std::string> known, std::vector<Candidate>& out) {
  Xapian::Enquire enquire(database_);
  enquire.set_weighting_scheme(Xapian::BoolWeight());
  enquire.set_sort_by_value(search::kOrderSlot, true);
  const double per_item =
      static_cast<double>(std::max<std::int64_t>(newest_ - oldest_, 1)) / database_.get_doccount();
  double width = 2 * static_cast<double>(wanted_) * per_item + 1;
  Range range;
  for (range.from = newest_ + 1; out.size() < wanted && range.from > oldest_; width *= 4) {
    range.before = range.from;
    range.from = std::max(oldest_, range.before - static_cast<std::int64_t>(width) - 1);
    enquire.set_query(within(items, range));
    const Xapian::MSet found = enquire.get_mset(0, static_cast<Xapian::doccount>(wanted_));
    for (auto each = found.begin(); each != found.end() && out.size() < wanted; ++each) {
      const std::string key = key_of(each);
      const search::OrderKey read = search::parse_order_key(key);
      std::string item(read.item);
      if (known.insert(item).second) out.push_back({ItemId::trusted(std::move(item)), 0, read.published});
    }
  }
}

Recalled ExactTop::best() {
  Recalled recalled;
  recalled.exhausted = hits_.size() + filling_.size() <= size_;
  std::sort(hits_.begin(), hits_.end(), [](const Hit& a, const Hit& b) { return b < a; });
  if (hits_.size() > size_) hits_.resize(size_);
  recalled.candidates.reserve(hits_.size() + filling_.size());
  // An item that is just moving from one partition to another may be in both.
  std::unordered_set<std::string_view> once;
  for (const Hit& each : hits_) {
    const search::OrderKey key = search::parse_order_key(each.key);
    if (!once.insert(key.item).second) continue;
    recalled.candidates.push_back({ItemId::trusted(std::string(key.item)), each.score, key.published});
  }
  filling_.resize(std::min(filling_.size(), size_ - recalled.candidates.size()));
  std::move(filling_.begin(), filling_.end(), std::back_inserter(recalled.candidates));
  return recalled;
}

}  // namespace freshet::feed
