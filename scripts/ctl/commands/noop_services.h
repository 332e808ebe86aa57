// Stand-ins for worker services in the tool, which has no asynchronous writes and no search index.
#pragma once

#include "core/feed/ports.h"
#include "core/redis/write_queue.h"

namespace freshet::ctl {

class NoopWriteQueue final : public redis::WriteQueue {
 public:
  bool post(redis::Pipeline, std::vector<redis::SpoolRecord>, OnReplies) override { return false; }
  Result<void> spool(const redis::SpoolRecord&) override {
    return fail(ErrorCode::kUnavailable, "spool_full");
  }
};

class NoopRecall final : public feed::Recall {
 public:
  Task<Result<feed::RecallResult>> search(feed::RecallQuery) override {
    co_return fail(ErrorCode::kUnavailable, "index_unavailable");
  }
};

}  // namespace freshet::ctl
