// freshetctl fetch-model: downloads the model from the host that trains and replaces this host's.
#pragma once

#include "scripts/ctl/commands/target.h"

namespace freshet::ctl {

struct FetchModelOptions {
  std::string url;  // that host's internal server; empty: recommend.model_from
  bool json = false;
};

// Conditional request: an unchanged model (by ETag) is not sent again. Signs with --key, else with
// the first of identity.internal_keys, if any. Under root it switches to the owner of the model's
// folder. The previous model stays on error: host unreachable or without a model; reply damaged or
// of another version.
Result<int> run_fetch_model(const FetchModelOptions& options, const Target& target);

}  // namespace freshet::ctl
