// What a request costs its visitor: one token of the bucket that they have at an endpoint. The store takes it
// inside the script that does the work, before it writes anything, and answers kRateLimited when there is
// none: the detail is then the number of seconds until there is. While Redis is away nothing is taken.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <utility>

#include "core/base/ids.h"

namespace freshet::feed {

struct Ration {
  std::string_view endpoint;  // a literal; empty: costs nothing
  std::string who;
  std::int64_t interval_us = 0;   // between two tokens
  std::int64_t tolerance_us = 0;  // (burst - 1) of them: how far ahead of its interval a visitor may be
};

// A known reader, and what it costs them to ask.
struct Asker {
  ReaderId reader;
  Ration ration;
  Asker(ReaderId known, Ration cost = {})  // NOLINT: most ask for nothing
      : reader(std::move(known)), ration(std::move(cost)) {}
};

}  // namespace freshet::feed
