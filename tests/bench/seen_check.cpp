// Compares checks for seen items: Freshet's seen filter, eight daily sets per reader (SMISMEMBER),
// which a system without the filter would use, and RedisBloom if FRESHET_REDISBLOOM names the
// module's file. Each contender has its own Redis server on a Unix socket. They take turns. Prints
// medians as tab-separated lines: label, value, unit.
//
//     seen_check [candidates = 500] [turns = 9] [checks per turn = 500]
#include <sys/resource.h>

#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <functional>
#include <optional>
#include <random>

#include "core/feed/seen_filter.h"
#include "core/redis/blocking_redis.h"
#include "core/redis/fields.h"
#include "core/redis/scripts.h"
#include "tests/bench/readers.h"
#include "tests/support/redis_server.h"

using namespace freshet;
using redis::Pipeline;
using std::chrono::days;

namespace {

constexpr int kReaders = 1700;  // 60 impressions per day each are the filters' capacity
constexpr std::int64_t kImpressionsPerDay = 102'000;
constexpr int kDays = 8;
constexpr std::int64_t kPage = 20;

[[noreturn]] void exit_with_error(const std::string& message) {
  std::fprintf(stderr, "seen_check: %s\n", message.c_str());
  std::exit(1);
}

ReaderId reader(int n) { return ReaderId::trusted("reader-" + std::to_string(n)); }
// Ids of a realistic length. A reader has seen the items 0 … n − 1 of each day.
ItemId item(int day, std::int64_t n) {
  return ItemId::trusted("article-" + std::to_string(day) + "-" + std::to_string(1'000'000 + n));
}

struct Contender {
  std::string name;
  test::RedisServer server;
  std::optional<redis::BlockingRedis> redis;
  std::function<void(const ReaderId&, const std::vector<ItemId>&, UnixSeconds)> add;
  std::function<std::size_t(const ReaderId&, const std::vector<ItemId>&)>
      check;  // returns how many were seen
  double empty_bytes = 0;
  std::size_t seen = 0;  // in all checks so far
  std::vector<double> check_us, check_cpu_us, add_cpu_us;

  explicit Contender(std::string contender_name, std::vector<std::string> options = {})
      : name(std::move(contender_name)), server(std::move(options)) {
    connect();
  }

