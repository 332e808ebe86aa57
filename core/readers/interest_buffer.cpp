#include "core/readers/interest_buffer.h"

#include <algorithm>
#include <map>
#include <span>
#include <utility>

#include "core/readers/reader_store.h"
#include "core/redis/scripts.h"

namespace freshet::readers {
namespace {
constexpr seconds kTtlRenewalInterval{86400};  // a TTL may be this much out of date before it is renewed
}  // namespace

InterestBuffer::InterestBuffer(redis::WriteQueue& write_queue, const Settings& settings, redis::Keys keys,
                               redis::RunAfter after)
    : write_queue_(write_queue),
      settings_(settings),
      keys_(std::move(keys)),
      timer_(std::move(after), kFlushInterval, [this] { end_interval(); }) {}

void InterestBuffer::add(const ReaderId& reader, const ItemId& item, milliseconds dwell) {
  if (dwell < settings_.feed.interest_min_dwell) return;
  std::vector<std::string>& items = readers_[reader.str()].items;
  if (std::ranges::find(items, item.view()) != items.end()) return;
  items.push_back(item.str());
  if (++pending_ >= kMaxItems) return flush();
  timer_.start();
}

void InterestBuffer::end_interval() {
  ++interval_;
  std::erase_if(readers_, [this](const ReaderMap::value_type& each) {
    return each.second.items.empty() && each.second.write_from_interval <= interval_;
  });
  std::vector<ReaderMap::value_type*> due;
  for (ReaderMap::value_type& each : readers_) {
    if (!each.second.items.empty() && each.second.write_from_interval <= interval_) due.push_back(&each);
  }
  write(due);
  if (!readers_.empty()) timer_.start();
}

void InterestBuffer::flush() {
  std::vector<ReaderMap::value_type*> all;
  for (ReaderMap::value_type& each : readers_) {
    if (!each.second.items.empty()) all.push_back(&each);
  }
  write(all);
}

void InterestBuffer::write(const std::vector<ReaderMap::value_type*>& readers) {
  // Readers of one call share a slot and a TTL.
  std::map<std::pair<unsigned, seconds>, std::vector<ReaderMap::value_type*>> calls;
  const auto& limits = settings_.interactions;
  for (ReaderMap::value_type* each : readers)
    calls[{keys_.slot_or_zero(keys_.interactions(each->first)),
           settings_.readers.bounded_ttl(each->first, limits.ttl)}]
        .push_back(each);
  redis::Pipeline out;
  for (const auto& [slot_and_ttl, all] : calls) {
    const seconds ttl = slot_and_ttl.second;
    for (std::size_t from = 0; from < all.size(); from += kReadersPerCall) {
      const auto of_call = std::span(all).subspan(from, std::min(kReadersPerCall, all.size() - from));
      out.script(scripts::kReaderPut);
      for (const ReaderMap::value_type* each : of_call)
        out.key(keys_.interactions(each->first)).key(keys_.archived_interactions(each->first));
      out.arg(limits.max_kept).arg(ttl.count()).arg(limits.max_archived());
      out.arg(std::min(kTtlRenewalInterval, ttl / 8).count());
      for (ReaderMap::value_type* each : of_call) {
        Reader& reader = each->second;
        out.arg(reader.items.size());
        for (const std::string& item : reader.items)
          out.arg("").arg(interaction_member(Interaction::kView, item)).arg("");
        pending_ -= reader.items.size();
        reader.items.clear();
        reader.write_from_interval = interval_ + kIntervalsPerReader;
      }
    }
  }
  if (!out.empty()) write_queue_.post(std::move(out));
}

}  // namespace freshet::readers
