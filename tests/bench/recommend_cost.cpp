// Measures a worker's CPU per page of recommendations:
//   recommend_cost [MODEL [items [interactions [readers [rounds]]]]]
//
// Uses the data of `scripts/bench recommend` and all layers below the handler, with a stub for
// Redis, so without sockets or JSON. Items are cached and there is no search. Prints µs of CPU per
// page with and without a re-ranker. Trains the model and writes it to MODEL if the file is
// missing.
#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <filesystem>
#include <random>
#include <string>
#include <vector>

#include "core/items/item_store.h"
#include "core/model/active_model.h"
#include "core/readers/reader_store.h"
#include "core/recommend/recommendations.h"
#include "core/recommend/recommender.h"
#include "core/redis/blocking_redis.h"
#include "core/training/train.h"
#include "tests/bench/stub_redis.h"

using namespace freshet;
using namespace freshet::bench;

namespace {

constexpr std::uint32_t kTopics = 100;

struct Size {
  std::uint32_t items = 50'000, interactions = 100, readers = 500;  // interactions is per reader
  int rounds = 20;
};

std::string id(std::uint32_t item) { return "i" + std::to_string(item); }

training::TrainingItem item(std::uint32_t number, UnixSeconds now) {
  const std::string topic = std::to_string(number % kTopics);
  training::TrainingItem out;
  out.id = id(number);
  out.title = "Article " + out.id + " about topic " + topic + " and place " + std::to_string(number % 331);
  out.author = "author" + std::to_string(number % 500);
  out.tags = {"topic" + topic, "t" + std::to_string(number % 37)};
  out.published = now - seconds{60 + number * 60};
  return out;
}

// 80 % of a reader's interactions are with items of the same three topics.
training::TrainingData make_training_data(const Size& size, UnixSeconds now) {
  training::TrainingData data;
  data.now = now;
  for (std::uint32_t number = 0; number < size.items; ++number) data.items.push_back(item(number, now));
  std::mt19937 random(6);
  const auto below = [&](std::uint32_t limit) { return static_cast<std::uint32_t>(random() % limit); };
  for (std::uint32_t reader = 0; reader < 5000; ++reader) {
    const std::uint32_t topics[] = {below(kTopics), below(kTopics), below(kTopics)};
    for (std::uint32_t number = 0; number < size.interactions; ++number) {
      const std::uint32_t topic = below(5) != 0 ? topics[below(3)] : below(kTopics);
      const std::uint32_t item_number = topic + kTopics * below(size.items / kTopics);
      const auto kind = static_cast<readers::Interaction>(1 + number % 5);
      data.events.push_back({reader, item_number, kind, now - seconds{std::int64_t{number} * 3600}});
    }
  }
  return data;
}

// A re-ranker with random weights, which cost as much as trained ones.
std::vector<float> random_reranker() {
  recommend::Reranker out;
  std::mt19937 random(7);
  const auto number = [&] { return std::uniform_real_distribution<float>(-1, 1)(random); };
  for (std::size_t i = 0; i < recommend::kFeatures; ++i) {
    out.mean[i] = 1;
    out.scale[i] = 0.5F;
    out.linear[i] = number();
  }
  for (auto& unit : out.hidden) {
    for (float& weight : unit.weights) weight = number();
    unit.output_weight = number();
  }
  return out.to_floats();
}

// Answers the commands that recommendations send to Redis.
class SiteRedis final : public StubRedis {
 public:
  SiteRedis(const training::TrainingData& data, const Size& size) : data_(data), states_(size.readers) {
    auto event = data.events.begin();
    for (std::string& out : states_) {
      out = array(2 * std::size_t{size.interactions});
      for (const auto end = event + size.interactions; event != end; ++event) {
        out += bulk(readers::interaction_member(event->kind, id(event->item)));
        out += bulk(std::to_string(event->at.time_since_epoch().count()));
      }
    }
  }
  std::uint32_t reader = 0;  // has all interactions that are read

