// Recommendation quality on public data, measured with the code that trains and serves: the
// protocols, one row each.
#pragma once

#include <array>
#include <functional>
#include <string>
#include <string_view>

#include "core/base/result.h"
#include "tests/bench/public_data/report.h"

namespace freshet::bench {

// What is being done and how much of it, 0..1.
using Stage = std::function<void(std::string_view what, double done)>;

struct DataSet {
  std::string_view name;
  std::string_view help;
  // Errors: kNotFound "no_file", kInvalid "bad_data" (not the data set's format), and training's.
  Result<EvaluationReport> (*evaluate)(const std::string& directory, const Stage& stage);
};

Result<EvaluationReport> evaluate_ml1m(const std::string& directory, const Stage& stage);
Result<EvaluationReport> evaluate_citeulike(const std::string& directory, const Stage& stage);
Result<EvaluationReport> evaluate_deskdrop(const std::string& directory, const Stage& stage);
Result<EvaluationReport> evaluate_scoring(const std::string& directory, const Stage& stage);

inline constexpr std::array kDataSets{
    DataSet{"ml1m", "MovieLens-1M in LCFN's split (train.txt, test.txt): Q1, Q2, T1, S1", evaluate_ml1m},
    DataSet{"citeulike", "citeulike-a (users.dat, item-tag.dat), a fifth of the items new: Q4, Q5, Q6, T2",
            evaluate_citeulike},
    DataSet{"deskdrop", "Deskdrop (users_interactions.csv), day by day: Q7, Q8, Q9", evaluate_deskdrop},
    DataSet{"scoring", "made-up models of three sizes, written into DIR meanwhile: scoring time",
            evaluate_scoring},
};

}  // namespace freshet::bench
