#include "core/recommend/reason_text.h"

namespace freshet::recommend {
namespace {

std::string_view did(readers::Interaction interaction) {
  switch (interaction) {
    case readers::Interaction::kView:
      return "which you read";
    case readers::Interaction::kLike:
      return "which you liked";
    case readers::Interaction::kShare:
      return "which you shared";
    case readers::Interaction::kFavorite:
      return "which you favourited";
    case readers::Interaction::kReply:
      return "which you replied to";
    case readers::Interaction::kPost:
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
    case Reason::Kind::kNew:
      return "new";
    case Reason::Kind::kMatch:
      return "match";
    case Reason::Kind::kMore:
      return "more";
  }
  return "";
}

std::string reason_text(const Reason& reason) {
  switch (reason.kind) {
    case Reason::Kind::kLike: {
      std::string text = "like “";
      text.append(reason.title).append("”, ").append(did(reason.interaction));
      return text;
    }
    case Reason::Kind::kByAuthor:
      return "by " + reason.name + ", whose work you liked";
    case Reason::Kind::kNewInTag:
      return "new in " + reason.name;
    case Reason::Kind::kRising:
      return "rising now";
    case Reason::Kind::kNew:
      return "new";
    case Reason::Kind::kMatch:
      return "matches what you like";
    case Reason::Kind::kMore:
      return "more to read";
  }
  return "";
}

}  // namespace freshet::recommend
