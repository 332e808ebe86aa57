#include "core/redis/keys.h"

#include <algorithm>
#include <initializer_list>

#include "core/redis/cluster/slot.h"

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

// "" for the seed's own list, else ":views:current:86400:swift".
std::string variant(const hot::ListQuery& query) {
  if (query == hot::ListQuery{}) return {};
  const bool current = query.mode == hot::ViewsMode::kCurrent;
  return join({":", query.model->word, current ? ":current:" : ":accumulate:",
               std::to_string(query.window.count()), ":", query.tag.view()});
}

bool in_braces(std::string_view part) { return part.starts_with('{') && part.ends_with('}'); }

// "*" stands for one part between colons: ids contain none.
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

std::string Keys::of_item(std::string_view head, std::string_view id) const { return of_item(head, id, {}); }

std::string Keys::of_item(std::string_view head, std::string_view id, std::string_view tail) const {
  const std::string_view colon = tail.empty() ? "" : ":";
  return join({prefix_, head, "{", id, "}", colon, tail});
}

std::string Keys::of_shared(std::string_view head, std::string_view tail) const {
  return join({prefix_, head, tail, shared_});
}

unsigned Keys::call_of(std::string_view key) const { return on_ == On::kCluster ? slot_of(key) : 0; }

std::string Keys::session(std::string_view id, std::string_view session) const {
  return of_item("hot:session:", id, session);
}
std::string Keys::track_event(std::string_view id, std::string_view event) const {
  return of_item("hot:event:", id, event);
}
std::string Keys::view_event(std::string_view id, std::string_view event) const {
  return of_item("hot:view:event:", id, event);
}
std::string Keys::dedup(std::string_view id, std::string_view fingerprint) const {
  return of_item("hot:dedup:", id, fingerprint);
}
std::string Keys::uv_day(std::string_view id, UnixSeconds day) const {
  return of_item("hot:uv:", id, utc_day(day));
}

std::string Keys::list(const hot::ListQuery& query) const { return of_all(":list" + variant(query)); }
std::string Keys::list_meta(const hot::ListQuery& query) const {
  return of_all(":list:meta" + variant(query));
}
std::string Keys::list_lock(const hot::ListQuery& query) const {
  return of_all(":list:lock" + variant(query));
}

std::string Keys::seen_shard(std::string_view day, std::string_view shard) const {
  return join({prefix_, "bf:global:", day, ":", shard});
}
std::string Keys::seen_day(std::string_view day) const { return join({prefix_, "bf:global:", day}); }

std::string Keys::article_pattern() const {
  std::string out;
  // A prefix is text, a SCAN pattern a glob.
  for (const char c : prefix_) {
    if (std::string_view("*?[]\\^").find(c) != std::string_view::npos) out += '\\';
    out += c;
  }
  return out + "hot:article:{*}";
}

std::string Keys::id_of_article(std::string_view key) const {
  constexpr std::size_t kPart = 2;  // hot:article:{id}
  return std::string(part_of(key.substr(prefix_.size()), kPart));
}

// What stands in braces behind the name of what articles share; "" when it is an id.
std::string_view Keys::tag_of(std::string_view name) const {
  const std::size_t open = name.rfind(":{");
  if (on_ != On::kCluster || open == name.npos || !name.ends_with('}')) return {};
  const std::string_view tag = name.substr(open + 2, name.size() - open - 3);
  if (":{" + std::string(tag) + "}" != shared_ && group_of_tag(tag).groups == 0) return {};
  const auto has_id = [&](const KeyPattern& row) {
    return row.pattern.find('{') != row.pattern.npos && matches(row.pattern, name);
  };
  return std::ranges::any_of(kKeyPatterns, has_id) ? std::string_view() : tag;
}

std::optional<std::string> Keys::plain(std::string_view key) const {
  if (!key.starts_with(prefix_)) return std::nullopt;
  key.remove_prefix(prefix_.size());
  if (const std::string_view tag = tag_of(key); !tag.empty()) key.remove_suffix(tag.size() + 3);
  return std::string(key);
}

std::vector<GroupKeys> Keys::every_group() const {
  std::vector<GroupKeys> out;
  for (unsigned each = 0; each < groups_; ++each) out.push_back(group(each));
  return out;
}

GroupKeys Keys::group_in(std::string_view key) const {
  const TaggedGroup found =
      key.starts_with(prefix_) ? group_of_tag(tag_of(key.substr(prefix_.size()))) : TaggedGroup();
  return found.groups == 0 ? group(0) : GroupKeys(prefix_, group_tag(found.group, found.groups));
}

bool Keys::of_other_groups(std::string_view key) const {
  if (!key.starts_with(prefix_)) return false;
  const unsigned found = group_of_tag(tag_of(key.substr(prefix_.size()))).groups;
  return found != 0 && found != groups_;
}

std::vector<std::string> Keys::names_of(const KeyPattern& row) const {
  std::vector<std::string> out{prefix_ + std::string(row.pattern)};
  if (on_ != On::kCluster) return out;
  out.push_back(of_shared(row.pattern));
  for (unsigned each = 0; each < groups_; ++each)
    out.push_back(join({prefix_, row.pattern, ":{", group_tag(each, groups_), "}"}));
  return out;
}

std::string_view part_of(std::string_view plain, std::size_t part) {
  for (; part > 0; --part) {
    const std::size_t colon = plain.find(':');
    if (colon == plain.npos) return {};
    plain.remove_prefix(colon + 1);
  }
  plain = plain.substr(0, plain.find(':'));
  return in_braces(plain) ? plain.substr(1, plain.size() - 2) : plain;
}

const KeyPattern* Keys::pattern_of(std::string_view key) const {
  const auto name = plain(key);
  if (!name) return nullptr;
  // Exact names come before those with a part that varies: hot:current:index is no hour.
  for (const bool literal : {true, false}) {
    for (const KeyPattern& each : kKeyPatterns) {
      if ((each.pattern.find('*') == std::string_view::npos) == literal && matches(each.pattern, *name))
        return &each;
    }
  }
  return nullptr;
}

}  // namespace freshet::redis
