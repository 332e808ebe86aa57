#include "scripts/ctl/import.h"

#include <fmt/format.h>

#include <algorithm>
#include <chrono>
#include <filesystem>
#include <thread>

#include "core/base/json.h"
#include "scripts/ctl/event_log.h"
#include "scripts/ctl/progress.h"
#include "scripts/ctl/timing.h"

namespace freshet::ctl {
namespace {

constexpr milliseconds kBulkTimeout{35000};  // the service's own budget for a bulk request is 30 s
constexpr int kTries = 5;
constexpr milliseconds kFirstPause{250};
constexpr std::int64_t kMostShown = 20;

void copy(json::Value value, json::Writer& out) {
  switch (value.kind()) {
    case json::Kind::kObject:
      out.begin_object();
      for (const auto& [name, member] : value.members()) {
        out.key(name);
        copy(member, out);
      }
      out.end_object();
      break;
    case json::Kind::kArray:
      out.begin_array();
      for (const json::Value& each : value.elements()) copy(each, out);
      out.end_array();
      break;
    case json::Kind::kString:
      out.string(value.text());
      break;
    case json::Kind::kBool:
      out.boolean(value.boolean());
      break;
    case json::Kind::kInteger:
      out.integer(*value.integer());
      break;
    case json::Kind::kUnsigned:
    case json::Kind::kDouble:
      out.number(*value.number());
      break;
    case json::Kind::kNull:
    case json::Kind::kMissing:
      out.null();
  }
}

// An import may be repeated: putting an item twice is putting it once.
Result<HttpReply> post_patiently(BlockingHttp& http, const HttpRequest& request) {
  milliseconds pause = kFirstPause;
  for (int left = kTries - 1;; --left) {
    auto reply = http.exchange(request);
    const bool busy = reply ? reply->status == 429 || reply->status == 503
                            : reply.error().code == ErrorCode::kUnknownOutcome;
    if (!busy || left == 0) return reply;
    std::this_thread::sleep_for(pause);
    pause *= 2;
  }
}

Result<seconds> shift_for(const ImportOptions& options) {
  namespace fs = std::filesystem;
  auto speed = parse_speed(options.speed);
  if (!speed) return tl::unexpected(speed.error());
  const std::string path = options.events.empty()
                               ? (fs::path(options.file).parent_path() / "events.ndjson").string()
                               : options.events;
  auto log = read_log(path);
  if (!log) return tl::unexpected(log.error());
  if (log->events.empty()) return fail(ErrorCode::kInvalid, "empty_log", {}, path + " has no events");
  return shift_to_now(log->events.front().at, log->events.back().at, wall_now(), *speed);
}

Result<std::string> shifted_file(std::string_view ndjson, seconds shift) {
  std::string out;
  out.reserve(ndjson.size());
  for (std::size_t number = 1; !ndjson.empty(); ++number) {
    const std::size_t end = std::min(ndjson.find('\n'), ndjson.size());
    const std::string_view line = ndjson.substr(0, end);
    ndjson.remove_prefix(std::min(end + 1, ndjson.size()));
    if (line.find_first_not_of(" \t\r") != std::string_view::npos) {
      auto moved = shifted_item(line, shift);
      if (!moved) {
        return fail(ErrorCode::kInvalid, "bad_item", {},
                    fmt::format("line {}: {} {}", number, moved.error().member, moved.error().detail));
      }
      out += *moved;
    }
    out += '\n';
  }
  return out;
}

class Importer {
 public:
  Importer(BlockingHttp& http, bool quiet) : http_(http), line_(stderr, quiet) {}

  Result<void> send(const Chunk& chunk) {
    HttpRequest request{"POST", "/api/items", chunk.body, "application/x-ndjson",
                        "freshetctl/" FRESHET_VERSION};
    auto reply = post_patiently(http_, request);
    if (!reply) return tl::unexpected(reply.error());
    if (reply->status != 200 && reply->status != 207) {
      return fail(ErrorCode::kUnavailable, "refused", {},
                  fmt::format("{}/api/items answered {}: {:.300}", http_.address().shown, reply->status,
                              reply->body));
    }
    auto bulk = parse_bulk_reply(std::move(reply->body));
    if (!bulk) return tl::unexpected(bulk.error());
    accepted_ += bulk->accepted;
    for (const auto& [line, code] : bulk->rejected) {
      const bool known = line >= 1 && line <= chunk.lines.size();
      reject(known ? chunk.lines[line - 1] : 0, code);
    }
    return {};
  }
  void reject(std::size_t line, const std::string& code) {
    if (++rejected_ > kMostShown) return;
    line_.clear();
    fmt::print(stderr, "line {}: {}\n", line, code);
  }
  void show(std::int64_t total) { line_.show({accepted_ + rejected_, total, Clock::now() - began_, {}}); }
  int finish() {
    line_.clear();
    if (rejected_ > kMostShown) {
      fmt::print(stderr, "… and {} more rejected lines\n", grouped(rejected_ - kMostShown));
    }
    const auto took = Clock::now() - began_;
    const double s = std::max(1e-9, std::chrono::duration<double>(took).count());
    fmt::print("imported {} items in {} ({}/s), rejected {}\n", grouped(accepted_), in_words(took),
               grouped(static_cast<std::int64_t>(static_cast<double>(accepted_) / s)), grouped(rejected_));
    return rejected_ == 0 ? 0 : 1;
  }

