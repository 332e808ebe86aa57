#include "core/readers/reader_events.h"

namespace freshet::readers {

namespace {

// What the store is not asked now.
Result<void> kept_back() { return fail(ErrorCode::kUnavailable, "redis_full"); }

// The answer for what the store answered with `done`; `later` keeps it for later.
template <class Later>
Result<Recorded> settle(const Result<void>& done, Later later) {
  if (done) return Recorded{false};
  if (!can_spool(done.error(), true)) return tl::unexpected(done.error());
  if (const Result<void> kept = later(); !kept) return tl::unexpected(kept.error());
  return Recorded{true};
}

}  // namespace

Task<Result<Recorded>> record_view(ReaderStore& store, const View& view, bool later) {
  Result<void> done = kept_back();
  if (!later) done = co_await store.viewed(view);
  co_return settle(done, [&] { return store.viewed_later(view); });
}

Task<Result<Recorded>> clear_views(ReaderStore& store, const ReaderId& reader, ViewKind kind, bool later) {
  Result<void> done = kept_back();
  if (!later) done = co_await store.clear_views(reader, kind, std::nullopt);
  co_return settle(done, [&] { return store.clear_views_later(reader, kind); });
}

Task<Result<Recorded>> dismiss(ReaderStore& store, const Dismissal& dismissal, bool later) {
  Result<void> done = kept_back();
  if (!later) done = co_await store.dismiss(dismissal);
  co_return settle(done, [&] { return store.dismiss_later(dismissal); });
}

Task<Result<Recorded>> undo_dismissal(ReaderStore& store, const ReaderId& reader, const ItemId& item,
                                      bool later) {
  Result<void> done = kept_back();
  if (!later) done = co_await store.undo_dismissal(reader, item, std::nullopt);
  co_return settle(done, [&] { return store.undo_dismissal_later(reader, item); });
}

Task<Result<Recorded>> record_interaction(ReaderStore& store, const ReaderEvent& event) {
  const std::vector<ReaderEvent> one{event};
  const auto answers = co_await record_interactions(store, one);
  co_return answers.front();
}

Task<std::vector<Result<Recorded>>> record_interactions(ReaderStore& store,
                                                        const std::vector<ReaderEvent>& events) {
  const auto done = co_await store.interact(events);
  std::vector<Result<Recorded>> answers;
  answers.reserve(events.size());
  for (std::size_t i = 0; i < events.size(); ++i) {
    const Result<void> one = done ? (*done)[i] : Result<void>(tl::unexpected(done.error()));
    answers.push_back(settle(one, [&] { return store.interact_later(events[i]); }));
  }
  co_return answers;
}

}  // namespace freshet::readers
