#include "scripts/ctl/replay/import_events.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <charconv>
#include <chrono>
#include <cmath>
#include <cstring>
#include <fstream>
#include <iostream>

#include "core/base/json.h"
#include "core/readers/interaction.h"
#include "scripts/ctl/commands/json_report.h"
#include "scripts/ctl/commands/progress.h"
#include "scripts/ctl/replay/chunks.h"
#include "scripts/ctl/replay/csv.h"
#include "scripts/ctl/replay/import.h"

namespace freshet::ctl {
namespace {

constexpr std::int64_t kMaxListedLines = 20;

std::string lower(std::string_view text) {
  std::string out(text);
  std::ranges::transform(out, out.begin(), [](unsigned char c) { return std::tolower(c); });
  return out;
}

// "userId", "user_id" and "USER ID" are the same column.
std::string column_key(std::string_view name) {
  std::string out = lower(name);
  std::erase_if(out, [](char c) { return c == '_' || c == ' ' || c == '-'; });
  return out;
}

std::string text_of(json::Value value) {
  if (value.is_string()) return std::string(value.text());
  if (const auto integer = value.integer()) return std::to_string(*integer);
  if (const auto number = value.number()) return fmt::format("{}", *number);
  return {};
}

// An interaction that a request can name.
bool is_kind(std::string_view name) {
  const auto kind = readers::parse_interaction(name);
  return kind && *kind != readers::Interaction::kView;
}

tl::unexpected<Error> bad_event(const std::string& why) {
  return fail(ErrorCode::kInvalid, "bad_event", {}, why);
}

std::string reason_of(const Error& error) {
  const std::string detail = error.detail.empty() ? std::string(error.reason) : error.detail;
  return error.member.empty() ? detail : error.member + ": " + detail;
}

Result<std::map<std::string, std::string>> parse_kinds(const std::vector<std::string>& texts) {
  std::map<std::string, std::string> out;
  for (const std::string& each : texts) {
    const std::size_t equals = each.find('=');
    const std::string kind = equals == std::string::npos ? "" : each.substr(equals + 1);
    if (!is_kind(kind))
      return fail(ErrorCode::kInvalid, "bad_option", {},
                  each + ": --kind takes TYPE=KIND; kinds are post, reply, favorite, share and like");
    out[lower(each.substr(0, equals))] = kind;
  }
  return out;
}

class EventImport {
 public:
  EventImport(EventConverter converter, HttpClient http, bool quiet)
      : converter_(std::move(converter)), http_(std::move(http)), progress_(stderr, quiet) {}

  Result<void> read(std::istream& in) {
    std::string line;
    for (std::size_t number = 1; std::getline(in, line); ++number) {
      if (line.ends_with('\r')) line.pop_back();
      if (line.find_first_not_of(" \t") == std::string::npos) continue;
      const auto converted = converter_.convert(line);
      if (!converted && converted.error().reason == "bad_header") return tl::unexpected(converted.error());
      if (!converted) {
        reject(number, reason_of(converted.error()));
      } else if (!converted->left_out.empty()) {
        ++left_out_[converted->left_out];
      } else if (converted->line.size() >= kMaxChunkBytes) {
        reject(number, "is too large");
      } else if (!converted->line.empty()) {
        if (body_.size() + converted->line.size() + 1 > kMaxChunkBytes) {
          if (auto ok = flush(); !ok) return ok;
        }
        body_ += converted->line + '\n';
        numbers_.push_back(number);
      }
      if (numbers_.size() < kMaxChunkLines) continue;
      if (auto ok = flush(); !ok) return ok;
    }
    if (in.bad()) return fail(ErrorCode::kUnavailable, "no_file", {}, "cannot be read to its end");
    return flush();
  }

  int finish(bool as_json) {
    progress_.clear();
    if (rejected_ > kMaxListedLines)
      ctl::print(stderr, "… and {} more rejected lines\n", format_number(rejected_ - kMaxListedLines));
    if (as_json) {
      report_json([&](json::Writer& out) {
        out.key("accepted").integer(accepted_).key("rejected").integer(rejected_);
        out.key("left_out").begin_object();
        for (const auto& [why, lines] : left_out_) out.key(why).integer(lines);
        out.end_object();
      });
    } else {
      ctl::print("imported {} interactions in {}, rejected {}\n", format_number(accepted_),
                 format_duration(Clock::now() - began_), format_number(rejected_));
      for (const auto& [why, lines] : left_out_)
        ctl::print("left out {}: {}\n", format_number(lines), printable(why));
    }
    return rejected_ == 0 ? 0 : 1;
  }

 private:
  using Clock = std::chrono::steady_clock;

  Result<void> flush() {
    if (numbers_.empty()) return {};
    FRESHET_TRY(reply, post_lines(http_, "/api/interactions", std::move(body_)));
    accepted_ += reply->accepted;
    for (const RejectedLine& each : reply->rejected) {
      const bool known = each.line >= 1 && each.line <= numbers_.size();
      reject(known ? numbers_[each.line - 1] : 0, (each.member.empty() ? "" : each.member + ": ") +
                                                      (each.detail.empty() ? each.code : each.detail));
    }
    body_.clear();
    numbers_.clear();
    progress_.update({accepted_ + rejected_, 0, Clock::now() - began_, {}, 0});
    return {};
  }
  void reject(std::size_t number, const std::string& why) {
    if (++rejected_ > kMaxListedLines) return;
    progress_.clear();
    ctl::print(stderr, "line {}: {}\n", number, printable(why));
  }