  redis::Replies run(const Pipeline& command) {
    auto replies = redis->call(command);
    if (!replies) exit_with_error(name + ": " + replies.error().detail);
    for (const auto& each : *replies) {
      if (each.is_error()) exit_with_error(name + ": " + std::string(each.error()));
    }
    return std::move(*replies);
  }
  double info(std::string_view section, std::string_view field) {
    Pipeline command;
    command.add("INFO", section);
    const auto replies = run(command);
    const std::string text(replies.front().string().value_or(""));
    const std::size_t at = text.find(std::string(field) + ":");
    return at == text.npos ? 0 : std::strtod(text.c_str() + at + field.size() + 1, nullptr);
  }
  void connect() { redis.emplace(server.endpoint(), milliseconds(60000), redis::kAllScripts); }
  // Uses a new connection, whose buffers are empty.
  double memory() {
    connect();
    return info("memory", "used_memory");
  }
  // CPU time of the server and this process in s.
  double cpu_s() {
    rusage own{};
    getrusage(RUSAGE_SELF, &own);
    const auto s = [](const timeval& t) {
      return static_cast<double>(t.tv_sec) + static_cast<double>(t.tv_usec) / 1e6;
    };
    return info("cpu", "used_cpu_user") + info("cpu", "used_cpu_sys") + s(own.ru_utime) + s(own.ru_stime);
  }
};

// Sets `add` and `check` for the filter in the settings.
void use_filter(Contender& contender, const Settings& settings, UnixSeconds now) {
  std::shared_ptr<feed::SeenFilter> filter = feed::make_seen_filter(settings, redis::Keys(""));
  if (const auto ready = redis::run_sync(filter->probe(*contender.redis)); !ready)
    exit_with_error(ready.error().detail);
  contender.add = [&contender, filter](const ReaderId& reader_id, const std::vector<ItemId>& items,
                                       UnixSeconds at) {
    const auto added = redis::run_sync(filter->add(*contender.redis, reader_id, items, at, false));
    if (!added) exit_with_error(added.error().detail);
  };
  contender.check = [&contender, filter, now](const ReaderId& reader_id, const std::vector<ItemId>& items) {
    Pipeline command;
    std::shared_ptr<const feed::SeenView> view;
    if (filter->append_read(command, reader_id, now) > 0) {
      auto read = filter->parse_view(contender.run(command), 0, reader_id, now);
      if (!read) exit_with_error(read.error().detail);
      view = *read;
    }
    const auto seen = redis::run_sync(filter->check(*contender.redis, reader_id, view, items, now));
    if (!seen) exit_with_error(seen.error().detail);
    return static_cast<std::size_t>(std::count(seen->begin(), seen->end(), true));
  };
}

std::string set_key(const ReaderId& reader_id, UnixSeconds day) {
  return "seen:" + reader_id.str() + ":" + utc_day(day);
}

void use_sets(Contender& contender, UnixSeconds now) {
  contender.add = [&contender](const ReaderId& reader_id, const std::vector<ItemId>& items, UnixSeconds at) {
    Pipeline out;
    out.command(2 + items.size()).arg("SADD").arg(set_key(reader_id, at));
    for (const ItemId& each : items) out.arg(each.view());
    out.add("EXPIRE", set_key(reader_id, at), 8 * 86400);
    contender.run(out);
  };
  contender.check = [&contender, now](const ReaderId& reader_id, const std::vector<ItemId>& items) {
    Pipeline command;
    for (int days_ago = 0; days_ago < kDays; ++days_ago) {
      command.command(2 + items.size()).arg("SMISMEMBER").arg(set_key(reader_id, now - days(days_ago)));
      for (const ItemId& each : items) command.arg(each.view());
    }
    std::vector<bool> seen(items.size());
    for (const redis::Reply& day : contender.run(command)) {
      for (std::size_t i = 0; i < items.size(); ++i) seen[i] = seen[i] || day[i].integer().value_or(0) == 1;
    }
    return static_cast<std::size_t>(std::count(seen.begin(), seen.end(), true));
  };
}

// Adds eight days of impressions, oldest first, in pages of 20, with the readers taking turns.
// Returns the number of impressions.
std::int64_t fill(Contender& contender, UnixSeconds now) {
  contender.empty_bytes = contender.memory();
  std::int64_t impressions = 0;
  for (int day = kDays - 1; day >= 0; --day) {
    std::mt19937_64 random(static_cast<std::uint64_t>(day) + 1);
    std::vector<std::int64_t> remaining(kReaders);
    for (auto& each : remaining) each = bench::draw_daily_impressions(random);
    const double before = contender.cpu_s();
    std::int64_t pages = 0, next = 0;
    for (bool any_left = true; any_left; next += kPage) {
      any_left = false;
      for (int n = 0; n < kReaders; ++n) {
        const std::int64_t size = std::min(remaining[static_cast<std::size_t>(n)], kPage);
        if (size == 0) continue;
        std::vector<ItemId> page;
        for (std::int64_t i = next; i < next + size; ++i) page.push_back(item(day, i));
        contender.add(reader(n), page, now - days(day));
        remaining[static_cast<std::size_t>(n)] -= size;
        impressions += size;
        ++pages;
        any_left = true;
      }
    }
    contender.add_cpu_us.push_back((contender.cpu_s() - before) / static_cast<double>(pages) * 1e6);
  }
  return impressions;
}

double median(std::vector<double> values) {
  std::sort(values.begin(), values.end());
  return values[values.size() / 2];
}

struct Query {
  ReaderId reader;
  std::vector<ItemId> items;
};

// Queries of random readers about `candidates` items each, of which the reader has seen a few.
std::vector<Query> make_queries(int candidates, int checks, int seed) {
  std::mt19937_64 random(static_cast<std::uint64_t>(seed));
  std::vector<Query> out;
  for (int check = 0; check < checks; ++check) {
    Query& query = out.emplace_back(Query{reader(static_cast<int>(random() % kReaders)), {}});
    for (int i = 0; i < candidates; ++i)
      query.items.push_back(
          item(static_cast<int>(random() % kDays), static_cast<std::int64_t>(random() % 2000)));
  }
  return out;
}

void run_turn(Contender& contender, const std::vector<Query>& queries) {
  const auto checks = static_cast<double>(queries.size());
  const double cpu_before = contender.cpu_s();
  const auto before = std::chrono::steady_clock::now();
  for (const Query& each : queries) contender.seen += contender.check(each.reader, each.items);
  const std::chrono::duration<double, std::micro> elapsed = std::chrono::steady_clock::now() - before;
  contender.check_us.push_back(elapsed.count() / checks);
  contender.check_cpu_us.push_back((contender.cpu_s() - cpu_before) / checks * 1e6);
}

void print(const std::string& label, double value, const char* unit) {
  std::printf("%s\t%.4g\t%s\n", label.c_str(), value, unit);
}

}  // namespace

