// Why an item is on a reader's page, as the member "reason" of an object that has been begun.
#pragma once

#include "core/base/json.h"
#include "core/readers/reason.h"

namespace freshet::handlers {

inline void write_reason(json::Writer& writer, const readers::Reason& reason) {
  writer.key("reason").begin_object().key("kind").string(readers::reason_name(reason.kind));
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
    case readers::Reason::Kind::kNew:
    case readers::Reason::Kind::kMatch:
    case readers::Reason::Kind::kQuery:
    case readers::Reason::Kind::kMore:
      break;
  }
  writer.key("text").string(readers::reason_text(reason)).end_object();
}

}  // namespace freshet::handlers
