#include "core/recorder/batch.h"

#include <algorithm>
#include <unordered_set>

#include "core/base/log.h"
#include "core/base/time.h"
#include "core/base/utf8.h"
#include "core/store/fields.h"

namespace freshet::recorder {
namespace {

using store::text_at;

std::string_view value_of(const redis::Reply& fields, std::string_view name) {
  for (std::size_t i = 0; i + 1 < fields.size(); i += 2) {
    if (text_at(fields, i) == name) return text_at(fields, i + 1);
  }
  return {};
}

bool is_time(std::string_view text) {
  const auto value = store::parse<std::int64_t>(text);
  return value && *value >= 0 && *value <= kMaxUnixSeconds;
}

// What a worker cannot have written.
Result<void> check_values(const store::ItemValues& values) {
  for (std::size_t i = 0; i < values.size(); ++i) {
    const std::string_view name = store::kItemFields[i];
    const bool date = name == "published_at" || (name == "update_time" && !values[i].empty());
    if (date && !is_time(values[i])) return fail(ErrorCode::kInvalid, "bad_time", std::string(name));
    if (!utf8::valid(values[i])) return fail(ErrorCode::kInvalid, "bad_utf8", std::string(name));
    if (name != "tags") continue;
    for (const std::string_view tag : store::words(values[i])) {
      if (auto ok = check_id(tag, "tags"); !ok) return ok;
    }
  }
  return {};
}

}  // namespace

Result<Change> parse_change(const redis::Reply& fields) {
  const auto id = ItemId::parse(value_of(fields, "id"), "id");
  if (!id) return tl::unexpected(id.error());
  const std::string_view op = value_of(fields, "op");
  Change change;
  change.item.id = *id;
  if (op == store::kOpDelete) return change;
  if (op == store::kOpChanged) {
    change.kind = Change::Kind::kLook;
    return change;
  }
  if (op != store::kOpPut) return fail(ErrorCode::kInvalid, "unknown_op", "op", std::string(op));
  store::ItemValues values;
  for (std::size_t i = 0; i < values.size(); ++i) values[i] = value_of(fields, store::kItemFields[i]);
  if (auto ok = check_values(values); !ok) return tl::unexpected(ok.error());
  auto item = store::item_of(*id, values);
  if (!item) return fail(ErrorCode::kInvalid, "bad_time", "published_at");
  change.kind = Change::Kind::kPut;
  change.item = std::move(*item);
  return change;
}

Batch read_batch(const redis::Reply& entries) {
  Batch batch;
  for (std::size_t i = 0; i < entries.size(); ++i) {
    const redis::Reply entry = entries[i];
    std::string entry_id(text_at(entry, 0));
    if (entry[1].is_array()) {
      auto change = parse_change(entry[1]);
      if (change) {
        batch.changes.push_back(std::move(*change));
      } else {
        ++batch.malformed;
        log::warning("entry_malformed", {{"entry", entry_id},
                                         {"why", std::string(change.error().reason)},
                                         {"field", change.error().member}});
      }
    }
    batch.entries.push_back(std::move(entry_id));
  }
  // The last of each item stays.
  std::unordered_set<std::string> later;
  std::vector<Change> last;
  for (auto change = batch.changes.rbegin(); change != batch.changes.rend(); ++change) {
    if (later.insert(change->item.id.str()).second) last.push_back(std::move(*change));
  }
  std::reverse(last.begin(), last.end());
  batch.changes = std::move(last);
  return batch;
}

}  // namespace freshet::recorder
