#include "core/readers/personal_keys.h"

#include <algorithm>

#include "core/redis/fields.h"

namespace freshet::readers {
namespace {

constexpr int kPageKeys = 1000;  // about half a millisecond of Redis

std::string_view part_of(std::string_view name, std::size_t part) {
  for (; part > 0; --part) {
    const std::size_t colon = name.find(':');
    if (colon == name.npos) return {};
    name.remove_prefix(colon + 1);
  }
  return name.substr(0, name.find(':'));
}

Result<void> all_well(const Result<redis::Replies>& replies) {
  if (!replies) return tl::unexpected(replies.error());
  for (const redis::Reply& each : *replies) {
    if (each.is_error()) return tl::unexpected(redis::classify(each.error()));
  }
  return {};
}

}  // namespace

void add_names(Names& names, const ReaderId& reader, const ReaderHashes& hashes) {
  names.insert(reader.str());
  if (hashes.visitor) names.insert(hashes.visitor(reader));
}

Task<Result<PersonalPage>> scan_personal(redis::Redis& redis, const redis::Keys& keys, const Names& names,
                                         std::string_view cursor) {
  redis::Pipeline command;
  command.add("SCAN", cursor, "COUNT", kPageKeys);
  const auto replies = co_await redis.run(command);
  if (auto ok = all_well(replies); !ok) co_return tl::unexpected(ok.error());
  PersonalPage page;
  page.cursor = std::string(redis::text_at(replies->front(), 0));
  const redis::Reply found = replies->front()[1];
  page.looked_at = found.size();
  for (std::size_t i = 0; i < found.size(); ++i) {
    const std::string_view key = redis::text_at(found, i);
    const redis::KeyPattern* const pattern = keys.pattern_of(key);
    if (pattern == nullptr || pattern->about == redis::About::kNobody) continue;
    if (pattern->about == redis::About::kMembers)
      page.sets.push_back({std::string(key), pattern->type == "zset"});
    else if (names.contains(std::string(part_of(keys.plain(key), pattern->part))))
      page.keys.emplace_back(key);
  }
  co_return page;
}

Task<Result<void>> erase_personal(redis::Redis& redis, const Names& names, const PersonalPage& page) {
  redis::Pipeline command;
  for (const std::string& key : page.keys) command.add("UNLINK", key);
  for (const Membership& each : page.sets) {
    command.command(2 + names.size()).arg(each.sorted ? "ZREM" : "SREM").arg(each.key);
    for (const std::string& name : names) command.arg(name);
  }
  if (command.empty()) co_return Result<void>();
  const auto replies = co_await redis.run(command);
  co_return all_well(replies);
}

}  // namespace freshet::readers