int main(int argc, char** argv) {
  const auto option = [&](int at, int default_value) {
    return argc > at ? std::max(1, std::atoi(argv[at])) : default_value;
  };
  const int candidates = option(1, 500), turns = option(2, 9), checks = option(3, 500);
  const UnixSeconds now = std::chrono::floor<days>(wall_now()) + std::chrono::hours(12);
  Settings settings;
  settings.seen.impressions_per_day = kImpressionsPerDay;

  std::vector<std::unique_ptr<Contender>> contenders;
  use_filter(*contenders.emplace_back(std::make_unique<Contender>("Freshet")), settings, now);
  use_sets(*contenders.emplace_back(std::make_unique<Contender>("daily sets, SMISMEMBER")), now);
  if (const char* const module = std::getenv("FRESHET_REDISBLOOM"); module != nullptr && *module != '\0') {
    settings.seen.filter = "redisbloom";
    use_filter(*contenders.emplace_back(std::make_unique<Contender>(
                   "RedisBloom, BF.MEXISTS", std::vector<std::string>{"--loadmodule", module})),
               settings, now);
  } else {
    std::fprintf(stderr, "seen_check: without RedisBloom: FRESHET_REDISBLOOM is not set\n");
  }
  for (auto& each : contenders) {
    const std::int64_t impressions = fill(*each, now);
    const double bytes = each->memory() - each->empty_bytes;
    print(each->name + ": Redis memory per impression", bytes / static_cast<double>(impressions), "bytes");
    print(each->name + ": CPU to add a page of 20", median(each->add_cpu_us), "µs");
  }
  for (int number = 0; number < turns; ++number) {
    const std::vector<Query> queries = make_queries(candidates, checks, number);
    for (auto& each : contenders) run_turn(*each, queries);
  }
  const Contender& freshet_filter = *contenders.front();
  for (const auto& each : contenders) {
    // There must be no false negatives. False positives: Freshet's filter 0.1 %, RedisBloom 1 %.
    const double all = static_cast<double>(turns) * checks * candidates;
    if (each->seen < contenders[1]->seen ||
        static_cast<double>(each->seen - contenders[1]->seen) > 0.01 * all)
      exit_with_error(each->name + " reports other items as seen than the daily sets");
  }
  for (const auto& each : contenders) {
    const std::string label = each->name + ": check of " + std::to_string(candidates) + " items";
    print(label + ", time", median(each->check_us), "µs");
    print(label + ", CPU", median(each->check_cpu_us), "µs");
    if (each.get() == &freshet_filter) continue;
    print("Freshet's time ÷ that of " + each->name, median(freshet_filter.check_us) / median(each->check_us),
          "");
    print("Freshet's CPU ÷ that of " + each->name,
          median(freshet_filter.check_cpu_us) / median(each->check_cpu_us), "");
  }
  return 0;
}
