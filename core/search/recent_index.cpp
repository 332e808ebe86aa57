#include "core/search/recent_index.h"

#include <algorithm>
#include <cmath>
#include <span>
#include <utility>

#include "core/search/search_schema.h"

namespace freshet::search {
namespace {

// Terms in memory; each needs about 700 bytes besides its postings.
constexpr std::size_t kMaxTerms = 8192;
// If more of a slice's items have changed, reading all of them again is faster.
constexpr std::size_t kMaxChanges = 2000;
// Postings that are read in the time in which one is looked up.
constexpr std::size_t kLookupCost = 16;

std::int64_t to_unix(UnixSeconds at) { return at.time_since_epoch().count(); }

}  // namespace

void RecentIndex::set_items(Slice& slice, Items items) {
  slice.items = std::move(items);
  ++slice.postings_version;
}

void RecentIndex::refresh(const std::vector<OpenSlice>& slices) {
  const auto is_same = [](const Slice& known, const OpenSlice& open) {
    return known.slice == open.slice && known.uuid == open.database.get_uuid();
  };
  if (!std::equal(slices_.begin(), slices_.end(), slices.begin(), slices.end(), is_same)) {
    slices_.clear();
    terms_.clear();
    postings_ = 0;
    for (const OpenSlice& each : slices) {
      Slice& added = slices_.emplace_back();
      added.slice = each.slice;
      added.uuid = each.database.get_uuid();
    }
  }
  double total_length = 0;
  documents_ = 0;
  for (std::size_t i = 0; i < slices_.size(); ++i) {
    Slice& slice = slices_[i];
    slice.database = slices[i].database;
    const Xapian::rev revision = slice.database.get_revision();
    if (revision != slice.revision) {
      slice.revision = revision;
      slice.documents = slice.database.get_doccount();
      slice.total_length = slice.database.get_total_length();
      ++slice.frequencies_version;
      slice.is_current = false;
    }
    documents_ += static_cast<double>(slice.documents);
    total_length += static_cast<double>(slice.total_length);
  }
  average_length_ = documents_ > 0 ? total_length / documents_ : 0;
  if (postings_ > limits_.postings || terms_.size() > kMaxTerms) forget_old_terms();
  ++searches_;
  allowance_ = limits_.loaded_items;
}

std::size_t RecentIndex::item_count() const {
  std::size_t sum = 0;
  for (const Slice& each : slices_) sum += each.items.all.size();
  return sum;
}

std::int64_t RecentIndex::load_since(std::int64_t begin) {
  // Older slices than this search needs are compared by the first search that needs them.
  for (auto slice = slices_.rbegin(); slice != slices_.rend(); ++slice) {
    if (!slice->is_current && slice->items.since != kNone) compare(*slice);
    if (to_unix(slice->slice.begin) <= begin) break;
  }
  if (item_count() > limits_.items) {
    for (Slice& each : slices_) set_items(each, {});
  }
  std::int64_t since = kNone;
  for (auto slice = slices_.rbegin(); slice != slices_.rend(); ++slice) {
    const std::int64_t slice_begin = to_unix(slice->slice.begin);
    const bool has_all = slice->items.since <= std::max(begin, slice_begin) || slice->items.is_cut;
    if (!has_all && allowance_ > 0) load_some(*slice, begin);
    if (slice->items.since == kNone) return since;
    since = slice->items.since;
    if (since > slice_begin || since <= begin) return since;
  }
  return since;
}

// False if an item has no state, or if reading all states takes too long.
bool RecentIndex::can_load(const Slice& slice) const {
  return slice.documents <= 2 * limits_.items &&
         slice.database.get_value_freq(kItemStateSlot) == slice.documents;
}

// Searches meanwhile use the items that were loaded before.
void RecentIndex::load_some(Slice& slice, std::int64_t begin) {
  const std::int64_t oldest = std::max(begin, to_unix(slice.slice.begin));
  if (!slice.loading || (slice.loading->items.since > oldest && !slice.loading->items.is_cut)) {
    if (!can_load(slice)) return;
    slice.loading = begin_loading(slice, begin);
  }
  Loading& loading = *slice.loading;
  for (; loading.next < loading.found.size() && allowance_ > 0; ++loading.next, --allowance_) {
    try {
      add_item(slice.database, loading.items, loading.found[loading.next]);
    } catch (const Xapian::DocNotFoundError&) {  // NOLINT(bugprone-empty-catch): removed meanwhile
    }
  }
  if (loading.next < loading.found.size()) return;
  loading.items.sorted = loading.items.all.size();
  slice.is_current = loading.revision == slice.revision;
  set_items(slice, std::move(loading.items));
  slice.loading.reset();
  if (!slice.is_current) compare(slice);
}

// Loads more than is asked for, so that the time that passes and deeper searches seldom load again.
RecentIndex::Loading RecentIndex::begin_loading(const Slice& slice, std::int64_t begin) const {
  Loading out;
  out.revision = slice.revision;
  std::vector<ReadItem>& found = out.found;
  std::int64_t newest = begin;
  for (auto each = slice.database.valuestream_begin(kItemStateSlot);
       each != slice.database.valuestream_end(kItemStateSlot); ++each) {
    const ItemState state = parse_item_state(*each);
    newest = std::max(newest, to_unix(state.published));
    found.push_back({to_unix(state.published), state.fingerprint, each.get_docid()});
  }
  std::int64_t& since = out.items.since;
  since = std::max(to_unix(slice.slice.begin), begin - (newest - begin) / 2);
  std::erase_if(found, [&](const ReadItem& each) { return each.published < since; });
  std::sort(found.begin(), found.end(),
            [](const ReadItem& a, const ReadItem& b) { return a.published < b.published; });
  const std::size_t others = item_count() - slice.items.all.size();
  const std::size_t max_items = limits_.items / 4 * 3;  // the rest is for those that are added
  if (others + found.size() > max_items) {
    out.items.is_cut = true;
    // Items of one second are all in memory, or none of them.
    const std::size_t excess = std::min(others + found.size() - max_items, found.size());
    since = found[excess - 1].published + 1;
    std::erase_if(found, [&](const ReadItem& each) { return each.published < since; });
    if (found.empty()) since = kNone;
  }
  out.items.by_number.assign(slice.database.get_lastdocid() + 1, kAbsent);
  out.items.all.reserve(found.size());
  return out;
}

std::uint32_t RecentIndex::add_item(const Xapian::Database& database, Items& items, const ReadItem& item) {
  if (item.document >= items.by_number.size()) throw Xapian::DatabaseCorruptError("a number beyond the last");
  const std::uint32_t length = database.get_doclength(item.document);
  const std::string key = database.get_document(item.document).get_value(kOrderSlot);
  if (!is_order_key(key)) throw Xapian::DatabaseModifiedError("an item has no order key");
  const auto number = static_cast<std::uint32_t>(items.all.size());
  items.all.push_back({item.published, item.fingerprint, item.document,
                       static_cast<std::uint32_t>(items.keys.size()),
                       static_cast<std::uint16_t>(key.size())});
  items.keys += key;
  items.lengths.push_back(length);
  items.by_number[item.document] = number;
  return number;
}

// Brings the items of a slice that has changed up to date.
void RecentIndex::compare(Slice& slice) {
  Items& items = slice.items;
  const std::int64_t since = std::exchange(items.since, kNone);  // until this succeeds
  if (!can_load(slice)) return set_items(slice, {});
  const std::size_t documents = slice.database.get_lastdocid() + 1;
  if (documents > items.by_number.size()) items.by_number.resize(documents, kAbsent);
  std::vector<ReadItem> added;
  std::vector<bool> is_present(items.all.size());
  for (auto each = slice.database.valuestream_begin(kItemStateSlot);
       each != slice.database.valuestream_end(kItemStateSlot); ++each) {
    const ItemState state = parse_item_state(*each);
    const std::int64_t published = to_unix(state.published);
    if (published < since) continue;
    const std::uint32_t document = each.get_docid();
    const std::uint32_t known = document < items.by_number.size() ? items.by_number[document] : kAbsent;
    if (known != kAbsent && items.all[known].fingerprint == state.fingerprint &&
        items.all[known].published == published)
      is_present[known] = true;
    else
      added.push_back({published, state.fingerprint, document});
  }
  for (std::uint32_t i = 0; i < is_present.size(); ++i) {
    Item& item = items.all[i];
    if (is_present[i] || item.document == 0) continue;
    items.by_number[item.document] = kAbsent;
    item.document = 0;
    ++items.removed;
  }
  const std::size_t unsorted = items.all.size() - items.sorted + added.size();
  if (added.size() > kMaxChanges || items.removed + unsorted > kMaxChanges + items.all.size() / 4 ||
      items.all.size() + added.size() > kMaxItemsOfSlice)
    return set_items(slice, {});
  std::sort(added.begin(), added.end(),
            [](const ReadItem& a, const ReadItem& b) { return a.published < b.published; });
  const auto index = static_cast<std::size_t>(&slice - slices_.data());
  for (auto& [name, term] : terms_) {  // the item that has it too often may be gone
    if (index < term.slices.size() && term.slices[index].is_too_frequent)
      term.slices[index].postings_version = 0;
  }
  for (const ReadItem& each : added) add_postings(index, add_item(slice.database, items, each));
  items.since = since;
  slice.is_current = true;
}

void RecentIndex::add_postings(std::size_t index, std::uint32_t item) {
  Slice& slice = slices_[index];
  const std::uint32_t document = slice.items.all[item].document;
  for (auto each = slice.database.termlist_begin(document); each != slice.database.termlist_end(document);
       ++each) {
    const auto found = terms_.find(*each);
    if (found == terms_.end()) continue;
    TermSlice& in_slice = found->second.slices[index];
    if (in_slice.postings_version != slice.postings_version) continue;
    const std::uint32_t frequency = each.get_wdf();
    if (frequency > kMaxFrequency) in_slice.is_too_frequent = true;
    in_slice.postings.push_back(item << kFrequencyBits | std::min(frequency, kMaxFrequency));
    ++postings_;
  }
}

RecentIndex::Term& RecentIndex::find_term(const std::string& name) {
  Term& term = terms_[name];
  term.last_used = searches_;
  term.slices.resize(slices_.size());
  return term;
}

std::uint64_t RecentIndex::frequency(const std::string& name, Term& term) {
  std::uint64_t sum = 0;
  for (std::size_t i = 0; i < slices_.size(); ++i) {
    TermSlice& in_slice = term.slices[i];
    if (in_slice.frequency_version != slices_[i].frequencies_version) {
      in_slice.frequency = slices_[i].database.get_termfreq(name);
      in_slice.frequency_version = slices_[i].frequencies_version;
    }
    sum += in_slice.frequency;
  }
  return sum;
}

// False if a posting does not fit.
bool RecentIndex::load_postings(const std::string& name, Term& term, std::size_t index) {
  const Slice& slice = slices_[index];
  TermSlice& in_slice = term.slices[index];
  if (in_slice.postings_version == slice.postings_version) return !in_slice.is_too_frequent;
  if (postings_ > 2 * limits_.postings) return false;  // until a search forgets some
  const std::vector<std::uint32_t>& by_number = slice.items.by_number;
  std::vector<std::uint32_t> postings;
  bool is_too_frequent = false;
  for (auto each = slice.database.postlist_begin(name); each != slice.database.postlist_end(name); ++each) {
    const std::uint32_t item = *each < by_number.size() ? by_number[*each] : kAbsent;
    if (item == kAbsent) continue;
    const std::uint32_t frequency = each.get_wdf();
    is_too_frequent = is_too_frequent || frequency > kMaxFrequency;
    postings.push_back(item << kFrequencyBits | std::min(frequency, kMaxFrequency));
  }
  std::sort(postings.begin(), postings.end());
  postings.shrink_to_fit();
  postings_ += postings.size() - in_slice.postings.size();
  in_slice.postings = std::move(postings);
  in_slice.is_too_frequent = is_too_frequent;
  in_slice.postings_version = slice.postings_version;
  return !is_too_frequent;
}

// The weight of a term in an item that consists of it: BM25 without the part that depends on the
// item.
double RecentIndex::term_weight(double frequency, double factor) const {
  constexpr double kK1 = 1;
  double odds = (documents_ - frequency + 0.5) / (frequency + 0.5);
  if (odds < 2) odds = odds * 0.5 + 1;  // as Xapian: never negative
  return std::log(odds) * factor * (kK1 + 1);
}

double RecentIndex::highest_weight(const std::vector<WeightedTerm>& terms) {
  double sum = 0;
  for (const WeightedTerm& each : terms)
    sum += term_weight(static_cast<double>(frequency(each.name, find_term(each.name))), each.factor);
  return sum;
}

// The terms in descending order of weight.
std::vector<RecentIndex::QueryTerm> RecentIndex::by_weight(const std::vector<WeightedTerm>& terms) {
  std::vector<QueryTerm> out;
  out.reserve(terms.size());
  for (const WeightedTerm& each : terms) {
    Term& term = find_term(each.name);  // references into terms_ stay valid
    out.push_back(
        {&each.name, &term, term_weight(static_cast<double>(frequency(each.name, term)), each.factor), 0});
  }
  std::sort(out.begin(), out.end(),
            [](const QueryTerm& a, const QueryTerm& b) { return a.weight > b.weight; });
  double following = 0;
  for (auto each = out.rbegin(); each != out.rend(); ++each) {
    each->following = following;
    following += each->weight;
  }
  return out;
}

std::optional<std::vector<RecentIndex::Match>> RecentIndex::match(const std::vector<WeightedTerm>& terms,
                                                                  std::int64_t begin, std::int64_t end,
                                                                  double min_weight,
                                                                  const SearchDeadline* deadline) {
  if (!matched_.empty()) {  // the last search ran out of memory
    for (Slice& each : slices_) each.weights.clear();
    matched_.clear();
  }
  std::vector<Match> matches;
  const std::vector<QueryTerm> query = by_weight(terms);
  for (std::size_t i = slices_.size(); i-- > 0;) {
    const Slice& slice = slices_[i];
    if (to_unix(slice.slice.begin) >= end) continue;
    if (slice.items.since == kNone) break;
    for (const QueryTerm& each : query) {
      if (deadline != nullptr) deadline->check();
      if (!load_postings(*each.name, *each.term, i)) return std::nullopt;
    }
    match_slice(i, query, begin, end, min_weight, matches);
    if (to_unix(slice.slice.begin) <= begin) break;
  }
  return matches;
}

// Terms are added in descending order of weight. Once an item with only the remaining terms would
// weigh too little, these are added only to the items found so far, of which ever fewer can weigh
// enough.
void RecentIndex::match_slice(std::size_t index, const std::vector<QueryTerm>& terms, std::int64_t begin,
                              std::int64_t end, double min_weight, std::vector<Match>& out) {
  Slice& slice = slices_[index];
  const Items& items = slice.items;
  const auto first_since = [&](std::int64_t published) {
    const auto sorted_end = items.all.begin() + static_cast<std::ptrdiff_t>(items.sorted);
    const auto found = std::partition_point(items.all.begin(), sorted_end,
                                            [&](const Item& each) { return each.published < published; });
    return static_cast<std::size_t>(found - items.all.begin());
  };
  const std::size_t first = first_since(begin), last = first_since(end);
  using Postings = std::span<const std::uint32_t>;
  const auto from_item = [](Postings postings, std::size_t item) {
    const auto found = std::partition_point(
        postings.begin(), postings.end(), [&](std::uint32_t each) { return each >> kFrequencyBits < item; });
    return postings.subspan(static_cast<std::size_t>(found - postings.begin()));
  };
  const double per_length = average_length_ > 0 ? 1 / average_length_ : 0;
  const auto add = [&](double weight, std::uint32_t posting) {
    const double frequency_in_item = posting & kMaxFrequency;
    const double length = std::max(items.lengths[posting >> kFrequencyBits] * per_length, 0.5);
    slice.weights[posting >> kFrequencyBits] +=
        weight * (frequency_in_item / (length * 0.5 + 0.5 + frequency_in_item));
  };
  const auto drop_below = [&](double weight) {
    std::erase_if(matched_, [&](std::uint32_t item) {
      if (slice.weights[item] >= weight) return false;
      slice.weights[item] = -1;
      return true;
    });
  };

  slice.weights.resize(items.all.size(), -1.0);
  matched_.reserve(items.all.size());
  for (const QueryTerm& term : terms) {
    const Postings all = term.term->slices[index].postings;
    const Postings unsorted = from_item(all, items.sorted), since_begin = from_item(all, first);
    const Postings in_range = since_begin.first(since_begin.size() - from_item(since_begin, last).size());
    const bool is_enough = term.weight + term.following >= min_weight;
    if (!is_enough && matched_.size() * kLookupCost < in_range.size()) {
      for (const std::uint32_t item : matched_) {
        const Postings found = from_item(all, item);
        if (!found.empty() && found.front() >> kFrequencyBits == item) add(term.weight, found.front());
      }
    } else {
      for (const Postings part : {in_range, unsorted}) {
        for (const std::uint32_t posting : part) {
          const std::uint32_t item = posting >> kFrequencyBits;
          if (slice.weights[item] < 0) {
            if (!is_enough) continue;
            slice.weights[item] = 0;
            matched_.push_back(item);
          }
          add(term.weight, posting);
        }
      }
    }
    if (min_weight > 0) drop_below(min_weight - term.following);
  }
  for (; !matched_.empty(); matched_.pop_back()) {
    const Item& item = items.all[matched_.back()];
    const double weight = std::exchange(slice.weights[matched_.back()], -1.0);
    if (item.document == 0 || item.published < begin || item.published >= end) continue;
    out.push_back(
        {weight, item.published, std::string_view(items.keys).substr(item.key_offset, item.key_bytes)});
  }
}

// Forgets the terms that were not used for longest, until there is room for an eighth more.
void RecentIndex::forget_old_terms() {
  std::vector<const std::pair<const std::string, Term>*> oldest_first;
  oldest_first.reserve(terms_.size());
  for (const auto& each : terms_) oldest_first.push_back(&each);
  std::sort(oldest_first.begin(), oldest_first.end(),
            [](const auto* a, const auto* b) { return a->second.last_used < b->second.last_used; });
  for (const auto* each : oldest_first) {
    if (postings_ <= limits_.postings / 8 * 7 && terms_.size() <= kMaxTerms / 8 * 7) return;
    for (const TermSlice& in_slice : each->second.slices) postings_ -= in_slice.postings.size();
    terms_.erase(terms_.find(each->first));
  }
}

}  // namespace freshet::search
