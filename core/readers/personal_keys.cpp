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
  redis::Pipeline command;
  command.add("SCAN", cursor, "COUNT", kScanCount);
  FRESHET_CO_TRY(reply, co_await redis::run_one(redis, command));
  PersonalKeyPage page;
  page.cursor = std::string(redis::string_at(*reply, 0));
  const redis::Reply found = (*reply)[1];
  page.scanned = found.size();
  for (std::size_t i = 0; i < found.size(); ++i) {
    const std::string_view key = redis::string_at(found, i);
    const redis::KeyPattern* const pattern = keys.pattern_of(key);
    if (pattern == nullptr || pattern->subject == redis::Subject::kNone) continue;
    if (pattern->subject == redis::Subject::kValue)
      page.named_values.emplace_back(key);
    else if (pattern->subject == redis::Subject::kMembers)
      page.member_sets.push_back({std::string(key), pattern->type == "zset"});
    else if (names.contains(redis::key_segment(*keys.strip_prefix(key), pattern->segment)))
      page.keys.emplace_back(key);
  }
  co_return page;
}

Task<Result<void>> erase_personal_keys(redis::Redis& redis, const ReaderNames& names,
                                       const PersonalKeyPage& page) {
  redis::Pipeline reads, command;
  for (const std::string& key : page.named_values) reads.add("GET", key);
  if (!reads.empty()) {
    FRESHET_CO_TRY(values, co_await redis::run_all(redis, reads));
    for (std::size_t i = 0; i < values->size(); ++i) {
      if (names.contains(std::string((*values)[i].text()))) command.add("UNLINK", page.named_values[i]);
    }
  }
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
