#include "scripts/ctl/replay/import.h"

#include <fmt/format.h>

#include <algorithm>
#include <chrono>
#include <filesystem>
#include <thread>

#include "core/base/json.h"
#include "scripts/ctl/commands/json_report.h"
#include "scripts/ctl/commands/print.h"
#include "scripts/ctl/commands/progress.h"
#include "scripts/ctl/replay/event_log.h"
#include "scripts/ctl/replay/resume.h"
#include "scripts/ctl/replay/timing.h"

namespace freshet::ctl {
namespace {

constexpr milliseconds kBulkTimeout{35000};  // the service's own limit for a bulk request is 30 s
constexpr int kMaxAttempts = 5;
constexpr milliseconds kRetryDelay{250};
constexpr std::int64_t kMaxShownRejections = 20;

// Safe to repeat: putting an item is idempotent.
Result<HttpReply> post_with_retries(BlockingHttp& http, const HttpRequest& request) {
  milliseconds pause = kRetryDelay;
  for (int attempts_left = kMaxAttempts - 1;; --attempts_left) {
    auto reply = http.exchange(request);
    const bool busy = reply ? reply->status == 429 || reply->status == 503
                            : reply.error().code == ErrorCode::kUnknownOutcome;
    if (!busy || attempts_left == 0) return reply;
    std::this_thread::sleep_for(pause);
    pause *= 2;
  }
}

Result<seconds> compute_shift(const ImportOptions& options) {
  namespace fs = std::filesystem;
  FRESHET_TRY(speed, parse_speed(options.speed));
  const std::string path = options.events.empty()
                               ? (fs::path(options.file).parent_path() / "events.ndjson").string()
                               : options.events;
  FRESHET_TRY(log, read_log(path));
  if (log->events.empty()) return fail(ErrorCode::kInvalid, "empty_log", {}, path + " has no events");
  return shift_to_now(log->events.front().at, log->events.back().at, wall_now(), *speed);
}

std::int64_t count_lines(const Chunks& chunks) {
  auto total = static_cast<std::int64_t>(chunks.too_long.size());
  for (const Chunk& each : chunks.chunks) total += static_cast<std::int64_t>(each.lines.size());
  return total;
}

class Importer {
 public:
  // `position`: end of an earlier run, or the beginning.
  Importer(BlockingHttp& http, ResumeFile notes, ImportPosition position, bool quiet)
      : http_(http),
        resume_file_(std::move(notes)),
        position_(std::move(position)),
        done_before_(position_.accepted + position_.rejected),
        progress_(stderr, quiet) {}

  Result<void> send(const Chunk& chunk) {
    HttpRequest request{"POST", "/api/items", chunk.body, "application/x-ndjson",
                        "freshetctl/" FRESHET_VERSION};
    FRESHET_TRY(reply, post_with_retries(http_, request));
    if (reply->status != 200 && reply->status != 207) {
      return fail(ErrorCode::kUnavailable, "refused", {},
                  fmt::format("{}/api/items returned {}: {:.300}", http_.address().display_url, reply->status,
                              reply->body));
    }
    FRESHET_TRY(bulk, parse_bulk_reply(std::move(reply->body)));
    position_.accepted += bulk->accepted;
    for (const auto& [name, lines] : bulk->ignored) ignored_[name] += lines;
    for (const auto& [line, code] : bulk->rejected) {
      const bool known = line >= 1 && line <= chunk.lines.size();
      reject(known ? chunk.lines[line - 1] : 0, code);
    }
    position_.offset = chunk.end_offset;
    save_position();
    return {};
  }
  void reject(std::size_t line, const std::string& code) {
    ++position_.rejected;
    if (++rejected_lines_ > kMaxShownRejections) return;
    progress_.clear();
    ctl::print(stderr, "line {}: {}\n", line, code);
  }
  void show_progress(std::int64_t total) {
    progress_.update({done(), total, Clock::now() - began_, {}, done_before_});
  }
  int finish(bool as_json) {
    progress_.clear();
    resume_file_.remove();
    if (rejected_lines_ > kMaxShownRejections) {
      ctl::print(stderr, "… and {} more rejected lines\n",
                 format_number(rejected_lines_ - kMaxShownRejections));
    }
    const auto took = Clock::now() - began_;
    if (as_json)
      report_json([&](json::Writer& out) {
        out.key("accepted").integer(position_.accepted).key("rejected").integer(position_.rejected);
        out.key("earlier").integer(done_before_).key("seconds").number(to_seconds(took));
        out.key("ignored").begin_object();
        for (const auto& [name, lines] : ignored_) out.key(name).integer(lines);
        out.end_object();
      });
    else
      print_summary(took);
    return position_.rejected == 0 ? 0 : 1;
  }
  void clear_progress() { progress_.clear(); }

