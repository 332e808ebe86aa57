// freshetctl explain USER: lists every candidate of a reader's recommendations with the terms of
// its score and what became of it. Runs the same code as the service. Read-only.
#pragma once

#include <string>

#include "scripts/ctl/commands/target.h"

namespace freshet::ctl {

struct ExplainOptions {
  std::string user;
  int limit = 20;
  std::string exclude = "hard";  // hard | soft | off
  bool all = false;              // every candidate, not only the first hundred
  bool json = false;
};

// Errors: Redis'; kInvalid "bad_id".
Result<int> run_explain(const ExplainOptions& options, const Target& target);

}  // namespace freshet::ctl
