// What a page of recommendations costs the worker: recommend_cost [MODEL [items [done [readers
// [rounds]]]]]
//
// The site of `scripts/bench recommend` in memory: every layer below the handler, over Redis'
// replies as bytes, without Redis, sockets or JSON. Titles are known, no search runs. Prints µs of
// CPU a page, with and without a re-ranker. MODEL is trained and written when it is not there.
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
#include "tests/bench/replies.h"

using namespace freshet;
using namespace freshet::bench;

namespace {

constexpr std::uint32_t kTopics = 100;

struct Size {
  std::uint32_t items = 50'000, done = 100, readers = 500;
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

// Each reader keeps to three topics, four times in five.
training::TrainingData site(const Size& size, UnixSeconds now) {
  training::TrainingData data;
  data.now = now;
  for (std::uint32_t number = 0; number < size.items; ++number) data.items.push_back(item(number, now));
  std::mt19937 random(6);
  const auto below = [&](std::uint32_t most) { return static_cast<std::uint32_t>(random() % most); };
  for (std::uint32_t reader = 0; reader < 5000; ++reader) {
    const std::uint32_t topics[] = {below(kTopics), below(kTopics), below(kTopics)};
    for (std::uint32_t number = 0; number < size.done; ++number) {
      const std::uint32_t topic = below(5) != 0 ? topics[below(3)] : below(kTopics);
      const std::uint32_t done = topic + kTopics * below(size.items / kTopics);
      const auto kind = static_cast<readers::Interaction>(1 + number % 5);
      data.events.push_back({reader, done, kind, now - seconds{std::int64_t{number} * 3600}});
    }
  }
  return data;
}

// Of the usual form; what it prefers does not matter here.
std::vector<float> any_reranker() {
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

// Answers what recommendations ask of Redis.
class Site final : public Answers {
 public:
  Site(const training::TrainingData& data, const Size& size) : data_(data), states_(size.readers) {
    auto event = data.events.begin();
    for (std::string& out : states_) {
      out = array(2 * std::size_t{size.done});
      for (const auto end = event + size.done; event != end; ++event) {
        out += bulk(readers::interaction_member(event->kind, id(event->item)));
        out += bulk(std::to_string(event->at.time_since_epoch().count()));
      }
    }
  }
  std::uint32_t reader = 0;  // whose state is asked for

 private:
  std::string answer_to(const Words& words) const override {
    if (words[0] == "ZREVRANGE" && words[1].starts_with("user:interactions:")) return states_[reader];
    if (words[0] == "ZREVRANGEBYSCORE" && words[1] == "hot:newest") {
      std::string out = array(200);
      for (std::uint32_t i = 0; i < 200; ++i) out += bulk(id(i));
      return out;
    }
    if (words[0] == "GET" || words[0] == "HGET") return "$-1\r\n";
    if (words[0] != "HMGET") return array(0);
    const auto number = std::strtoul(words[1].c_str() + words[1].rfind('i') + 1, nullptr, 10);
    const training::TrainingItem& of = data_.items[number];
    std::string out = array(words.size() - 2);
    for (std::size_t i = 2; i < words.size(); ++i) {
      if (words[i] == "published_at")
        out += bulk(std::to_string(of.published.time_since_epoch().count()));
      else if (words[i] == "title")
        out += bulk(of.title);
      else if (words[i] == "author")
        out += bulk(of.author);
      else if (words[i] == "tags")
        out += bulk(of.tags[0] + " " + of.tags[1]);
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
  Site redis(data, size);
  readers::RedisReaderStore states(redis, redis, settings, keys, [] { return std::string("e"); });
  items::RedisItemStore items(redis, settings, keys);
  recommend::TrendSource trend(redis, settings, keys);
  recommend::MappedRecommender recommender(trend, model, settings);
  NoIndex index;
  items::CardCache cards(items, settings.items_cache_bytes);
  cards.heartbeat(items::CardCache::Clock::time_point::max());
  recommend::Recommendations recommendations(states, recommender, cards, index, settings);
  std::vector<double> pages;
  for (int round = 0; round <= size.rounds; ++round) {  // the first one is not counted
    const double began = cpu_us();
    for (redis.reader = 0; redis.reader < size.readers; ++redis.reader) {
      const auto reader = ReaderId::trusted("u" + std::to_string(redis.reader));
      const auto page = must(redis::run_sync(recommendations.page({reader})));
      if (page.items.size() != 20) std::exit(1);
    }
    if (round > 0) pages.push_back((cpu_us() - began) / size.readers);
  }
  std::sort(pages.begin(), pages.end());
  std::printf("%s: %.0f µs a page (%.0f–%.0f)\n", name, pages[pages.size() / 2], pages.front(), pages.back());
}

}  // namespace

int main(int argc, char** argv) {
  const auto number = [&](int at, auto usual) {
    return argc > at ? static_cast<decltype(usual)>(std::atoi(argv[at])) : usual;
  };
  Size size;
  const std::filesystem::path path = argc > 1 ? argv[1] : "recommend_cost.model";
  size.items = number(2, size.items);
  size.done = number(3, size.done);
  size.readers = number(4, size.readers);
  size.rounds = number(5, size.rounds);
  const training::TrainingData data = site(size, wall_now());
  if (!std::filesystem::exists(path)) {
    training::Parameters usual;
    usual.blend_weights.by_relation[0] = usual.blend_weights.by_relation[1] = usual.blend_weights.by_relation[2] = 0.5F;
    auto trained = must(training::train_with_parameters(data, {}, usual));
    trained.reranker = any_reranker();
    if (const auto written = training::write_model(trained, path); !written) return 1;
  }
  model::ActiveModel model;
  if (!model.open(path)) return 1;
  measure("with a re-ranker", true, model, data, size);
  measure("by the formula", false, model, data, size);
}
