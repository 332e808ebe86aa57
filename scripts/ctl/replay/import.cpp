#include "scripts/ctl/replay/import.h"

#include <fmt/format.h>
#include <strings.h>

#include <algorithm>
#include <array>
#include <chrono>
#include <cstdio>
#include <filesystem>
#include <optional>
#include <thread>

#include "core/base/json.h"
#include "scripts/ctl/commands/json_report.h"
#include "scripts/ctl/commands/print.h"
#include "scripts/ctl/commands/progress.h"
#include "scripts/ctl/http/fetch.h"
#include "scripts/ctl/import/import_source.h"
#include "scripts/ctl/import/job_file.h"
#include "scripts/ctl/replay/event_log.h"
#include "scripts/ctl/replay/resume.h"
#include "scripts/ctl/replay/timing.h"

namespace freshet::ctl {
namespace {

constexpr int kMaxAttempts = 5;
constexpr milliseconds kRetryDelay{250};
constexpr const char* kStdin = "-";
// In a file of another format, no line is an object. The sentence about the format explains them.
constexpr std::int64_t kMaxLinesOfOtherFormat = 20;

Result<HttpReply> post_with_retries(HttpClient& http, const HttpRequest& request) {
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

// "line 3, item p01: published_at: is missing"
std::string describe(const RejectedLine& line) {
  return fmt::format("line {}{}{}: {}{}{}", line.line, line.id.empty() ? "" : ", item ", printable(line.id),
                     printable(line.member), line.member.empty() ? "" : ": ",
                     line.detail.empty() ? line.code : line.detail);
}

class Importer {
 public:
  // `resume_file`: none if the import cannot be resumed. `position`: end of an earlier run, or the
  // beginning. `format`: that of the file, if it is another (other_format).
  Importer(HttpClient& http, std::optional<ResumeFile> resume_file, ImportPosition position,
           std::string_view format, bool quiet)
      : http_(http),
        resume_file_(std::move(resume_file)),
        position_(std::move(position)),
        format_(format),
        done_before_(position_.accepted + position_.rejected),
        progress_(stderr, quiet) {}

  Result<void> send(const Chunk& chunk) {
    FRESHET_TRY(bulk, post_lines(http_, "/api/items", chunk.body));
    position_.accepted += bulk->accepted;
    for (const auto& [name, lines] : bulk->ignored) ignored_[name] += lines;
    for (RejectedLine& each : bulk->rejected) {
      const bool known = each.line >= 1 && each.line <= chunk.lines.size();
      each.line = known ? chunk.lines[each.line - 1] : 0;
      reject(each);
    }
    position_.offset = chunk.end_offset;
    save_position();
    return {};
  }
  void reject(const RejectedLine& line) {
    ++position_.rejected;
    ++reasons_.try_emplace({line.code, line.member}, Reason{0, line.line}).first->second.lines;
    const bool is_object = line.code != "bad_json" && line.code != "bad_body";
    progress_.clear();
    if (!format_.empty() && !is_object) {
      if (other_format_lines_++ == 0)
        ctl::print(stderr, "This looks like {}; expected one JSON object per line\n", format_);
      if (other_format_lines_ > kMaxLinesOfOtherFormat) return;
    }
    ctl::print(stderr, "{}\n", describe(line));
  }
  void show_progress(std::int64_t total) {
    progress_.update({done(), total, Clock::now() - began_, {}, done_before_});
  }
  int finish(bool as_json) {
    progress_.clear();
    if (resume_file_) resume_file_->remove();
    if (other_format_lines_ > kMaxLinesOfOtherFormat) {
      ctl::print(stderr, "… and {} more lines that are not JSON objects\n",
                 format_number(other_format_lines_ - kMaxLinesOfOtherFormat));
    }
    const auto took = Clock::now() - began_;
    if (as_json)
      report_json([&](json::Writer& out) {
        out.key("accepted").integer(position_.accepted).key("rejected").integer(position_.rejected);
        out.key("earlier").integer(done_before_).key("seconds").number(to_seconds(took));
        out.key("reasons").begin_array();
        for (const auto& [what, reason] : reasons_) {
          out.begin_object().key("code").string(what.code);
          if (!what.member.empty()) out.key("member").string(what.member);
          out.key("lines").integer(reason.lines).key("first").unsigned_integer(reason.first_line);
          out.end_object();
        }
        out.end_array().key("ignored").begin_object();
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
  struct ReasonKey {
    std::string code, member;
    auto operator<=>(const ReasonKey&) const = default;
  };
  struct Reason {
    std::int64_t lines = 0;
    std::size_t first_line = 0;
  };
  void print_summary(Clock::duration took) const {
    const double s = std::max(1e-9, to_seconds(took));
    ctl::print(
        "imported {} items in {} ({}/s), rejected {}{}\n", format_number(position_.accepted),
        format_duration(took),
        format_number(static_cast<std::int64_t>(static_cast<double>(done() - done_before_) / s)),
        format_number(position_.rejected),
        done_before_ > 0 ? fmt::format(", {} of them in an earlier run", format_number(done_before_)) : "");
    for (const auto& [what, reason] : reasons_) {
      ctl::print("rejected {} for {}{}{}, first line {}\n", format_number(reason.lines), what.code,
                 what.member.empty() ? "" : " of ", printable(what.member), reason.first_line);
    }
    for (const auto& [name, lines] : ignored_)
      ctl::print("ignored the unknown member {} of {} items\n", printable(name), format_number(lines));
  }
  std::int64_t done() const { return position_.accepted + position_.rejected; }
  // A folder that is not writable prevents resuming, not importing.
  void save_position() {
    if (!resume_file_) return;
    const auto noted = resume_file_->write(position_);
    if (noted) return;
    resume_file_.reset();
    progress_.clear();
    ctl::print(
        stderr,
        "the import cannot be resumed after an interruption ({}); use --resume to choose another file\n",
        noted.error().detail);
  }

  HttpClient& http_;
  std::optional<ResumeFile> resume_file_;
  ImportPosition position_;
  const std::string_view format_;
  const std::int64_t done_before_;
  ProgressLine progress_;
  Clock::time_point began_ = Clock::now();
  // In this run:
  std::int64_t other_format_lines_ = 0;
  std::map<ReasonKey, Reason> reasons_;
  std::map<std::string, std::int64_t> ignored_;  // members → lines
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
    const auto text_of = [&](std::string_view member) {
      return each[member].is_string() ? std::string(each[member].text()) : std::string();
    };
    reply.rejected.push_back({static_cast<std::size_t>(*line), text_of("id"), text_of("code"),
                              text_of("member"), text_of("detail")});
  }
  for (const auto& [name, lines] : root["ignored"].members())
    reply.ignored.emplace(name, lines.integer().value_or(0));
  return reply;
}

Result<BulkReply> post_lines(HttpClient& http, const std::string& path, std::string ndjson) {
  HttpRequest request{"POST", path, std::move(ndjson), "application/x-ndjson", "freshetctl/" FRESHET_VERSION};
  FRESHET_TRY(reply, post_with_retries(http, request));
  if (reply->status != 200 && reply->status != 202) {
    return fail(ErrorCode::kUnavailable, "refused", {},
                fmt::format("{}{} returned {}: {:.300}", http.address().display_url, path, reply->status,
                            reply->body));
  }
  return parse_bulk_reply(std::move(reply->body));
}

namespace {

// True if the object that `line` begins goes on in the next line.
bool is_object_beginning(std::string_view line) {
  line = line.substr(0, line.find_last_not_of(" \t\r") + 1);
  return line.ends_with('{') || line.ends_with('[') || line.ends_with(',');
}

bool is_sql(std::string_view line) {
  constexpr std::array<std::string_view, 9> kBeginnings{"--",   "/*",    "insert ", "replace ", "create ",
                                                        "set ", "begin", "drop ",   "copy "};
  return std::ranges::any_of(kBeginnings, [line](std::string_view each) {
    return line.size() >= each.size() && strncasecmp(line.data(), each.data(), each.size()) == 0;
  });
}

}  // namespace

std::string_view other_format(std::string_view text) {
  constexpr std::string_view kByteOrderMark = "\xEF\xBB\xBF";
  constexpr std::size_t kUtf16Bytes = 4;  // two characters, of which one is ASCII
  if (text.starts_with("\xFF\xFE") || text.starts_with("\xFE\xFF") ||
      text.substr(0, kUtf16Bytes).find('\0') != std::string_view::npos)
    return "text in UTF-16";
  if (text.starts_with(kByteOrderMark)) text.remove_prefix(kByteOrderMark.size());
  text.remove_prefix(std::min(text.find_first_not_of(" \t\r\n"), text.size()));
  const std::string_view line = text.substr(0, text.find('\n'));
  if (line.starts_with('{')) return is_object_beginning(line) ? "JSON on several lines" : std::string_view();
  if (line.starts_with('[')) return "a JSON array";
  if (line.starts_with('<')) return "XML";
  if (is_sql(line)) return "an SQL dump";
  return line.find_first_of(",;\t") != std::string_view::npos ? "CSV" : std::string_view();
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

Result<int> import_ndjson(const ImportOptions& options, const Target& target) {
  const bool from_stdin = options.file == kStdin;
  if (from_stdin && !options.resume.empty())
    return fail(ErrorCode::kInvalid, "bad_option", {}, "--resume needs a file, not stdin");
  FRESHET_TRY(settings, load_settings(target));
  FRESHET_TRY(address, signed_http_address(target, *settings));
  FRESHET_TRY(identity, from_stdin ? Result<FileIdentity>() : file_identity(options.file));
  FRESHET_TRY(data, read_input(options.file));
  FRESHET_TRY(text, from_stdin ? std::move(data) : unpack_gzip(std::move(*data), options.max_bytes));
  Chunks chunks =
      split_into_chunks(*text, kMaxChunkLines, kMaxChunkBytes - (options.shift_to_now ? kShiftReserve : 0));
  std::optional<ResumeFile> notes;
  if (!from_stdin) notes.emplace(options.resume.empty() ? options.file + ".import" : options.resume);
  ImportPosition position = notes ? start_position(*notes, *identity, address->display_url, options.quiet)
                                  : ImportPosition{*identity, address->display_url, 0, 0, 0, 0};
  if (options.shift_to_now) {
    // Keep the shift of the interrupted run, so that all items are shifted equally.
    FRESHET_TRY(shift,
                position.offset > 0 ? Result<seconds>(seconds(position.shift_s)) : compute_shift(options));
    if (auto moved = shift_chunks(chunks.chunks, *shift); !moved)
      return fail(moved.error().code, moved.error().reason, {}, options.file + ": " + moved.error().detail);
    position.shift_s = shift->count();
  }
  const std::int64_t total = count_lines(chunks);
  HttpClient http(*address, kBulkTimeout);
  const std::uint64_t done = position.offset;
  Importer importer(http, std::move(notes), std::move(position), other_format(*text), options.quiet);
  if (done == 0) {
    const std::string detail = fmt::format("longer than {} bytes", kMaxChunkBytes);
    for (const std::size_t line : chunks.too_long) importer.reject({line, {}, "too_large", {}, detail});
  }
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

}  // namespace

Result<int> run_import(ImportOptions options, const Target& target) {
  if (!options.job.empty()) {
    if (auto ok = read_job(options.job, options); !ok) return tl::unexpected(ok.error());
  }
  FRESHET_TRY(source, choose_source(options));
  // These need to know the items, not only to pass them on.
  const bool reads_items = options.prune || options.dry_run || !options.limit_age.empty();
  if (source->format != SourceFormat::kNdjson || reads_items) return import_source(*source, options, target);
  return import_ndjson(options, target);
}

}  // namespace freshet::ctl
