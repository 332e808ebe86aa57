#include "core/readers/reason.h"

#include <algorithm>

namespace freshet::readers {
namespace {

std::string_view interaction_clause(Interaction interaction) {
  switch (interaction) {
    case Interaction::kView:
      return "which you read";
    case Interaction::kLike:
      return "which you liked";
    case Interaction::kShare:
      return "which you shared";
    case Interaction::kFavorite:
      return "which you favourited";
    case Interaction::kReply:
      return "which you replied to";
    case Interaction::kPost:
      return "which you posted in";
  }
  return "";
}

}  // namespace

std::string_view reason_name(Reason::Kind kind) {
  switch (kind) {
    case Reason::Kind::kLike:
      return "like";
    case Reason::Kind::kByAuthor:
      return "author";
    case Reason::Kind::kNewInTag:
      return "new_in_tag";
    case Reason::Kind::kRising:
      return "rising";
    case Reason::Kind::kNewHere:
      return "new_here";
    case Reason::Kind::kNew:
      return "new";
    case Reason::Kind::kMatch:
      return "match";
    case Reason::Kind::kQuery:
      return "query";
    case Reason::Kind::kFollowed:
      return "followed";
    case Reason::Kind::kAlsoRead:
      return "also_read";
    case Reason::Kind::kSimilar:
      return "similar";
    case Reason::Kind::kMore:
      return "more";
  }
  return "";
}

std::string reason_text(const Reason& reason) {
  switch (reason.kind) {
    case Reason::Kind::kLike: {
      std::string text = "like “";
      text.append(reason.title).append("”, ").append(interaction_clause(reason.interaction));
      return text;
    }
    case Reason::Kind::kByAuthor:
      return "by " + reason.name + ", whose work you liked";
    case Reason::Kind::kNewInTag:
      return "new in " + reason.name;
    case Reason::Kind::kRising:
      return "rising now";
    case Reason::Kind::kNewHere:
      return "new here";
    case Reason::Kind::kNew:
      return "new";
    case Reason::Kind::kMatch:
      return "matches what you like";
    case Reason::Kind::kQuery:
      return "matches your search";
    case Reason::Kind::kFollowed:
      return reason.name.empty() ? "from someone you follow" : "by " + reason.name + ", whom you follow";
    case Reason::Kind::kAlsoRead:
      return "readers of this also read it";
    case Reason::Kind::kSimilar:
      return "similar to this";
    case Reason::Kind::kMore:
      return "more to read";
  }
  return "";
}

}  // namespace freshet::readers
