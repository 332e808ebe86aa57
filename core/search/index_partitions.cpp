#include "core/search/index_partitions.h"

#include <algorithm>
#include <utility>

namespace freshet::search {

bool IndexPartitions::Open::contains(const std::string& id_term) const {
  return writer ? writer->term_exists(id_term) : reader.term_exists(id_term);
}

std::uint64_t IndexPartitions::Open::documents() const {
  return writer ? writer->get_doccount() : reader.get_doccount();
}

IndexPartitions::IndexPartitions(IndexFolder folder, const std::vector<Partition>& partitions)
    : folder_(std::move(folder)) {
  for (const Partition& each : partitions) {
    open_.push_back({each, Xapian::Database(folder_.path_of(each)), std::nullopt});
  }
}

Xapian::WritableDatabase& IndexPartitions::writer(Open& open) {
  if (!open.writer) {
    open.writer.emplace(folder_.path_of(open.partition), Xapian::DB_CREATE_OR_OPEN);
    open.reader = Xapian::Database();
  }
  if (!open.changed) {
    open.writer->begin_transaction();
    open.changed = true;
  }
  return *open.writer;
}

IndexPartitions::Open& IndexPartitions::holding(UnixSeconds published) {
  const auto next = std::find_if(open_.begin(), open_.end(),
                                 [&](const Open& each) { return published < each.partition.before; });
  if (next != open_.end() && next->partition.holds(published)) return *next;
  // A week of its own, as far as its neighbours leave room.
  Partition fresh{span_start(published), span_start(published) + kPartitionSpan, folder_.next_serial()};
  if (next != open_.end()) fresh.before = std::min(fresh.before, next->partition.from);
  if (next != open_.begin()) fresh.from = std::max(fresh.from, std::prev(next)->partition.before);
  Open& made = *open_.insert(next, {fresh, Xapian::Database(), std::nullopt});
  made.writer.emplace(folder_.path_of(fresh), Xapian::DB_CREATE);
  return made;
}

void IndexPartitions::put(const Xapian::Document& document, const std::string& id_term,
                          UnixSeconds published) {
  Open& home = holding(published);
  for (Open& each : open_) {
    if (&each != &home && each.contains(id_term)) writer(each).delete_document(id_term);
  }
  writer(home).replace_document(id_term, document);
}

void IndexPartitions::remove(const std::string& id_term) {
  for (Open& each : open_) {
    if (each.contains(id_term)) writer(each).delete_document(id_term);
  }
}

void IndexPartitions::commit() {
  for (auto each = open_.rbegin(); each != open_.rend(); ++each) {
    if (!each->changed) continue;
    each->writer->commit_transaction();
    each->changed = false;
  }
  while (open_.size() > kMaxPartitions) {
    std::size_t smallest = 0;
    std::uint64_t fewest = UINT64_MAX;
    for (std::size_t i = 0; i + 1 < open_.size() - kYoungestKept; ++i) {
      const std::uint64_t both = open_[i].documents() + open_[i + 1].documents();
      if (both < fewest) fewest = both, smallest = i;
    }
    merge_with_next(smallest);
  }
}

void IndexPartitions::merge_with_next(std::size_t index) {
  Open& older = open_[index];
  Open& younger = open_[index + 1];
  const Partition merged{older.partition.from, younger.partition.before, folder_.next_serial()};
  Xapian::Database both;
  both.add_database(Xapian::Database(folder_.path_of(older.partition)));
  both.add_database(Xapian::Database(folder_.path_of(younger.partition)));
  both.compact(folder_.path_of(merged));
  older = {merged, Xapian::Database(folder_.path_of(merged)), std::nullopt};
  open_.erase(open_.begin() + static_cast<std::ptrdiff_t>(index) + 1);
}

void IndexPartitions::discard() noexcept {
  for (Open& each : open_) {
    if (!each.changed) continue;
    try {
      each.writer->cancel_transaction();  // else its destructor would commit
    } catch (...) {  // NOLINT(bugprone-empty-catch): what was not committed is lost either way
    }
  }
  open_.clear();
}

std::vector<Partition> IndexPartitions::list() const {
  std::vector<Partition> partitions;
  for (const Open& each : open_) partitions.push_back(each.partition);
  return partitions;
}

std::uint64_t IndexPartitions::documents() const {
  std::uint64_t sum = 0;
  for (const Open& each : open_) sum += each.documents();
  return sum;
}

}  // namespace freshet::search
