#include "core/search/time_slices.h"

#include <algorithm>
#include <utility>

#include "core/search/search_schema.h"

namespace freshet::search {
namespace {

struct VersionCompactor final : Xapian::Compactor {
  // Called for the version, the only metadata, if both slices have one.
  std::string resolve_duplicate_metadata(const std::string&, std::size_t count,
                                         const std::string versions[]) override {
    const bool all_equal =
        std::all_of(versions, versions + count, [&](const std::string& each) { return each == versions[0]; });
    return all_equal ? versions[0] : mixed_version(versions[0], versions[1]);
  }
};

}  // namespace

bool TimeSlices::OpenSlice::contains(const std::string& id_term) const {
  return writer ? writer->term_exists(id_term) : reader.term_exists(id_term);
}

std::uint64_t TimeSlices::OpenSlice::documents() const {
  return writer ? writer->get_doccount() : reader.get_doccount();
}

TimeSlices::TimeSlices(IndexFolder folder, const std::vector<TimeSlice>& slices, std::string version)
    : folder_(std::move(folder)), current_version_(std::move(version)), version_(current_version_) {
  for (const TimeSlice& each : slices) {
    open_slices_.push_back({each, Xapian::Database(folder_.path_of(each)), std::nullopt});
    std::string found = open_slices_.back().reader.get_metadata(kVersionKey);
    if (found != current_version_) version_ = std::move(found);
  }
}

Xapian::WritableDatabase& TimeSlices::writer(OpenSlice& open) {
  if (!open.writer) {
    open.writer.emplace(folder_.path_of(open.slice), Xapian::DB_CREATE_OR_OPEN);
    open.reader = Xapian::Database();
  }
  if (!open.in_transaction) {
    open.writer->begin_transaction();
    open.in_transaction = true;
    const std::string version = open.writer->get_metadata(kVersionKey);
    if (version != current_version_)
      open.writer->set_metadata(kVersionKey, mixed_version(version, current_version_));
  }
  return *open.writer;
}

TimeSlices::OpenSlice& TimeSlices::slice_for(UnixSeconds published) {
  const auto successor = std::find_if(open_slices_.begin(), open_slices_.end(),
                                      [&](const OpenSlice& each) { return published < each.slice.end; });
  if (successor != open_slices_.end() && successor->slice.contains(published)) return *successor;
  // A slice for its own week, limited by the neighboring slices.
  TimeSlice slice{slice_start(published), slice_start(published) + kSliceSpan, folder_.next_serial()};
  if (successor != open_slices_.end()) slice.end = std::min(slice.end, successor->slice.begin);
  if (successor != open_slices_.begin()) slice.begin = std::max(slice.begin, std::prev(successor)->slice.end);
  OpenSlice& opened = *open_slices_.insert(successor, {slice, Xapian::Database(), std::nullopt});
  opened.writer.emplace(folder_.path_of(slice), Xapian::DB_CREATE);
  writer(opened).set_metadata(kVersionKey, current_version_);
  return opened;
}

void TimeSlices::put(const Xapian::Document& document, const std::string& id_term, UnixSeconds published) {
  OpenSlice& target = slice_for(published);
  for (OpenSlice& each : open_slices_) {
    if (&each != &target && each.contains(id_term)) writer(each).delete_document(id_term);
  }
  writer(target).replace_document(id_term, document);
}

void TimeSlices::remove(const std::string& id_term) {
  for (OpenSlice& each : open_slices_) {
    if (each.contains(id_term)) writer(each).delete_document(id_term);
  }
}

void TimeSlices::commit() {
  for (auto each = open_slices_.rbegin(); each != open_slices_.rend(); ++each) {
    if (!each->in_transaction) continue;
    each->writer->commit_transaction();
    each->in_transaction = false;
  }
  while (open_slices_.size() > kMaxSlices) {
    std::size_t smallest = 0;
    std::uint64_t fewest = UINT64_MAX;
    for (std::size_t i = 0; i + 1 < open_slices_.size() - kUnmergedSlices; ++i) {
      const std::uint64_t combined = open_slices_[i].documents() + open_slices_[i + 1].documents();
      if (combined < fewest) fewest = combined, smallest = i;
    }
    merge_with_next(smallest);
  }
}

void TimeSlices::merge_with_next(std::size_t index) {
  OpenSlice& older = open_slices_[index];
  OpenSlice& younger = open_slices_[index + 1];
  const TimeSlice merged{older.slice.begin, younger.slice.end, folder_.next_serial()};
  Xapian::Database combined;
  combined.add_database(Xapian::Database(folder_.path_of(older.slice)));
  combined.add_database(Xapian::Database(folder_.path_of(younger.slice)));
  VersionCompactor compactor;
  combined.compact(folder_.path_of(merged), 0, 0, compactor);
  older = {merged, Xapian::Database(folder_.path_of(merged)), std::nullopt};
  open_slices_.erase(open_slices_.begin() + static_cast<std::ptrdiff_t>(index) + 1);
}

void TimeSlices::discard() noexcept {
  for (OpenSlice& each : open_slices_) {
    if (!each.in_transaction) continue;
    try {
      each.writer->cancel_transaction();  // otherwise its destructor would commit
    } catch (...) {  // NOLINT(bugprone-empty-catch): what was not committed is lost either way
    }
  }
  open_slices_.clear();
}

std::vector<TimeSlice> TimeSlices::slices() const {
  std::vector<TimeSlice> slices;
  for (const OpenSlice& each : open_slices_) slices.push_back(each.slice);
  return slices;
}

std::uint64_t TimeSlices::documents() const {
  std::uint64_t sum = 0;
  for (const OpenSlice& each : open_slices_) sum += each.documents();
  return sum;
}

}  // namespace freshet::search