 private:
  using Clock = std::chrono::steady_clock;
  void print_summary(Clock::duration took) const {
    const double s = std::max(1e-9, to_seconds(took));
    ctl::print(
        "imported {} items in {} ({}/s), rejected {}{}\n", format_number(position_.accepted),
        format_duration(took),
        format_number(static_cast<std::int64_t>(static_cast<double>(done() - done_before_) / s)),
        format_number(position_.rejected),
        done_before_ > 0 ? fmt::format(", {} of them in an earlier run", format_number(done_before_)) : "");
    for (const auto& [name, lines] : ignored_)
      ctl::print("ignored the unknown member {} of {} items\n", printable(name), format_number(lines));
  }
  std::int64_t done() const { return position_.accepted + position_.rejected; }
  // A folder that is not writable prevents resuming, not importing.
  void save_position() {
    if (!resumable_) return;
    const auto noted = resume_file_.write(position_);
    if (noted) return;
    resumable_ = false;
    progress_.clear();
    ctl::print(
        stderr,
        "the import cannot be resumed after an interruption ({}); use --resume to choose another file\n",
        noted.error().detail);
  }

  BlockingHttp& http_;
  const ResumeFile resume_file_;
  ImportPosition position_;
  const std::int64_t done_before_;
  bool resumable_ = true;
  ProgressLine progress_;
  Clock::time_point began_ = Clock::now();
  std::int64_t rejected_lines_ = 0;              // in this run
  std::map<std::string, std::int64_t> ignored_;  // members → lines, in this run
};

}  // namespace

Result<BulkReply> parse_bulk_reply(std::string text) {
  json::Document document;
  const json::Limits limits{8, 16 * kMaxChunkLines};
  if (auto ok = document.parse(text, limits); !ok) return tl::unexpected(ok.error());
  const json::Value root = document.root();
  FRESHET_TRY(accepted,
              json::required_integer(root, "accepted", 0, static_cast<std::int64_t>(kMaxChunkLines)));
  BulkReply reply{*accepted, {}, {}};
  for (const json::Value& each : root["rejected"].elements()) {
    FRESHET_TRY(line, json::required_integer(each, "line", 0, static_cast<std::int64_t>(kMaxChunkLines)));
    const json::Value code = each["code"];
    reply.rejected.emplace_back(static_cast<std::size_t>(*line),
                                code.is_string() ? std::string(code.text()) : "rejected");
  }
  for (const auto& [name, lines] : root["ignored"].members())
    reply.ignored.emplace(name, lines.integer().value_or(0));
  return reply;
}

namespace {

// Position of an interrupted run with the same file and service, else the beginning.
ImportPosition start_position(const ResumeFile& notes, const FileIdentity& file, const std::string& target,
                              bool quiet) {
  const auto noted = notes.read();
  if (!noted) return {file, target, 0, 0, 0, 0};
  if (noted->file != file || noted->target != target) {
    if (!quiet)
      ctl::print(stderr, "{} is for another file or service: starting from the beginning\n", notes.path());
    return {file, target, 0, 0, 0, 0};
  }
  if (!quiet) {
    ctl::print(stderr, "resuming after {} items of an earlier run\n",
               format_number(noted->accepted + noted->rejected));
  }
  return *noted;
}

// A shifted time and a quoted id may add some bytes to a line.
constexpr std::size_t kShiftReserve = 64 * kMaxChunkLines;

}  // namespace

Result<int> run_import(const ImportOptions& options, const Target& target) {
  FRESHET_TRY(address, http_address(target));
  FRESHET_TRY(identity, file_identity(options.file));
  FRESHET_TRY(text, read_file(options.file));
  Chunks chunks =
      split_into_chunks(*text, kMaxChunkLines, kMaxChunkBytes - (options.shift_to_now ? kShiftReserve : 0));
  const ResumeFile notes(options.resume.empty() ? options.file + ".import" : options.resume);
  ImportPosition position = start_position(notes, *identity, address->display_url, options.quiet);
  if (options.shift_to_now) {
    // Keep the shift of the interrupted run, so that all items are shifted equally.
    FRESHET_TRY(shift,
                position.offset > 0 ? Result<seconds>(seconds(position.shift_s)) : compute_shift(options));
    if (auto moved = shift_chunks(chunks.chunks, *shift); !moved)
      return fail(moved.error().code, moved.error().reason, {}, options.file + ": " + moved.error().detail);
    position.shift_s = shift->count();
  }
  const std::int64_t total = count_lines(chunks);
  BlockingHttp http(*address, kBulkTimeout);
  const std::uint64_t done = position.offset;
  Importer importer(http, notes, std::move(position), options.quiet);
  if (done == 0)
    for (const std::size_t line : chunks.too_long) importer.reject(line, "too_large");
  for (const Chunk& each : chunks.chunks) {
    if (each.end_offset <= done) continue;
    if (auto ok = importer.send(each); !ok) {
      importer.clear_progress();
      return tl::unexpected(ok.error());
    }
    importer.show_progress(total);
  }
  return importer.finish(options.json);
}

}  // namespace freshet::ctl
