// Kinds of interactions of readers with items, and their weights as signals of interest.
#pragma once

#include <array>
#include <cstdint>
#include <optional>
#include <string_view>

#include "core/base/time.h"
#include "core/config/settings.h"

namespace freshet::readers {

enum class Interaction : std::uint8_t { kView, kLike, kShare, kFavorite, kReply, kPost };

// Ordered as the enumerators. `letter` is stored in Redis and SQLite: never change one.
struct InteractionInfo {
  Interaction interaction;
  std::string_view name;  // in requests
  char letter;
};
inline constexpr std::array kInteractions{
    InteractionInfo{Interaction::kView, "view", 'v'},
    InteractionInfo{Interaction::kLike, "like", 'l'},
    InteractionInfo{Interaction::kShare, "share", 's'},
    InteractionInfo{Interaction::kFavorite, "favorite", 'f'},
    InteractionInfo{Interaction::kReply, "reply", 'r'},
    InteractionInfo{Interaction::kPost, "post", 'p'},
};
constexpr const InteractionInfo& kind_of(Interaction kind) {
  return kInteractions[static_cast<std::size_t>(kind)];
}
std::optional<Interaction> parse_interaction(std::string_view name);
std::optional<Interaction> interaction_from_letter(char letter);

// The interactions.*_weight setting of the kind.
double interaction_weight(const InteractionSettings& settings, Interaction kind);

// Weight of an event by age: 2^(−age/half_life); 1 for times in the future. The same decay as in
// engagement.h.
double recency_weight(UnixSeconds at, UnixSeconds now, seconds half_life);

}  // namespace freshet::readers
