// Uses a newly trained model without a file, for training the re-ranker and for tests.
#pragma once

#include <memory>

#include "core/model/model.h"
#include "core/training/train.h"

namespace freshet::training {

// Weights are exact, not rounded as in the file; bytes() is 0.
std::shared_ptr<const model::Model> to_model(TrainedModel trained);

}  // namespace freshet::training
