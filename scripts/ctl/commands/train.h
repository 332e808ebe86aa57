// freshetctl train: trains the recommender's model from the database and replaces the one in use.
#pragma once

#include "scripts/ctl/commands/target.h"

namespace freshet::ctl {

struct TrainOptions {
  std::string output;  // instead of recommend.model
  bool json = false;
  bool quiet = false;
};

// Publishes a copy to train.publish, if set. Under root it switches to the owner of the model's
// folder. On a new site without training data it says so and returns 0. Errors: no database, the
// disk. The previous model stays in all of these cases.
Result<int> run_train(const TrainOptions& options, const Target& target);

}  // namespace freshet::ctl
