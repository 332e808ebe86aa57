// Synthetic training data and models trained on it.
#pragma once

#include <catch2/catch.hpp>
#include <cstdint>
#include <filesystem>
#include <random>
#include <string>
#include <vector>

#include "core/training/train.h"
#include "tests/support/unix_socket.h"

namespace freshet::test {

inline const UnixSeconds kTrainedAt{seconds{1700000000}};
inline const training::Progress kNoProgress = [](std::string_view, double) {};

// Items and readers each have one of five tastes; readers mostly pick items of their own taste,
// which the items have as a tag. The last `fresh` items have no events.
inline training::TrainingData make_training_data(std::uint32_t readers, std::uint32_t items,
                                                 std::uint32_t fresh = 0, unsigned seed = 1) {
  std::mt19937 random(seed);
  training::TrainingData data;
  data.now = kTrainedAt;
  for (std::uint32_t i = 0; i < items; ++i) {
    training::TrainingItem item;
    item.id = "i" + std::to_string(1000 + i);
    item.title = "title " + std::to_string(i);
    item.author = "author" + std::to_string(i % 7);
    item.tags = {"taste" + std::to_string(i % 5), "shelf" + std::to_string(i / 5 % 9)};
    data.items.push_back(item);
  }
  for (std::uint32_t reader = 0; reader < readers; ++reader) {
    for (int event = 0; event < 12; ++event) {
      auto item = static_cast<std::uint32_t>(random() % (items - fresh));
      if (random() % 4 != 0) item = item / 5 * 5 + reader % 5;
      if (item >= items - fresh) continue;
      data.events.push_back(
          {reader, item, readers::Interaction::kView, kTrainedAt - seconds(random() % 1000000)});
    }
  }
  return data;
}

inline training::TrainedModel train_model(const training::TrainingData& data,
                                          const TrainSettings& settings = {}) {
  auto trained = training::train(data, settings, kNoProgress);
  REQUIRE(trained);
  return std::move(*trained);
}

inline std::shared_ptr<const model::Model> open_model(const std::filesystem::path& path) {
  auto model = model::Model::open(path);
  REQUIRE(model);
  return *model;
}

}  // namespace freshet::test
