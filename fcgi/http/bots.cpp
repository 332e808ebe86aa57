#include "fcgi/http/bots.h"

#include <re2/re2.h>
#include <re2/set.h>
#include <sys/random.h>
#include <xxhash.h>

#include <cstdlib>

#include "fcgi/http/crawlers_data.h"

namespace freshet::http {
namespace {

RE2::Options options() {
  RE2::Options options;
  options.set_encoding(RE2::Options::EncodingLatin1);  // User-Agents may contain any bytes
  options.set_log_errors(false);
  options.set_never_capture(true);
  options.set_max_mem(BotMatcher::kMaxMemory);
  return options;
}

Result<void> add_pattern(RE2::Set& set, std::string_view pattern) {
  std::string error;
  if (set.Add(re2::StringPiece(pattern.data(), pattern.size()), &error) < 0) {
    return fail(ErrorCode::kInvalid, "bad_pattern", {}, std::string(pattern).append(": ").append(error));
  }
  return {};
}

bool any_pattern_matches(const RE2::Set& set, std::string_view agent) {
  return set.Match(re2::StringPiece(agent.data(), agent.size()), nullptr);
}

}  // namespace

struct BotMatcher::Sets {
  RE2::Set crawlers{options(), RE2::UNANCHORED};
  RE2::Set allowed{options(), RE2::UNANCHORED};
};

BotMatcher::BotMatcher(std::unique_ptr<Sets> sets, std::uint64_t seed)
    : sets_(std::move(sets)), seed_(seed), cache_(kCacheEntries) {}
BotMatcher::BotMatcher(BotMatcher&&) noexcept = default;
BotMatcher& BotMatcher::operator=(BotMatcher&&) noexcept = default;
BotMatcher::~BotMatcher() = default;

Result<BotMatcher> BotMatcher::create(const std::vector<std::string>& allow) {
  auto sets = std::make_unique<Sets>();
  for (const std::string_view pattern : crawler_patterns()) {
    if (auto ok = add_pattern(sets->crawlers, pattern); !ok) return tl::unexpected(ok.error());
  }
  for (const std::string& pattern : allow) {
    if (auto ok = add_pattern(sets->allowed, pattern); !ok) return tl::unexpected(ok.error());
  }
  if (!sets->crawlers.Compile() || !sets->allowed.Compile()) {
    return fail(ErrorCode::kInvalid, "bad_pattern", {}, "the patterns exceed the memory limit");
  }
  std::uint64_t seed = 0;
  if (getrandom(&seed, sizeof seed, 0) != sizeof seed) std::abort();
  return BotMatcher(std::move(sets), seed);
}

bool BotMatcher::is_bot(std::string_view agent) {
  agent = agent.substr(0, kMaxAgentBytes);
  const std::uint64_t hash = XXH3_64bits_withSeed(agent.data(), agent.size(), seed_) | 1;
  std::uint64_t& cached = cache_[hash / 2 % kCacheEntries];
  if ((cached | 1) == hash) return (cached & 1) != 0;
  const bool bot = any_pattern_matches(sets_->crawlers, agent) && !any_pattern_matches(sets_->allowed, agent);
  cached = bot ? hash : hash - 1;
  return bot;
}

std::vector<std::string_view> crawler_patterns() {
  std::vector<std::string_view> patterns;
  std::string_view rest(kCrawlers, kCrawlersBytes);
  while (!rest.empty()) {
    const std::size_t end = rest.find('\n');
    const std::string_view line = rest.substr(0, end);
    rest.remove_prefix(end == std::string_view::npos ? rest.size() : end + 1);
    if (!line.empty() && line.front() != '#') patterns.push_back(line);
  }
  return patterns;
}

}  // namespace freshet::http