 private:
  std::string reply_to(const Command& command) const override {
    if (command[0] == "ZREVRANGE" && command[1].starts_with("user:interactions:")) return states_[reader];
    if (command[0] == "ZREVRANGEBYSCORE" && command[1] == "hot:newest") {
      std::string out = array(200);
      for (std::uint32_t i = 0; i < 200; ++i) out += bulk(id(i));
      return out;
    }
    if (command[0] == "GET" || command[0] == "HGET") return "$-1\r\n";
    if (command[0] != "HMGET") return array(0);
    const auto number = std::strtoul(command[1].c_str() + command[1].rfind('i') + 1, nullptr, 10);
    const training::TrainingItem& found = data_.items[number];
    std::string out = array(command.size() - 2);
    for (std::size_t i = 2; i < command.size(); ++i) {
      if (command[i] == "published_at")
        out += bulk(std::to_string(found.published.time_since_epoch().count()));
      else if (command[i] == "title")
        out += bulk(found.title);
      else if (command[i] == "author")
        out += bulk(found.author);
      else if (command[i] == "tags")
        out += bulk(found.tags[0] + " " + found.tags[1]);
      else
        out += "$-1\r\n";
    }
    return out;
  }
  const training::TrainingData& data_;
  std::vector<std::string> states_;
};

class NoIndex final : public feed::Recall {
  Task<Result<feed::RecallResult>> search(feed::RecallQuery) override {
    co_return fail(ErrorCode::kUnavailable, "index_unavailable");
  }
};

void measure(const char* name, bool rerank, const model::ActiveModel& model,
             const training::TrainingData& data, const Size& size) {
  Settings settings;
  settings.recommend.trend_refresh = milliseconds{3'600'000};
  settings.recommend.rerank = rerank;
  const redis::Keys keys("");
  SiteRedis redis(data, size);
  readers::RedisReaderStore states(redis, redis, settings, keys, [] { return std::string("e"); });
  items::RedisItemStore items(redis, settings, keys);
  recommend::TrendSource trend(redis, settings, keys);
  recommend::MappedRecommender recommender(trend, model, settings);
  NoIndex index;
  items::CardCache cards(items, settings.items_cache_bytes);
  cards.heartbeat(items::CardCache::Clock::time_point::max());
  recommend::Recommendations recommendations(states, recommender, cards, index, settings);
  std::vector<double> pages;
  for (int round = 0; round <= size.rounds; ++round) {  // the first round is a warm-up
    const double began = cpu_us();
    for (redis.reader = 0; redis.reader < size.readers; ++redis.reader) {
      const auto reader = ReaderId::trusted("u" + std::to_string(redis.reader));
      const auto page = value_or_exit(redis::run_sync(recommendations.page({reader})));
      if (page.items.size() != 20) std::exit(1);
    }
    if (round > 0) pages.push_back((cpu_us() - began) / size.readers);
  }
  std::sort(pages.begin(), pages.end());
  std::printf("%s: %.0f µs per page (%.0f–%.0f)\n", name, pages[pages.size() / 2], pages.front(),
              pages.back());
}

}  // namespace

int main(int argc, char** argv) {
  const auto number = [&](int at, auto default_value) {
    return argc > at ? static_cast<decltype(default_value)>(std::atoi(argv[at])) : default_value;
  };
  Size size;
  const std::filesystem::path path = argc > 1 ? argv[1] : "recommend_cost.model";
  size.items = number(2, size.items);
  size.interactions = number(3, size.interactions);
  size.readers = number(4, size.readers);
  size.rounds = number(5, size.rounds);
  const training::TrainingData data = make_training_data(size, wall_now());
  if (!std::filesystem::exists(path)) {
    training::Parameters parameters;
    for (float& weight : parameters.blend_weights.by_relation) weight = 0.5F;
    auto trained = value_or_exit(training::train_with_parameters(data, {}, parameters));
    trained.reranker = random_reranker();
    if (const auto written = training::write_model(trained, path); !written) return 1;
  }
  model::ActiveModel model;
  if (!model.open(path)) return 1;
  measure("with a re-ranker", true, model, data, size);
  measure("without a re-ranker", false, model, data, size);
}
