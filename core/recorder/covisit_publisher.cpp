#include "core/recorder/covisit_publisher.h"

#include "core/items/covisits.h"

namespace freshet::recorder {

void CovisitPublisher::add(const std::vector<ViewCounts>& written) {
  for (const ViewCounts& entry : written) {
    for (const ViewCounts::Covisit& each : entry.covisits) changed_.insert(each.item);
  }
}

Result<void> CovisitPublisher::publish(redis::BlockingRedis& redis, const redis::Keys& keys,
                                       database::Database& database) {
  constexpr std::size_t kBatch = 100;
  const UnixSeconds now = wall_now();
  redis::Pipeline writes;
  for (auto item = changed_.begin(); item != changed_.end();) {
    FRESHET_TRY(covisits, database.covisits(*item, items::kListedCovisits, now));
    if (!covisits->empty())
      writes.add("SET", keys.covisits(item->view()), items::encode_covisits(*covisits), "EX",
                 redis::kCovisitsTtl.count());
    ++item;
    if (writes.size() < kBatch && (item != changed_.end() || writes.empty())) continue;
    FRESHET_TRY(written, redis.call_all(writes));
    writes.clear();
  }
  changed_.clear();
  due_ = Clock::now() + kInterval;
  return {};
}

}  // namespace freshet::recorder
