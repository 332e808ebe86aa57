// freshetctl train: the recommender's model anew from the database, in the place of the one that is
// served.
#pragma once

#include "scripts/ctl/commands/target.h"

namespace freshet::ctl {

struct TrainOptions {
  std::string output;  // instead of recommend.model
  bool json = false;
  bool quiet = false;
};

// A copy goes to train.publish, if that is set. Run by root it works as the owner of the model's
// folder. On a new site, with nothing to learn from, it says so. Errors: no database, the disk. In
// all these cases the model before stays.
Result<int> run_train(const TrainOptions& options, const Target& target);

}  // namespace freshet::ctl
