#include "core/readers/personal_keys.h"

#include <algorithm>

#include "core/redis/fields.h"

namespace freshet::readers {
namespace {

constexpr int kScanCount = 1000;  // takes Redis about half a millisecond

}  // namespace

void add_reader_names(ReaderNames& names, const ReaderId& reader, const ReaderPseudonyms& pseudonyms) {
  names.insert(reader.str());
  if (pseudonyms.visitor) names.insert(pseudonyms.visitor(reader));
}

Task<Result<PersonalKeyPage>> scan_personal_keys(redis::Redis& redis, const redis::Keys& keys,
                                                 const ReaderNames& names, std::string_view cursor) {
  redis::Pipeline command, reads;
  command.add("SCAN", cursor, "COUNT", kScanCount);
  FRESHET_CO_TRY(reply, co_await redis::run_one(redis, command));
  PersonalKeyPage page;
  page.cursor = std::string(redis::string_at(*reply, 0));
  const redis::Reply found = (*reply)[1];
  page.scanned = found.size();
  std::vector<std::string> redirects, name_sets;
  for (std::size_t i = 0; i < found.size(); ++i) {
    const std::string_view key = redis::string_at(found, i);
    const redis::KeyPattern* const pattern = keys.pattern_of(key);
    if (pattern == nullptr || pattern->subject == redis::Subject::kNone) continue;
    const std::string name = redis::key_segment(*keys.strip_prefix(key), pattern->segment);
    if (pattern->subject == redis::Subject::kValue)
      redirects.emplace_back(key);
    else if (pattern->subject == redis::Subject::kMembers)
      page.member_sets.push_back({std::string(key), pattern->type == "zset"});
    else if (names.contains(name))
      page.keys.emplace_back(key);
    else if (keys.merged_names(name) == key)
      name_sets.emplace_back(key);
  }
  if (redirects.empty() && name_sets.empty()) co_return page;
  for (const std::string& key : redirects) reads.add("GET", key);
  for (const std::string& key : name_sets) reads.add("ZRANGE", key, 0, -1);
  reads.add("TIME");
  FRESHET_CO_TRY(replies, co_await redis::run_all(redis, reads));
  for (std::size_t i = 0; i < redirects.size(); ++i) {
    if (names.contains(std::string((*replies)[i].text())))
      page.merged_readers.push_back(
          redis::key_segment(*keys.strip_prefix(redirects[i]), keys.pattern_of(redirects[i])->segment));
  }
  page.scanned_at = std::string(redis::string_at(replies->back(), 0));
  for (std::size_t i = 0; i < name_sets.size(); ++i) {
    const redis::Reply& members = (*replies)[redirects.size() + i];
    for (std::size_t k = 0; k < members.size(); ++k) {
      const std::string_view member = redis::string_at(members, k);
      // Without the mark and the epoch (core/feed/seen_epoch.h).
      if (names.contains(std::string(member.substr(0, member.find(kIdMark)))))
        page.merged_names.emplace_back(name_sets[i], member);
    }
  }
  co_return page;
}

Task<Result<void>> erase_personal_keys(redis::Redis& redis, const redis::Keys& keys, const ReaderNames& names,
                                       const PersonalKeyPage& page, seconds tombstone_ttl) {
  redis::Pipeline command;
  for (const std::string& reader : page.merged_readers)
    command.add("SET", keys.tombstone(reader), page.scanned_at, "EX", tombstone_ttl.count());
  for (const std::string& reader : page.merged_readers) command.add("UNLINK", keys.merged_into(reader));
  for (const auto& [key, name] : page.merged_names) command.add("ZREM", key, name);
  for (const std::string& key : page.keys) command.add("UNLINK", key);
  for (const MemberSet& each : page.member_sets) {
    command.command(2 + names.size()).arg(each.is_sorted ? "ZREM" : "SREM").arg(each.key);
    for (const std::string& name : names) command.arg(name);
  }
  if (command.empty()) co_return Result<void>();
  FRESHET_CO_TRY(replies, co_await redis::run_all(redis, command));
  co_return Result<void>();
}

}  // namespace freshet::readers
