// Evaluation protocols for the quality of recommendations and hot lists on public data. They run
// the code that trains and serves.
#pragma once

#include <array>
#include <functional>
#include <string>
#include <string_view>

#include "core/base/result.h"
#include "tests/bench/public_data/report.h"

namespace freshet::bench {

// Receives progress. done: 0..1.
using Progress = std::function<void(std::string_view stage, double done)>;

struct DataSet {
  std::string_view name;
  std::string_view help;
  // Errors: kNotFound "no_file", kInvalid "bad_data" (wrong format), and those of training.
  Result<EvaluationReport> (*evaluate)(const std::string& directory, const Progress& progress);
};

Result<EvaluationReport> evaluate_ml1m(const std::string& directory, const Progress& progress);
Result<EvaluationReport> evaluate_citeulike(const std::string& directory, const Progress& progress);
Result<EvaluationReport> evaluate_deskdrop(const std::string& directory, const Progress& progress);
Result<EvaluationReport> evaluate_news_recommendations(const std::string& directory,
                                                       const Progress& progress);
Result<EvaluationReport> evaluate_hot_news(const std::string& directory, const Progress& progress);
Result<EvaluationReport> evaluate_hot_stackexchange(const std::string& directory, const Progress& progress);
Result<EvaluationReport> evaluate_hot_deskdrop(const std::string& directory, const Progress& progress);
Result<EvaluationReport> evaluate_news_sessions(const std::string& directory, const Progress& progress);
Result<EvaluationReport> evaluate_feed_stackexchange(const std::string& directory, const Progress& progress);
Result<EvaluationReport> evaluate_feed_deskdrop(const std::string& directory, const Progress& progress);
Result<EvaluationReport> evaluate_scoring(const std::string& directory, const Progress& progress);

inline constexpr std::array kDataSets{
    DataSet{"ml1m", "MovieLens-1M in LCFN's split (train.txt, test.txt): Q1, Q2, T1, S1", evaluate_ml1m},
    DataSet{"citeulike", "citeulike-a (users.dat, item-tag.dat), a fifth of the items new: Q4, Q5, Q6, T2",
            evaluate_citeulike},
    DataSet{"deskdrop", "Deskdrop (users_interactions.csv), day by day: Q7, Q8, Q9", evaluate_deskdrop},
    DataSet{"news-recommendations", "news clicks (clicks.csv), recommendations to returning readers",
            evaluate_news_recommendations},
    DataSet{"hot-news", "news clicks (clicks.csv), hot lists every 2 h", evaluate_hot_news},
    DataSet{"hot-stackexchange", "a question-and-answer site (scripts/sample), hot lists by day",
            evaluate_hot_stackexchange},
    DataSet{"hot-deskdrop", "Deskdrop (users_interactions.csv), hot lists by day", evaluate_hot_deskdrop},
    DataSet{"news-sessions", "news clicks (clicks.csv), the next click in a session", evaluate_news_sessions},
    DataSet{"feed-stackexchange", "a question-and-answer site (scripts/sample), the feed by day",
            evaluate_feed_stackexchange},
    DataSet{"feed-deskdrop", "Deskdrop (users_interactions.csv), the feed by day", evaluate_feed_deskdrop},
    DataSet{"scoring", "synthetic models of three sizes, temporarily written to DIR: scoring time",
            evaluate_scoring},
};

}  // namespace freshet::bench
