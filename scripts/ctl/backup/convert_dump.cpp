#include "scripts/ctl/backup/convert_dump.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <map>
#include <optional>

#include "core/base/fingerprint.h"
#include "core/base/utf8.h"
#include "core/hot/ports.h"
#include "core/redis/fields.h"
#include "core/redis/partitions/key_encoding.h"

namespace freshet::ctl {
namespace {

using redis::split_words;

// The kind of a key's variable segments.
enum class Names : std::uint8_t { kIds, kFolded, kOther };
// The kind of a key's content.
enum class Content : std::uint8_t {
  kOther,
  kRebuilt,        // hot::rebuild_ranks() writes it from the articles' counters
  kIds,            // ids, and the marks of timelines
  kAuthors,        // keys of authors
  kPrefixedIds,    // "x:{id}"
  kEvents,         // event ids, and internal names of "view:" or "undo:" and an id
  kItem,           // the fields of an item
  kPages,          // core/feed/parts/feed_state.lua
  kStreamEntries,  // core/items/item_fields.h, core/readers/reader_entries.h
  kFingerprints    // of ids
};
struct Rule {
  std::string_view pattern;  // a row of redis::kKeyPatterns
  Content content;
  Names names = Names::kIds;
};
// Other rows have ids in their names, and nothing that changes.
constexpr std::array kRules{
    Rule{"hot:added:{*}", Content::kPrefixedIds},
    Rule{"item:{*}", Content::kItem},
    Rule{"hot:score", Content::kRebuilt},
    Rule{"hot:published", Content::kIds},
    Rule{"hot:hidden", Content::kIds},
    Rule{"hot:newest", Content::kIds},
    Rule{"hot:unlisted", Content::kIds},
    Rule{"hot:current:index", Content::kRebuilt},
    Rule{"hot:current:*", Content::kRebuilt},
    Rule{"tag:*", Content::kIds, Names::kFolded},
    Rule{"feed:state:{*}", Content::kPages},
    Rule{"user:interactions:{*}", Content::kPrefixedIds},
    Rule{"user:earlier:{*}", Content::kFingerprints},
    Rule{"user:views:topic:{*}", Content::kIds},
    Rule{"user:views:reply:{*}", Content::kIds},
    Rule{"user:views:at:{*}", Content::kPrefixedIds},
    Rule{"user:not_interested:{*}", Content::kIds},
    Rule{"user:not_interested:why:{*}", Content::kIds},
    Rule{"user:events:{*}", Content::kEvents},
    Rule{"wf:*:{*}", Content::kIds},
    Rule{"active:*", Content::kIds},
    Rule{"follow:authors:{*}", Content::kAuthors},
    Rule{"follow:readers:{*}", Content::kIds, Names::kFolded},
    Rule{"follow:outbox:{*}", Content::kIds, Names::kFolded},
    Rule{"follow:pull:{*}", Content::kIds, Names::kFolded},
    Rule{"follow:pulled", Content::kAuthors},
    Rule{"bf:global:*:*", Content::kOther, Names::kOther},
    Rule{"recorder:stream", Content::kStreamEntries},
};

Rule rule_of(std::string_view pattern) {
  const auto* const found = std::ranges::find(kRules, pattern, &Rule::pattern);
  return found == kRules.end() ? Rule{pattern, Content::kOther} : *found;
}

// Schema 2 marked the counters of hidden items (hot::invisible_alias()) by a word after a space,
// and timelines by members of colons.
constexpr std::string_view kOldInvisibleSuffix = " invisible";

std::string convert_id(std::string_view id) {
  if (id.find_first_not_of(':') == id.npos) return std::string(id.size(), kIdMark);
  if (id.ends_with(kOldInvisibleSuffix))
    return convert_id(id.substr(0, id.size() - kOldInvisibleSuffix.size())) +
           std::string(hot::kInvisibleSuffix);
  return utf8::to_nfc(id);
}

std::string convert_prefixed(std::string_view text) {
  return text.size() < 3 || text[1] != ':' ? std::string(text)
                                           : std::string(text.substr(0, 2)) + convert_id(text.substr(2));
}

// Ids of schema 2 had no colons, so these are internal names.
std::string convert_event(std::string_view event) {
  constexpr std::size_t kPrefixBytes = 5;
  if (!event.starts_with("view:") && !event.starts_with("undo:")) return convert_id(event);
  return kIdMark + std::string(event.substr(0, kPrefixBytes)) + convert_id(event.substr(kPrefixBytes));
}

// Lists that were separated by spaces.
std::string convert_list(std::string_view text, std::string (*convert)(std::string_view)) {
  std::string out;
  for (const std::string_view each : split_words(text))
    out.append(out.empty() ? 0 : 1, kIdSeparator).append(convert(each));
  return out;
}

std::string keep(std::string_view text) { return std::string(text); }

// Seven fields, then items; those shown in a replay had a colon in front.
std::string convert_page(std::string_view page) {
  constexpr std::size_t kFields = 7;
  std::string out;
  std::size_t field = 0;
  for (std::string_view each : split_words(page)) {
    if (field > 0) out += kIdSeparator;
    if (field++ < kFields) {
      out += each;
      continue;
    }
    if (each.starts_with(':')) {
      out += kIdMark;
      each.remove_prefix(1);
    }
    out += convert_id(each);
  }
  return out;
}

void convert_pages(std::vector<std::string>& state) {
  for (std::size_t i = 0; i + 1 < state.size(); i += 2) {
    if (state[i] == "head" || state[i] == "noted") continue;
    std::string pages;
    for (const std::string_view line : split_words(state[i + 1], '\n'))
      pages.append(convert_page(line)).append(state[i] == "late" ? "\n" : "");
    state[i + 1] = std::move(pages);
  }
}

// The id of the entry, then names and values.
void convert_entry(std::vector<std::string>& entry) {
  std::string op;
  for (std::size_t i = 1; i + 1 < entry.size(); i += 2) {
    if (entry[i] == "op") op = entry[i + 1];
  }
  const bool is_item = op == "put" || op == "delete";
  for (std::size_t i = 1; i + 1 < entry.size(); i += 2) {
    const std::string& name = entry[i];
    std::string& value = entry[i + 1];
    if (is_item && name == "tags")
      value = convert_list(value, keep);
    else if (name == "items")
      value = convert_list(value, convert_id);
    else if (name == "author" && !is_item)
      value = utf8::fold(value);
    else if (name == "id" || name == "item" || name == "reader")
      value = convert_id(value);
  }
}

std::string_view take_segment(std::string_view& name) {
  const std::size_t end = std::min(name.find(':'), name.size());
  const std::string_view out = name.substr(0, end);
  name.remove_prefix(std::min(end + 1, name.size()));
  return out;
}

}  // namespace

// Names of schema 2 have rows in kKeyPatterns too, since its ids had no colons and no braces.
DumpConverter::ConvertedKey DumpConverter::convert_key(const std::string& key) const {
  const redis::KeyPattern* const row = keys_.pattern_of(key);
  if (row == nullptr) return {key, {}};
  const std::string name = *keys_.strip_prefix(key);
  const std::string tag = key.substr(prefix_.size() + name.size());
  const Rule rule = rule_of(row->pattern);
  ConvertedKey out{prefix_, {}};
  std::string_view rest = name, pattern = row->pattern;
  for (bool first = true; !pattern.empty(); first = false) {
    const std::string_view wanted = take_segment(pattern);
    std::string_view segment = take_segment(rest);
    if (!first) out.key += ':';
    if (rule.names == Names::kOther || (wanted != "*" && wanted != "{*}")) {
      out.key += segment;
      continue;
    }
    const bool braces = wanted == "{*}";
    if (braces) segment = segment.substr(1, segment.size() - 2);
    std::string id = rule.names == Names::kFolded ? utf8::fold(segment) : convert_id(segment);
    if (braces) out.key += '{';
    redis::append_encoded(out.key, id);
    if (braces) out.key += '}';
    if (id != segment) out.changed_ids.emplace_back(segment, std::move(id));
  }
  out.key += tag;
  return out;
}

Result<void> DumpConverter::for_each_record(const std::string& path,
                                            const std::function<void(const DumpRecord&)>& each) {
  FRESHET_TRY(dump, DumpReader::open(path));
  for (DumpRecord record;;) {
    FRESHET_TRY(more, dump->next(record));
    if (!*more) return {};
    each(record);
  }
}

Result<void> DumpConverter::prepare(const std::string& path) {
  std::map<std::string, std::set<std::string>> old_keys;  // by what they become
  auto read = for_each_record(path, [&](const DumpRecord& record) {
    const std::string& key = record.key;
    ConvertedKey converted = convert_key(key);
    for (const auto& [before, now] : converted.changed_ids) {
      changed_fingerprints_[fmt::format("{:010x}", fingerprint(before))] =
          fmt::format("{:010x}", fingerprint(now));
      former_ids_[now].insert(before);
    }
    add_former_readers(record);
    if (!converted.changed_ids.empty()) old_keys[converted.key].insert(key);
  });
  if (!read || old_keys.empty()) return read;
  read = for_each_record(path, [&](const DumpRecord& record) {
    if (const auto same = old_keys.find(convert_key(record.key).key); same != old_keys.end())
      same->second.insert(record.key);
  });
  for (const auto& [key, from] : old_keys) {
    if (from.size() < 2) continue;
    merged_keys_.insert(key);
    for (const std::string& each : from) {
      if (rule_of(keys_.pattern_of(each)->pattern).names != Names::kIds) continue;
      for (auto& changed : convert_key(each).changed_ids) merged_ids_.insert(std::move(changed));
    }
  }
  return read;
}

// Readers that only sets and values name.
void DumpConverter::add_former_readers(const DumpRecord& record) {
  const redis::KeyPattern* const row = keys_.pattern_of(record.key);
  if (row == nullptr) return;
  const auto add = [&](const std::string& id) {
    if (std::string now = convert_id(id); now != id) former_ids_[std::move(now)].insert(id);
  };
  if (row->subject == redis::Subject::kValue) add(record.value);
  if (row->subject == redis::Subject::kMembers) std::ranges::for_each(record.members, add);
}

std::string DumpConverter::convert_fingerprints(std::string_view fingerprints) const {
  std::string out;
  for (; fingerprints.size() >= kFingerprintDigits; fingerprints.remove_prefix(kFingerprintDigits)) {
    const std::string one(fingerprints.substr(0, kFingerprintDigits));
    const auto changed = changed_fingerprints_.find(one);
    out += changed == changed_fingerprints_.end() ? one : changed->second;
  }
  return out;
}

void DumpConverter::convert_members(std::string_view pattern, DumpRecord& record) const {
  using Type = DumpRecord::Type;
  const std::size_t step = record.type == Type::kHash || record.type == Type::kSortedSet ? 2 : 1;
  const auto each = [&](std::string (*convert_member)(std::string_view)) {
    for (std::size_t i = 0; i < record.members.size(); i += step)
      record.members[i] = convert_member(record.members[i]);
  };
  switch (rule_of(pattern).content) {
    case Content::kOther:
    case Content::kRebuilt:
      return;
    case Content::kIds:
      return each(convert_id);
    case Content::kAuthors:
      return each(utf8::fold);
    case Content::kPrefixedIds:
      return each(convert_prefixed);
    case Content::kEvents:
      return each(convert_event);
    case Content::kItem:
      for (std::size_t i = 0; i + 1 < record.members.size(); i += 2) {
        if (record.members[i] == "tags") record.members[i + 1] = convert_list(record.members[i + 1], keep);
      }
      return;
    case Content::kPages:
      return convert_pages(record.members);
    case Content::kStreamEntries:
      return convert_entry(record.members);
    case Content::kFingerprints:
      record.value = convert_fingerprints(record.value);
  }
}

// An article's partition depends on its encoded id, which may differ from what it was.
std::vector<DumpRecord> DumpConverter::split_by_partition(DumpRecord record) const {
  const std::string head = prefix_ + *keys_.strip_prefix(record.key);
  const unsigned count =
      redis::partition_of_hash_tag(keys_.partition_in_key(record.key).hash_tag()).partition_count;
  if (head.size() == record.key.size() || count == 0) return {std::move(record)};
  const std::size_t step = record.type == DumpRecord::Type::kSortedSet ? 2 : 1;
  std::map<unsigned, DumpRecord> parts;
  for (std::size_t i = 0; i + step <= record.members.size(); i += step) {
    const unsigned partition = redis::partition_of(record.members[i], count);
    DumpRecord& part = parts[partition];
    if (part.key.empty()) {
      part.type = record.type;
      part.expires_ms = record.expires_ms;
      part.key = fmt::format("{}:{{{}}}", head, redis::partition_hash_tag(partition, count));
    }
    part.members.insert(part.members.end(), record.members.begin() + static_cast<std::ptrdiff_t>(i),
                        record.members.begin() + static_cast<std::ptrdiff_t>(i + step));
  }
  std::vector<DumpRecord> out;
  for (auto& [partition, part] : parts) out.push_back(std::move(part));
  return out;
}

std::vector<DumpRecord> DumpConverter::convert(DumpRecord record) const {
  const redis::KeyPattern* const row = keys_.pattern_of(record.key);
  if (row == nullptr) return {std::move(record)};
  if (rule_of(row->pattern).content == Content::kRebuilt) return {};
  convert_members(row->pattern, record);
  record.key = convert_key(record.key).key;
  if (rule_of(row->pattern).content != Content::kIds) return {std::move(record)};
  return split_by_partition(std::move(record));
}

}  // namespace freshet::ctl