  EventConverter converter_;
  HttpClient http_;
  ProgressLine progress_;
  const Clock::time_point began_ = Clock::now();
  std::string body_;
  std::vector<std::size_t> numbers_;  // line numbers of those in body_
  std::int64_t accepted_ = 0, rejected_ = 0;
  std::map<std::string, std::int64_t> left_out_;
};

}  // namespace

EventConverter::EventConverter(double min_rating, std::map<std::string, std::string> kinds)
    : min_rating_(min_rating), kinds_(std::move(kinds)) {}

// False for the header.
Result<bool> EventConverter::read_csv(std::string_view line, Event& event) {
  const std::map<std::string, std::string Event::*> known{
      {"user", &Event::user},   {"userid", &Event::user},   {"item", &Event::item},
      {"itemid", &Event::item}, {"movieid", &Event::item},  {"timestamp", &Event::at},
      {"at", &Event::at},       {"rating", &Event::rating}, {"type", &Event::type},
      {"kind", &Event::type}};
  CsvReader reader(line);
  std::vector<std::string> fields;
  FRESHET_TRY(more, reader.next(fields));
  if (!columns_.empty()) {
    if (fields.size() != columns_.size()) return bad_event("number of fields differs from the header");
    for (std::size_t i = 0; i < fields.size(); ++i)
      if (columns_[i] != nullptr) event.*columns_[i] = std::move(fields[i]);
    return true;
  }
  for (const std::string& name : fields) {
    const auto column = known.find(column_key(name));
    columns_.push_back(column == known.end() ? nullptr : column->second);
  }
  const auto has = [&](std::string Event::*column) {
    return std::ranges::find(columns_, column) != columns_.end();
  };
  if (has(&Event::user) && has(&Event::item) && has(&Event::at) && (has(&Event::rating) || has(&Event::type)))
    return false;
  return fail(ErrorCode::kInvalid, "bad_header", {},
              "expected a header with user, item, timestamp, and rating or type, or JSON objects");
}

Result<EventConverter::Converted> EventConverter::convert(std::string_view line) {
  constexpr std::string_view kByteOrderMark = "\xEF\xBB\xBF";
  if (!has_format_ && line.starts_with(kByteOrderMark)) line.remove_prefix(kByteOrderMark.size());
  if (!has_format_) is_csv_ = line[std::min(line.find_first_not_of(" \t"), line.size() - 1)] != '{';
  has_format_ = true;
  Event event;
  if (is_csv_) {
    FRESHET_TRY(is_record, read_csv(line, event));
    return *is_record ? interaction(event) : Result<Converted>();
  }
  std::string text(line);
  json::Document document;
  if (auto ok = document.parse(text); !ok) return tl::unexpected(ok.error());
  FRESHET_TRY(object, json::root_object(document));
  event = {text_of((*object)["user"]), text_of((*object)["item"]), text_of((*object)["at"]),
           text_of((*object)["type"]), text_of((*object)["rating"])};
  return interaction(event);
}

Result<EventConverter::Converted> EventConverter::interaction(const Event& event) const {
  std::string kind = lower(event.type);
  if (const auto mapped = kinds_.find(kind); mapped != kinds_.end()) kind = mapped->second;
  if (kind.empty() || kind == "rating") {
    double rating = 0;
    const auto [end, error] =
        std::from_chars(event.rating.data(), event.rating.data() + event.rating.size(), rating);
    if (error != std::errc() || end != event.rating.data() + event.rating.size() || !std::isfinite(rating))
      return bad_event("rating: not a number");
    if (rating < min_rating_) return Converted{{}, fmt::format("ratings below {}", min_rating_)};
    kind = "like";
  }
  if (kind == "view") return Converted{{}, "views, which are counted when they happen"};
  if (!is_kind(kind)) return Converted{{}, "events of the type " + event.type};
  // A number is Unix seconds; other texts are dates, which the service reads.
  std::int64_t unix_time = 0;
  const auto [end, error] = std::from_chars(event.at.data(), event.at.data() + event.at.size(), unix_time);
  const bool is_number = error == std::errc() && end == event.at.data() + event.at.size();
  if (event.at.empty()) return bad_event("at: is missing");
  Converted out;
  json::Writer writer(out.line);
  writer.begin_object().key("userId").string(event.user).key("topicId").string(event.item);
  writer.key("kind").string(kind).key("at");
  is_number ? writer.integer(unix_time) : writer.string(event.at);
  writer.end_object();
  return out;
}

Result<int> run_import_events(const ImportEventsOptions& options, const Target& target) {
  FRESHET_TRY(kinds, parse_kinds(options.kinds));
  FRESHET_TRY(settings, load_settings(target));
  FRESHET_TRY(address, signed_http_address(target, *settings));
  const bool from_stdin = options.file == "-";
  std::ifstream file;
  if (!from_stdin) file.open(options.file, std::ios::binary);
  if (!from_stdin && !file)
    return fail(ErrorCode::kNotFound, "no_file", {}, options.file + ": " + std::strerror(errno));
  EventImport import(EventConverter(options.min_rating, std::move(*kinds)),
                     HttpClient(*address, kBulkTimeout), options.quiet);
  if (auto ok = import.read(from_stdin ? std::cin : file); !ok) return tl::unexpected(ok.error());
  return import.finish(options.json);
}

}  // namespace freshet::ctl
