// freshetctl explain USER: every candidate of a recommendation with the terms of its score, and
// what became of it: the same code that serves, at this moment. Writes nothing.
#pragma once

#include <string>

#include "scripts/ctl/commands/target.h"

namespace freshet::ctl {

struct ExplainOptions {
  std::string user;
  int limit = 20;
  std::string exclude = "hard";  // hard | soft | off
  bool all = false;              // every candidate, not the first hundred
  bool json = false;
};

// Errors: Redis', kInvalid "bad_id".
Result<int> run_explain(const ExplainOptions& options, const Target& target);

}  // namespace freshet::ctl
