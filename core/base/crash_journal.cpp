#include "core/base/crash_journal.h"

#include <algorithm>
#include <cstring>

namespace freshet {
namespace {

constexpr std::size_t kLengthBytes = 2;

}  // namespace

std::vector<std::string> CrashJournal::drain() {
  std::vector<std::string> out;
  for (std::size_t half = 0; half < ids_.size(); ++half) {
    const std::size_t used =
        std::min<std::size_t>(used_[half].exchange(0, std::memory_order_acquire), kBytes);
    const auto& ids = ids_[half];
    for (std::size_t at = 0; at + kLengthBytes <= used;) {
      const std::size_t length = static_cast<unsigned char>(ids[at]) |
                                 static_cast<std::size_t>(static_cast<unsigned char>(ids[at + 1])) << 8U;
      at += kLengthBytes;
      if (length > used - at) break;
      out.emplace_back(ids.data() + at, length);
      at += length;
    }
  }
  return out;
}

void CrashJournalWriter::add(std::string_view id, Clock::time_point now) {
  if (journal_ == nullptr || id.size() > 0xFFFF) return;
  if (now - switched_at_ >= retention_) {
    switched_at_ = now;
    half_ = 1 - half_;
    journal_->used_[half_].store(0, std::memory_order_relaxed);
    recorded_.clear();
  }
  if (recorded_.contains(id)) return;
  auto& ids = journal_->ids_[half_];
  const std::size_t used = journal_->used_[half_].load(std::memory_order_relaxed);
  const std::size_t end = used + kLengthBytes + id.size();
  if (end > CrashJournal::kBytes) return;
  ids[used] = static_cast<char>(id.size() & 0xFFU);
  ids[used + 1] = static_cast<char>(id.size() >> 8U);
  std::memcpy(ids.data() + used + kLengthBytes, id.data(), id.size());
  journal_->used_[half_].store(static_cast<std::uint32_t>(end), std::memory_order_release);
  recorded_.emplace(id);
}

void CrashJournalWriter::clear() {
  if (journal_ != nullptr) journal_->drain();
  recorded_.clear();
}

}  // namespace freshet
