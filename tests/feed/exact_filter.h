// A seen filter without false positives: one set per reader and day.
#pragma once

#include <cstdint>
#include <memory>
#include <set>
#include <string>
#include <vector>

#include "core/feed/seen_filter.h"

namespace freshet::test {

class ExactFilter final : public feed::SeenFilter {
 public:
  Task<Result<void>> probe(redis::Redis&) override { co_return Result<void>(); }
  Task<Result<void>> load_day(redis::Redis&, UnixSeconds) override { co_return Result<void>(); }
  std::size_t append_read(redis::Pipeline& out, const ReaderId& reader, UnixSeconds now) const override {
    out.command(1 + kDays).arg("SUNION");
    for (std::size_t back = 0; back < kDays; ++back)
      out.arg(key(reader, now - seconds{86400} * static_cast<std::int64_t>(back)));
    return 1;
  }
  Result<std::shared_ptr<const feed::SeenView>> parse_view(const redis::Replies& replies, std::size_t first,
                                                           const ReaderId&, UnixSeconds) override {
    std::set<ItemId> items;
    for (std::size_t i = 0; i < replies[first].size(); ++i)
      items.insert(ItemId::trusted(std::string(*replies[first][i].string())));
    return std::make_shared<View>(std::move(items));
  }
  Task<Result<std::vector<bool>>> check(redis::Redis&, const ReaderId&,
                                        const std::shared_ptr<const feed::SeenView>& view,
                                        const std::vector<ItemId>& items, UnixSeconds) override {
    co_return view->contains(items);
  }
  Task<Result<void>> add(redis::Redis& redis, ReaderId reader, std::vector<ItemId> items, UnixSeconds at,
                         bool) override {
    if (items.empty()) co_return Result<void>();
    redis::Pipeline out;
    out.command(2 + items.size()).arg("SADD").arg(key(reader, at));
    for (const ItemId& item : items) out.arg(item.view());
    FRESHET_CO_TRY(added, co_await redis::run_one(redis, out));
    co_return Result<void>();
  }
  Task<Result<feed::SeenStatus>> status(redis::Redis&, UnixSeconds) const override {
    co_return feed::SeenStatus();
  }

 private:
  static constexpr std::size_t kDays = 8;
  class View final : public feed::SeenView {
   public:
    explicit View(std::set<ItemId> items) : items_(std::move(items)) {}
    std::vector<bool> contains(const std::vector<ItemId>& items) const override {
      std::vector<bool> out;
      for (const ItemId& item : items) out.push_back(items_.contains(item));
      return out;
    }

   private:
    std::set<ItemId> items_;
  };
  static std::string key(const ReaderId& reader, UnixSeconds at) {
    return "exact:" + reader.str() + ":" + utc_day(at);
  }
};

}  // namespace freshet::test
