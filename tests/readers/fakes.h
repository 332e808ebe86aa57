// A ReaderStore that returns the results the test sets, and records what is spooled.
#pragma once

#include <string>
#include <vector>

#include "core/readers/ports.h"
#include "tests/hot/fakes.h"

namespace freshet::test {

class FakeReaderStore final : public readers::ReaderStore {
 public:
  std::vector<Result<void>> results;  // of the next calls or events; success when they run out
  std::optional<Error> error;         // returned by all calls if set
  std::size_t spool_capacity = 100;
  std::vector<std::string> spooled;  // items

  Task<Result<void>> record_view(const readers::View&) override { co_return next_result(); }
  Task<Result<std::vector<readers::ViewedItem>>> views(const ReaderId&, readers::ViewKind) override {
    co_return std::vector<readers::ViewedItem>();
  }
  Task<Result<void>> clear_views(const ReaderId&, readers::ViewKind, std::optional<UnixSeconds>) override {
    co_return next_result();
  }
  Task<Result<void>> remove_view(const ReaderId&, readers::ViewKind, const ItemId&,
                                 std::optional<UnixSeconds>) override {
    co_return next_result();
  }
  Task<Result<std::vector<Result<void>>>> record_interactions(
      const std::vector<readers::ReaderEvent>& events) override {
    if (error) co_return tl::unexpected(*error);
    std::vector<Result<void>> out;
    for (std::size_t i = 0; i < events.size(); ++i) out.push_back(next_result());
    co_return out;
  }
  Task<Result<void>> dismiss(const readers::Dismissal&) override { co_return next_result(); }
  Task<Result<void>> undo_dismissal(const ReaderId&, const ItemId&, std::optional<UnixSeconds>) override {
    co_return next_result();
  }
  Task<Result<std::unordered_set<ItemId>>> dismissed_items(const ReaderId&) override {
    co_return std::unordered_set<ItemId>();
  }
  Task<Result<readers::ReaderState>> read(const ReaderId&) override { co_return readers::ReaderState(); }

  Result<void> spool_history_view(const readers::View& view) override { return spool(view.item); }
  Result<void> spool_interaction(const readers::ReaderEvent& event) override { return spool(event.item); }
  Result<void> spool_dismissal(const readers::Dismissal& dismissal) override { return spool(dismissal.item); }
  Result<void> spool_undo_dismissal(const ReaderId&, const ItemId& item) override { return spool(item); }
  Result<void> spool_clear_views(const ReaderId&, readers::ViewKind) override {
    return spool(ItemId::trusted("clear"));
  }
  Result<void> spool_remove_view(const ReaderId&, readers::ViewKind, const ItemId& item) override {
    return spool(item);
  }

 private:
  Result<void> next_result() {
    if (error) return tl::unexpected(*error);
    if (results.empty()) return {};
    const Result<void> result = results.front();
    results.erase(results.begin());
    return result;
  }
  Result<void> spool(const ItemId& item) {
    if (spooled.size() >= spool_capacity) return fail(ErrorCode::kUnavailable, "spool_full");
    spooled.push_back(item.str());
    return {};
  }
};

}  // namespace freshet::test
