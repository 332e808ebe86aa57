// A model that has just been trained, used without a file: for learning the re-ranker, and for
// tests.
#pragma once

#include <memory>

#include "core/model/model.h"
#include "core/training/train.h"

namespace freshet::training {

// Weights are as trained, not rounded as the file has them; bytes() is 0.
std::shared_ptr<const model::Model> to_model(TrainedModel trained);

}  // namespace freshet::training
