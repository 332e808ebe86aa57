// A ReaderStore that answers what the test says and counts what it was asked.
#pragma once

#include <string>
#include <vector>

#include "core/readers/ports.h"
#include "tests/hot/fakes.h"

namespace freshet::test {

class FakeReaderStore final : public readers::ReaderStore {
 public:
  std::vector<Result<void>> answers;  // of the next calls or events; when there are no more: done
  std::optional<Error> away;          // answered by everything
  std::size_t room = 100;             // of the spool
  std::vector<std::string> spooled;   // items

  Task<Result<void>> viewed(const readers::View&) override { co_return next(); }
  Task<Result<std::vector<readers::Viewed>>> views(const ReaderId&, readers::ViewKind) override {
    co_return std::vector<readers::Viewed>();
  }
  Task<Result<void>> clear_views(const ReaderId&, readers::ViewKind, std::optional<UnixSeconds>) override {
    co_return next();
  }
  Task<Result<void>> merge_views(const ReaderId&, const ReaderId&) override { co_return next(); }
  Task<Result<std::vector<Result<void>>>> interact(const std::vector<readers::ReaderEvent>& events) override {
    if (away) co_return tl::unexpected(*away);
    std::vector<Result<void>> out;
    for (std::size_t i = 0; i < events.size(); ++i) out.push_back(next());
    co_return out;
  }
  Task<Result<void>> dismiss(const readers::Dismissal&) override { co_return next(); }
  Task<Result<void>> undo_dismissal(const ReaderId&, const ItemId&, std::optional<UnixSeconds>) override {
    co_return next();
  }
  Task<Result<readers::ReaderState>> read(const ReaderId&) override { co_return readers::ReaderState(); }

  void viewed_behind(const readers::View&) override {}
  Result<void> viewed_later(const readers::View& view) override { return later(view.item); }
  Result<void> interact_later(const readers::ReaderEvent& event) override { return later(event.item); }
  Result<void> dismiss_later(const readers::Dismissal& dismissal) override { return later(dismissal.item); }
  Result<void> undo_dismissal_later(const ReaderId&, const ItemId& item) override { return later(item); }
  Result<void> clear_views_later(const ReaderId&, readers::ViewKind) override {
    return later(ItemId::trusted("clear"));
  }

 private:
  Result<void> next() {
    if (away) return tl::unexpected(*away);
    if (answers.empty()) return {};
    const Result<void> answer = answers.front();
    answers.erase(answers.begin());
    return answer;
  }
  Result<void> later(const ItemId& item) {
    if (spooled.size() >= room) return fail(ErrorCode::kUnavailable, "spool_full");
    spooled.push_back(item.str());
    return {};
  }
};

}  // namespace freshet::test