 private:
  using Clock = std::chrono::steady_clock;
  BlockingHttp& http_;
  ProgressLine line_;
  Clock::time_point began_ = Clock::now();
  std::int64_t accepted_ = 0;
  std::int64_t rejected_ = 0;
};

}  // namespace

Chunks cut_into_chunks(std::string_view ndjson, std::size_t most_lines, std::size_t most_bytes) {
  Chunks out;
  for (std::size_t number = 1; !ndjson.empty(); ++number) {
    const std::size_t end = std::min(ndjson.find('\n'), ndjson.size());
    std::string_view line = ndjson.substr(0, end);
    ndjson.remove_prefix(std::min(end + 1, ndjson.size()));
    if (number == 1 && line.starts_with("\xEF\xBB\xBF")) line.remove_prefix(3);
    if (line.find_first_not_of(" \t\r") == std::string_view::npos) continue;
    if (line.size() + 1 > most_bytes) {
      out.too_long.push_back(number);
      continue;
    }
    if (out.chunks.empty() || out.chunks.back().lines.size() == most_lines ||
        out.chunks.back().body.size() + line.size() + 1 > most_bytes) {
      out.chunks.emplace_back();
    }
    out.chunks.back().body.append(line).append("\n");
    out.chunks.back().lines.push_back(number);
  }
  return out;
}

Result<std::string> shifted_item(std::string_view line, seconds shift) {
  std::string text(line);
  json::Document document;
  if (auto ok = document.parse(text); !ok) return tl::unexpected(ok.error());
  const json::Value item = document.root();
  if (!item.is_object()) return fail(ErrorCode::kInvalid, "bad_json", {}, "not an object");
  std::string out;
  json::Writer writer(out);
  writer.begin_object();
  for (const auto& [name, value] : item.members()) {
    writer.key(name);
    if (name == "id") {
      auto id = json::id_text(value, name);  // an integer beyond 2^63 must not pass through a double
      if (!id) return tl::unexpected(id.error());
      writer.string(*id);
    } else if (name == "published_at" || name == "update_time") {
      auto at = json::optional_time(item, name);
      if (!at) return tl::unexpected(at.error());
      if (!*at) {
        writer.null();
        continue;
      }
      auto moved = from_unix((**at + shift).time_since_epoch().count(), name);
      if (!moved) return tl::unexpected(moved.error());
      writer.integer(moved->time_since_epoch().count());
    } else {
      copy(value, writer);
    }
  }
  writer.end_object();
  return out;
}

Result<BulkReply> parse_bulk_reply(std::string text) {
  json::Document document;
  const json::Limits limits{8, 16 * kMostChunkLines};
  if (auto ok = document.parse(text, limits); !ok) return tl::unexpected(ok.error());
  const json::Value root = document.root();
  auto accepted = json::required_integer(root, "accepted", 0, static_cast<std::int64_t>(kMostChunkLines));
  if (!accepted) return tl::unexpected(accepted.error());
  BulkReply reply{*accepted, {}};
  for (const json::Value& each : root["rejected"].elements()) {
    auto line = json::required_integer(each, "line", 0, static_cast<std::int64_t>(kMostChunkLines));
    if (!line) return tl::unexpected(line.error());
    const json::Value code = each["code"];
    reply.rejected.emplace_back(static_cast<std::size_t>(*line),
                                code.is_string() ? std::string(code.text()) : "rejected");
  }
  return reply;
}

Result<int> run_import(const ImportOptions& options, const Target& target) {
  auto address = http_address(target);
  if (!address) return tl::unexpected(address.error());
  auto text = read_file(options.file);
  if (!text) return tl::unexpected(text.error());
  if (options.shift_to_now) {
    auto shift = shift_for(options);
    if (!shift) return tl::unexpected(shift.error());
    auto moved = shifted_file(*text, *shift);
    if (!moved)
      return fail(moved.error().code, moved.error().reason, {}, options.file + ": " + moved.error().detail);
    text = std::move(moved);
  }
  const Chunks cut = cut_into_chunks(*text);
  std::int64_t total = static_cast<std::int64_t>(cut.too_long.size());
  for (const Chunk& each : cut.chunks) total += static_cast<std::int64_t>(each.lines.size());

  BlockingHttp http(*address, kBulkTimeout);
  Importer importer(http, options.quiet);
  for (const std::size_t line : cut.too_long) importer.reject(line, "too_large");
  for (const Chunk& each : cut.chunks) {
    if (auto ok = importer.send(each); !ok) return tl::unexpected(ok.error());
    importer.show(total);
  }
  return importer.finish();
}

}  // namespace freshet::ctl
