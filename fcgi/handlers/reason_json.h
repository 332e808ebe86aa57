// Writes why an item is on a reader's page, as the member "reason" of an object that is already
// open.
#pragma once

#include <array>
#include <string>

#include "core/base/json.h"
#include "core/readers/reason.h"

namespace freshet::handlers {

inline void write_reason_object(json::Writer& writer, const readers::Reason& reason) {
  writer.begin_object().key("kind").string(readers::reason_name(reason.kind));
  switch (reason.kind) {
    case readers::Reason::Kind::kLike:
      writer.key("id").string(reason.item.view()).key("title").string(reason.title);
      writer.key("interaction").string(readers::kind_of(reason.interaction).name);
      break;
    case readers::Reason::Kind::kByAuthor:
      writer.key("author").string(reason.name);
      break;
    case readers::Reason::Kind::kFollowed:
      if (!reason.name.empty()) writer.key("author").string(reason.name);
      break;
    case readers::Reason::Kind::kNewInTag:
      writer.key("tag").string(reason.name);
      break;
    case readers::Reason::Kind::kRising:
    case readers::Reason::Kind::kNewHere:
    case readers::Reason::Kind::kNew:
    case readers::Reason::Kind::kMatch:
    case readers::Reason::Kind::kQuery:
    case readers::Reason::Kind::kAlsoRead:
    case readers::Reason::Kind::kSimilar:
    case readers::Reason::Kind::kMore:
      break;
  }
  writer.key("text").string(readers::reason_text(reason)).end_object();
}

inline void write_reason(json::Writer& writer, const readers::Reason& reason) {
  writer.key("reason");
  if (reason.kind == readers::Reason::Kind::kLike || !reason.name.empty())
    return write_reason_object(writer, reason);
  // A reason that names nothing always has the same JSON, so it is cached.
  static std::array<std::string, static_cast<std::size_t>(readers::Reason::Kind::kMore) + 1> cache;
  std::string& cached_json = cache[static_cast<std::size_t>(reason.kind)];
  if (cached_json.empty()) {
    json::Writer cache_writer(cached_json);
    write_reason_object(cache_writer, reason);
  }
  writer.raw(cached_json);
}

}  // namespace freshet::handlers
