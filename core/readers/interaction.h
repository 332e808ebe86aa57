// What readers do with items, and what it says of their interest.
#pragma once

#include <array>
#include <cstdint>
#include <optional>
#include <string_view>

#include "core/base/time.h"
#include "core/config/settings.h"

namespace freshet::readers {

enum class Interaction : std::uint8_t { kView, kLike, kShare, kFavorite, kReply, kPost };

// In the order of the enumerators. `letter` stands in Redis and SQLite: never change one.
struct InteractionKind {
  Interaction kind;
  std::string_view name;  // in requests
  char letter;
};
inline constexpr std::array kInteractionKinds{
    InteractionKind{Interaction::kView, "view", 'v'},
    InteractionKind{Interaction::kLike, "like", 'l'},
    InteractionKind{Interaction::kShare, "share", 's'},
    InteractionKind{Interaction::kFavorite, "favorite", 'f'},
    InteractionKind{Interaction::kReply, "reply", 'r'},
    InteractionKind{Interaction::kPost, "post", 'p'},
};
constexpr const InteractionKind& kind_of(Interaction kind) {
  return kInteractionKinds[static_cast<std::size_t>(kind)];
}
std::optional<Interaction> interaction_named(std::string_view name);
std::optional<Interaction> interaction_of_letter(char letter);

// interactions.*_weight of the kind.
double interaction_weight(const InteractionSettings& settings, Interaction kind);

// What an event of age now − at still counts: 2^(−age/half_life), 1 for times to come (as
// engagement.h decays).
double recency(UnixSeconds at, UnixSeconds now, seconds half_life);

}  // namespace freshet::readers
