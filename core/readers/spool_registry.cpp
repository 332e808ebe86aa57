#include "core/readers/spool_registry.h"

#include <unistd.h>

#include <array>

#include "core/base/redis_clock.h"
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

SpoolRegistry::SpoolRegistry(const SpoolSettings& settings, const redis::Keys& keys)
    : folder_(settings.path),
      key_(keys.spools_empty_at()),
      name_(host_name() + ":" + settings.path),
      max_age_(settings.max_age) {}

void SpoolRegistry::append_read(redis::Pipeline& out) const { out.add("ZRANGE", key_, 0, -1, "WITHSCORES"); }

redis::Pipeline SpoolRegistry::build_report(const redis::Reply& read) const {
  redis::Pipeline out;
  if (!read.is_array()) return out;
  const auto reported_at = score_of(read, name_), erasure_at = last_erasure(read);
  if (reported_at && (!erasure_at || *reported_at >= *erasure_at)) return out;
  const milliseconds now = wall_ms();  // before the scan: events spooled after it are newer than this time
  const bool has_pending = redis::Spool::any_pending(folder_);
  if (!reported_at)
    out.add("ZADD", key_, "NX", (has_pending ? now - max_age_ : now).count(), name_);
  else if (!has_pending)
    out.add("ZADD", key_, now.count(), name_);
  return out;
}

std::vector<std::string> unreported_hosts(const redis::Reply& read, milliseconds since) {
  std::vector<std::string> out;
  for (std::size_t i = 0; i + 1 < read.size(); i += 2) {
    const std::string_view name = redis::string_at(read, i);
    const milliseconds reported_at(redis::to_int(redis::string_at(read, i + 1)));
    if (name != kErasureMember && reported_at < since) out.emplace_back(name);
  }
  return out;
}

std::optional<milliseconds> last_erasure(const redis::Reply& read) { return score_of(read, kErasureMember); }

}  // namespace freshet::readers
