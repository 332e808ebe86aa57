#include "core/readers/reader_events.h"

namespace freshet::readers {

namespace {

// Stands in for the store's answer when the write is spooled without trying it.
Result<void> writes_deferred() { return fail(ErrorCode::kUnavailable, "redis_full"); }

// Calls `spool` if the write may be spooled after this result.
template <class Spool>
Result<RecordResult> spool_on_failure(const Result<void>& result, Spool spool) {
  if (result) return RecordResult{false};
  if (!can_spool(result.error(), true)) return tl::unexpected(result.error());
  if (const Result<void> spooled = spool(); !spooled) return tl::unexpected(spooled.error());
  return RecordResult{true};
}

}  // namespace

Task<Result<RecordResult>> record_view(ReaderStore& store, const View& view, bool spool_now) {
  Result<void> result = writes_deferred();
  if (!spool_now) result = co_await store.record_view(view);
  co_return spool_on_failure(result, [&] { return store.spool_history_view(view); });
}

Task<Result<RecordResult>> clear_views(ReaderStore& store, const ReaderId& reader, ViewKind kind,
                                       bool spool_now) {
  Result<void> result = writes_deferred();
  if (!spool_now) result = co_await store.clear_views(reader, kind, std::nullopt);
  co_return spool_on_failure(result, [&] { return store.spool_clear_views(reader, kind); });
}

Task<Result<RecordResult>> remove_view(ReaderStore& store, const ReaderId& reader, ViewKind kind,
                                       const ItemId& item, bool spool_now) {
  Result<void> result = writes_deferred();
  if (!spool_now) result = co_await store.remove_view(reader, kind, item, std::nullopt);
  co_return spool_on_failure(result, [&] { return store.spool_remove_view(reader, kind, item); });
}

Task<Result<RecordResult>> dismiss(ReaderStore& store, const Dismissal& dismissal, bool spool_now) {
  Result<void> result = writes_deferred();
  if (!spool_now) result = co_await store.dismiss(dismissal);
  co_return spool_on_failure(result, [&] { return store.spool_dismissal(dismissal); });
}

Task<Result<RecordResult>> undo_dismissal(ReaderStore& store, const ReaderId& reader, const ItemId& item,
                                          bool spool_now) {
  Result<void> result = writes_deferred();
  if (!spool_now) result = co_await store.undo_dismissal(reader, item, std::nullopt);
  co_return spool_on_failure(result, [&] { return store.spool_undo_dismissal(reader, item); });
}

Task<Result<RecordResult>> record_interaction(ReaderStore& store, const ReaderEvent& event) {
  const std::vector<ReaderEvent> one{event};
  const auto answers = co_await record_interactions(store, one);
  co_return answers.front();
}

Task<std::vector<Result<RecordResult>>> record_interactions(ReaderStore& store,
                                                            const std::vector<ReaderEvent>& events) {
  const auto results = co_await store.record_interactions(events);
  std::vector<Result<RecordResult>> answers;
  answers.reserve(events.size());
  for (std::size_t i = 0; i < events.size(); ++i) {
    const Result<void> one = results ? (*results)[i] : Result<void>(tl::unexpected(results.error()));
    answers.push_back(spool_on_failure(one, [&] { return store.spool_interaction(events[i]); }));
  }
  co_return answers;
}

}  // namespace freshet::readers
