// freshetctl fetch-model: the model of the host that trains, in the place of this host's.
#pragma once

#include "scripts/ctl/commands/target.h"

namespace freshet::ctl {

struct FetchModelOptions {
  std::string url;  // of that host's internal server; empty: recommend.model_from
  bool json = false;
};

// Asks only for what has changed since the last time, by ETag. Signs with --key, else with the
// first of identity.internal_keys, if there is one. Run by root it works as the owner of the
// model's folder. Errors, after which the model before stays: nobody there, or it has none; what
// comes is no model, damaged or of another version.
Result<int> run_fetch_model(const FetchModelOptions& options, const Target& target);

}  // namespace freshet::ctl
