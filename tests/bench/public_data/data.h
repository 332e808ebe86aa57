// Conversion of public data sets to training data, and the measurements that all of them use.
#pragma once

#include <chrono>
#include <cstdint>
#include <filesystem>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "core/model/model.h"
#include "core/recommend/ranker.h"
#include "core/training/train.h"
#include "tests/bench/public_data/sets.h"

namespace freshet::bench {

// Reads a file whose lines are lists of numbers. Errors: kNotFound "no_file", kInvalid "bad_data"
// with the line.
Result<std::vector<std::vector<std::uint32_t>>> read_numbers(const std::filesystem::path& path);

// An id like "000042". Ids sort like their numbers, so that the model's indexes are those of the
// data set.
std::string padded_id(std::uint32_t number);

// Items 0 … count − 1, and an event at data.now for each item of each reader.
training::TrainingData training_data(std::span<const std::vector<std::uint32_t>> items_of_readers,
                                     std::uint32_t count);

// Ranks by trend × (1 + cf_weight × affinity), with the trend of views by age and without
// discoveries.
recommend::RankingSettings trend_by_views(double cf_weight);

struct TrainingRun {
  std::shared_ptr<const model::Model> model;  // mapped from the written file
  std::string report;                         // of validation
  std::chrono::duration<double> trained{0};   // time to read from SQLite, train and write the file
};

// Writes the data to a database like the recorder's, then reads it, trains and writes a model. Uses
// a temporary folder, which it removes.
Result<TrainingRun> train_from_database(const training::TrainingData& data, const TrainSettings& settings,
                                        const Progress& progress);

struct Accuracy {
  double recall = 0, ndcg = 0;  // at 20, mean over readers with relevant items
};

// Ranks all items by affinity, except `excluded` (in any order) and items of the reader's profile.
Accuracy accuracy(const model::Model& model, std::span<const std::vector<std::uint32_t>> profiles,
                  std::span<const std::vector<std::uint32_t>> relevant,
                  std::span<const std::uint32_t> excluded);

struct Times {
  double p50_us = 0, p99_us = 0;
};

// Times the computation of affinities and top 20 for each reader, with the first 200 items of the
// profile at most, as in serving. Takes the median of three for each reader.
Times scoring_times(const model::Model& model, std::span<const std::vector<std::uint32_t>> profiles);

}  // namespace freshet::bench
