#include "core/readers/read_buffer.h"

#include <algorithm>
#include <map>
#include <span>
#include <utility>

#include "core/readers/reader_store.h"
#include "core/readers/spool_records.h"
#include "core/redis/scripts.h"

namespace freshet::readers {
namespace {
constexpr seconds kTtlRenewalInterval{86400};  // a TTL may be this much out of date before it is renewed
}  // namespace

ReadBuffer::ReadBuffer(redis::WriteQueue& write_queue, const Settings& settings, redis::Keys keys,
                       redis::RunAfter after, Now now)
    : write_queue_(write_queue),
      settings_(settings),
      keys_(std::move(keys)),
      after_(std::move(after)),
      now_(std::move(now)) {}

void ReadBuffer::add_interest(const ReaderId& reader, const ItemId& item, milliseconds dwell) {
  if (dwell < settings_.feed.interest_min_dwell) return;
  if (const auto known = readers_.find(reader.str());
      known != readers_.end() &&
      std::ranges::find(known->second.interests, item.str()) != known->second.interests.end())
    return;
  add_read(reader).interests.push_back(item.str());
  if (pending_ >= kMaxReads) flush();
}

void ReadBuffer::add_view(const View& view) {
  std::vector<View>& views = add_read(view.reader).views;
  views.push_back(view);
  views.back().at = wall_now();
  if (pending_ >= kMaxReads) flush();
}

// Returns the reader, for one more read.
ReadBuffer::Reader& ReadBuffer::add_read(const ReaderId& reader) {
  if (readers_.empty()) next_sweep_ = now_() + kSweepInterval;
  ReaderMap::value_type& entry = *readers_.try_emplace(reader.str()).first;
  ++pending_;
  if (entry.second.empty() && entry.second.write_from <= now_()) {
    due_.push_back(&entry);
    if (due_.size() == 1) schedule();
  }
  return entry.second;
}

void ReadBuffer::schedule() {
  if (!after_) return;
  const auto wait = due_.empty() ? std::chrono::ceil<milliseconds>(next_sweep_ - now_()) : milliseconds(0);
  after_(std::max(wait, milliseconds(0)), [this] { wake(); });
}

void ReadBuffer::wake() {
  write(std::exchange(due_, {}));
  if (now_() >= next_sweep_) sweep();
  if (!readers_.empty()) schedule();
}

void ReadBuffer::sweep() {
  const auto now = now_();
  Readers waited;
  std::erase_if(readers_, [now](const ReaderMap::value_type& each) {
    return each.second.empty() && each.second.write_from <= now;
  });
  for (ReaderMap::value_type& each : readers_) {
    if (!each.second.empty() && each.second.write_from <= now) waited.push_back(&each);
  }
  write(waited);
  next_sweep_ = now + kSweepInterval;
}

void ReadBuffer::flush() {
  Readers all;
  for (ReaderMap::value_type& each : readers_) {
    if (!each.second.empty()) all.push_back(&each);
  }
  due_.clear();
  write(all);
}

void ReadBuffer::write(const Readers& readers) {
  // Readers of one call share a slot and their TTLs.
  std::map<std::pair<unsigned, bool>, Readers> calls;
  for (ReaderMap::value_type* each : readers)
    calls[{keys_.slot_or_zero(keys_.interactions(each->first)), is_anonymous_reader(each->first)}].push_back(
        each);
  const auto& limits = settings_.interactions;
  for (const auto& [slot_and_kind, all] : calls) {
    const std::string& any_reader = all.front()->first;
    const seconds ttl = settings_.readers.bounded_ttl(any_reader, limits.ttl);
    const seconds history_ttl = settings_.readers.bounded_ttl(any_reader, settings_.history.ttl);
    for (std::size_t from = 0; from < all.size(); from += kReadersPerCall) {
      const auto of_call = std::span(all).subspan(from, std::min(kReadersPerCall, all.size() - from));
      redis::Pipeline out;
      std::vector<redis::SpoolRecord> events;
      out.script(scripts::kReaderReads);
      for (const ReaderMap::value_type* each : of_call) {
        out.key(keys_.interactions(each->first)).key(keys_.archived_interactions(each->first));
        out.key(keys_.view_history(ViewKind::kTopic, each->first)).key(keys_.view_times(each->first));
        out.key(keys_.feed_state(each->first));
      }
      out.arg(limits.max_kept).arg(ttl.count()).arg(limits.max_archived());
      out.arg(std::min(kTtlRenewalInterval, ttl / 8).count());
      out.arg(settings_.history.size).arg(history_ttl.count());
      for (ReaderMap::value_type* each : of_call) {
        Reader& reader = each->second;
        out.arg(reader.interests.size());
        for (const std::string& item : reader.interests)
          out.arg("").arg(interaction_member(Interaction::kView, item)).arg("");
        out.arg(reader.views.size());
        for (const View& view : reader.views) {
          out.arg(view.item.view()).arg(unix_s(*view.at));
          events.push_back(to_spool_record(view));
        }
        pending_ -= reader.interests.size() + reader.views.size();
        reader = {{}, {}, now_() + kPause};
      }
      write_queue_.post(std::move(out), std::move(events), [this](std::span<const redis::Reply> replies) {
        if (!replies.empty()) report_covisits(replies.front());
      });
    }
  }
}

void ReadBuffer::report_covisits(const redis::Reply& items) const {
  if (!on_covisit_) return;
  for (std::size_t i = 0; i + 1 < items.size(); i += 2)
    on_covisit_(ItemId::trusted(std::string(redis::string_at(items, i))),
                ItemId::trusted(std::string(redis::string_at(items, i + 1))));
}

}  // namespace freshet::readers
