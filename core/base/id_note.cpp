#include "core/base/id_note.h"

#include <algorithm>
#include <cstring>

namespace freshet {

std::vector<std::string> IdNote::take() {
  std::vector<std::string> out;
  for (Half& half : halves_) {
    const std::size_t used = std::min<std::size_t>(half.used.exchange(0, std::memory_order_acquire), kBytes);
    for (std::size_t at = 0; at < used;) {
      const std::size_t length = static_cast<unsigned char>(half.bytes[at++]);
      if (length > used - at) break;
      out.emplace_back(half.bytes.data() + at, length);
      at += length;
    }
  }
  return out;
}

void IdNoter::add(std::string_view id, Clock::time_point now) {
  if (note_ == nullptr || id.size() > 255) return;
  if (now - turned_ >= span_) {
    turned_ = now;
    half_ = 1 - half_;
    note_->halves_[half_].used.store(0, std::memory_order_relaxed);
    noted_.clear();
  }
  if (noted_.contains(id)) return;
  IdNote::Half& half = note_->halves_[half_];
  const std::size_t used = half.used.load(std::memory_order_relaxed);
  if (used + 1 + id.size() > IdNote::kBytes) return;
  half.bytes[used] = static_cast<char>(id.size());
  std::memcpy(half.bytes.data() + used + 1, id.data(), id.size());
  half.used.store(static_cast<std::uint32_t>(used + 1 + id.size()), std::memory_order_release);
  noted_.emplace(id);
}

void IdNoter::clear() {
  if (note_ != nullptr) note_->take();
  noted_.clear();
}

}  // namespace freshet
