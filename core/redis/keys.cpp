#include "core/redis/keys.h"

#include <algorithm>
#include <initializer_list>

#include "core/redis/cluster/slot.h"
#include "core/redis/partitions/key_encoding.h"

namespace freshet::redis {
namespace {

std::string join(std::initializer_list<std::string_view> parts) {
  std::size_t bytes = 0;
  for (const auto part : parts) bytes += part.size();
  std::string out;
  out.reserve(bytes);
  for (const auto part : parts) out.append(part);
  return out;
}

// "" for the default list, else such as ":views:current:86400:swift".
std::string list_suffix(const hot::ListQuery& query) {
  if (query == hot::ListQuery{}) return {};
  const bool current = query.mode == hot::ViewsMode::kCurrent;
  std::string out = join({":", query.model->name,
                          current ? ":current:" : ":accumulate:", std::to_string(query.window.count()), ":"});
  append_encoded(out, query.tag.view());
  return out;
}

bool in_braces(std::string_view part) { return part.starts_with('{') && part.ends_with('}'); }

// "*" matches one segment; encoded ids contain no colon.
bool matches(std::string_view pattern, std::string_view key) {
  while (true) {
    const std::size_t p = pattern.find(':'), k = key.find(':');
    const std::string_view wanted = pattern.substr(0, p), part = key.substr(0, k);
    if (wanted != part && wanted != "*" && !(wanted == "{*}" && in_braces(part))) return false;
    if (p == pattern.npos || k == key.npos) return p == pattern.npos && k == key.npos;
    pattern.remove_prefix(p + 1);
    key.remove_prefix(k + 1);
  }
}

}  // namespace

std::string Keys::item_key(std::string_view head, std::string_view id) const {
  return item_key(head, id, {});
}

std::string Keys::item_key(std::string_view head, std::string_view id, std::string_view tail) const {
  std::string out;
  out.reserve(prefix_.size() + head.size() + encoded_size(id) + encoded_size(tail) + 3);
  append_encoded(out.append(prefix_).append(head).append(1, '{'), id);
  out += '}';
  if (!tail.empty()) append_encoded(out.append(1, ':'), tail);
  return out;
}

std::string Keys::encoded(std::string_view part) {
  std::string out;
  append_encoded(out, part);
  return out;
}

std::string Keys::shared_key(std::string_view head, std::string_view tail) const {
  return join({prefix_, head, tail, shared_suffix_});
}

unsigned Keys::slot_or_zero(std::string_view key) const {
  return topology_ == Topology::kCluster ? slot_of(key) : 0;
}

std::string Keys::session(std::string_view id, std::string_view session) const {
  return item_key("hot:session:", id, session);
}
std::string Keys::track_event(std::string_view id, std::string_view event) const {
  return item_key("hot:event:", id, event);
}
std::string Keys::view_event(std::string_view id, std::string_view event) const {
  return item_key("hot:view:event:", id, event);
}
std::string Keys::dedup(std::string_view id, std::string_view fingerprint) const {
  return item_key("hot:dedup:", id, fingerprint);
}
std::string Keys::uv_day(std::string_view id, UnixSeconds day) const {
  return item_key("hot:uv:", id, utc_day(day));
}

std::string Keys::list(const hot::ListQuery& query) const {
  return shared_hot_key(":list" + list_suffix(query));
}
std::string Keys::list_meta(const hot::ListQuery& query) const {
  return shared_hot_key(":list:meta" + list_suffix(query));
}
std::string Keys::list_lock(const hot::ListQuery& query) const {
  return shared_hot_key(":list:lock" + list_suffix(query));
}

std::string Keys::seen_shard(std::string_view day, std::string_view shard) const {
  return join({prefix_, "bf:global:", day, ":", shard});
}
std::string Keys::seen_day(std::string_view day) const { return join({prefix_, "bf:global:", day}); }

std::string Keys::article_pattern() const {
  std::string out;
  // The prefix is literal, but SCAN takes a glob pattern.
  for (const char c : prefix_) {
    if (std::string_view("*?[]\\^").find(c) != std::string_view::npos) out += '\\';
    out += c;
  }
  return out + "hot:article:{*}";
}

std::string Keys::id_of_article(std::string_view key) const {
  constexpr std::size_t kPart = 2;  // hot:article:{id}
  return key_segment(key.substr(prefix_.size()), kPart);
}

// The hash tag at the end of a name that articles share; "" if the braces hold an id.
std::string_view Keys::hash_tag_of(std::string_view name) const {
  const std::size_t open = name.rfind(":{");
  if (topology_ != Topology::kCluster || open == name.npos || !name.ends_with('}')) return {};
  const std::string_view tag = name.substr(open + 2, name.size() - open - 3);
  if (":{" + std::string(tag) + "}" != shared_suffix_ && partition_of_hash_tag(tag).partition_count == 0)
    return {};
  const auto has_id = [&](const KeyPattern& row) {
    return row.pattern.find('{') != row.pattern.npos && matches(row.pattern, name);
  };
  return std::ranges::any_of(kKeyPatterns, has_id) ? std::string_view() : tag;
}

std::optional<std::string> Keys::strip_prefix(std::string_view key) const {
  if (!key.starts_with(prefix_)) return std::nullopt;
  key.remove_prefix(prefix_.size());
  if (const std::string_view tag = hash_tag_of(key); !tag.empty()) key.remove_suffix(tag.size() + 3);
  return std::string(key);
}

std::vector<PartitionKeys> Keys::partitions() const {
  std::vector<PartitionKeys> out;
  for (unsigned each = 0; each < partition_count_; ++each) out.push_back(partition(each));
  return out;
}

PartitionKeys Keys::partition_in_key(std::string_view key) const {
  const TaggedPartition found = key.starts_with(prefix_)
                                    ? partition_of_hash_tag(hash_tag_of(key.substr(prefix_.size())))
                                    : TaggedPartition();
  return found.partition_count == 0
             ? partition(0)
             : PartitionKeys(prefix_, partition_hash_tag(found.partition, found.partition_count));
}

bool Keys::has_other_partition_count(std::string_view key) const {
  if (!key.starts_with(prefix_)) return false;
  const unsigned found = partition_of_hash_tag(hash_tag_of(key.substr(prefix_.size()))).partition_count;
  return found != 0 && found != partition_count_;
}

std::vector<std::string> Keys::names_of(const KeyPattern& row) const {
  std::vector<std::string> out{prefix_ + std::string(row.pattern)};
  if (topology_ != Topology::kCluster) return out;
  out.push_back(shared_key(row.pattern));
  for (unsigned each = 0; each < partition_count_; ++each)
    out.push_back(join({prefix_, row.pattern, ":{", partition_hash_tag(each, partition_count_), "}"}));
  return out;
}

std::vector<std::string> Keys::keys_about(std::string_view name,
                                          const std::vector<std::string>& channels) const {
  constexpr std::string_view kVariable = "{*}";
  const std::string timelines = "wf:*:" + std::string(kVariable);
  std::vector<std::string> out;
  for (const KeyPattern& row : kKeyPatterns) {
    if (row.subject != Subject::kReader || names_article_first(row)) continue;
    if (row.pattern == timelines) {
      for (const std::string& channel : channels) out.push_back(timeline(channel, name));
    } else {
      out.push_back(item_key(row.pattern.substr(0, row.pattern.size() - kVariable.size()), name));
    }
  }
  return out;
}

std::string key_segment(std::string_view key, std::size_t index) {
  for (; index > 0; --index) {
    const std::size_t colon = key.find(':');
    if (colon == key.npos) return {};
    key.remove_prefix(colon + 1);
  }
  key = key.substr(0, key.find(':'));
  return decode_key_part(in_braces(key) ? key.substr(1, key.size() - 2) : key);
}

const KeyPattern* Keys::pattern_of(std::string_view key) const {
  const auto name = strip_prefix(key);
  if (!name) return nullptr;
  // Literal patterns take precedence: hot:current:index is not the bucket of an hour.
  for (const bool literal : {true, false}) {
    for (const KeyPattern& each : kKeyPatterns) {
      if ((each.pattern.find('*') == std::string_view::npos) == literal && matches(each.pattern, *name))
        return &each;
    }
  }
  return nullptr;
}

}  // namespace freshet::redis
