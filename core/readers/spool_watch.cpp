#include "core/readers/spool_watch.h"

#include <unistd.h>

#include <array>

#include "core/base/agreed_clock.h"
#include "core/redis/fields.h"
#include "core/redis/spool.h"

namespace freshet::readers {
namespace {

std::string host_name() {
  std::array<char, 256> name{};
  return gethostname(name.data(), name.size() - 1) == 0 ? name.data() : "unknown";
}

std::optional<milliseconds> score_of(const redis::Reply& read, std::string_view name) {
  for (std::size_t i = 0; i + 1 < read.size(); i += 2) {
    if (redis::string_at(read, i) == name) return milliseconds(redis::to_int(redis::string_at(read, i + 1)));
  }
  return std::nullopt;
}

}  // namespace

SpoolWatch::SpoolWatch(const SpoolSettings& settings, const redis::Keys& keys)
    : folder_(settings.path),
      key_(keys.spools_empty_at()),
      name_(host_name() + ":" + settings.path),
      max_age_(settings.max_age) {}

void SpoolWatch::append_read(redis::Pipeline& out) const { out.add("ZRANGE", key_, 0, -1, "WITHSCORES"); }

redis::Pipeline SpoolWatch::answer(const redis::Reply& read) const {
  redis::Pipeline out;
  if (!read.is_array()) return out;
  const auto said = score_of(read, name_), asked = last_erasure(read);
  if (said && (!asked || *said >= *asked)) return out;
  const milliseconds now = wall_ms();  // before the look: what comes after it is of after it
  const bool waits = redis::Spool::any_pending(folder_);
  if (!said)
    out.add("ZADD", key_, "NX", (waits ? now - max_age_ : now).count(), name_);
  else if (!waits)
    out.add("ZADD", key_, now.count(), name_);
  return out;
}

std::vector<std::string> silent_since(const redis::Reply& read, milliseconds at) {
  std::vector<std::string> out;
  for (std::size_t i = 0; i + 1 < read.size(); i += 2) {
    const std::string_view name = redis::string_at(read, i);
    const milliseconds said(redis::to_int(redis::string_at(read, i + 1)));
    if (name != kErasure && said < at) out.emplace_back(name);
  }
  return out;
}

std::optional<milliseconds> last_erasure(const redis::Reply& read) { return score_of(read, kErasure); }

}  // namespace freshet::readers
