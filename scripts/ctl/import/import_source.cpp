#include "scripts/ctl/import/import_source.h"

#include <curl/curl.h>
#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <iostream>
#include <memory>
#include <set>
#include <sstream>
#include <unordered_map>

#include "core/base/ids.h"
#include "core/base/json.h"
#include "scripts/ctl/commands/json_report.h"
#include "scripts/ctl/commands/print.h"
#include "scripts/ctl/commands/progress.h"
#include "scripts/ctl/import/csv_reader.h"
#include "scripts/ctl/import/feed_reader.h"
#include "scripts/ctl/import/ghost_reader.h"
#include "scripts/ctl/import/item_id.h"
#include "scripts/ctl/import/job_file.h"
#include "scripts/ctl/import/markdown_reader.h"
#include "scripts/ctl/import/outbox_reader.h"
#include "scripts/ctl/import/sitemap_reader.h"
#include "scripts/ctl/import/source_state.h"
#include "scripts/ctl/import/wxr_reader.h"
#include "scripts/ctl/replay/chunks.h"

namespace freshet::ctl {
namespace {

namespace fs = std::filesystem;
using Clock = std::chrono::steady_clock;

constexpr int kMaxSitemapDepth = 3;
constexpr std::size_t kDetectedBytes = 4096;
constexpr std::int64_t kMaxListedEntries = 20;
constexpr std::size_t kMaxDocuments = 1000, kMaxItems = 500'000;  // of an import
constexpr int kMaxFailures = 10;                                  // of documents, in a row
constexpr milliseconds kLockPatience{600'000};
constexpr std::string_view kGzipMagic = "\x1f\x8b";

std::string to_line(const SourceItem& item, const ItemId& id, UnixSeconds published) {
  std::string line;
  json::Writer out(line);
  const auto text = [&](std::string_view key, const std::string& value) {
    if (!value.empty()) out.key(key).string(value);
  };
  out.begin_object().key("id").string(id.view()).key("title").string(item.title);
  text("text", item.text);
  if (!item.text.empty()) text("text_format", std::string(items::name_of(item.text_format)));
  text("url", item.url);
  text("author", item.author);
  text("author_id", item.author_id);
  out.key("tags").begin_array();
  for (const std::string& tag : item.tags) out.string(tag);
  out.end_array().key("published_at").integer(unix_s(published));
  if (item.updated_at) out.key("update_time").integer(unix_s(*item.updated_at));
  if (item.expires_at) out.key("expires_at").integer(unix_s(*item.expires_at));
  if (item.hidden) out.key("hidden").boolean(true);
  text("section", item.section);
  text("language", item.language);
  out.end_object();
  return line;
}

struct OpenedDocument {
  std::unique_ptr<std::istream> text;
  std::string url;  // empty for a file
  Validators validators;
  bool unchanged = false;
};

// A document may be compressed.
Result<OpenedDocument> open_file(const std::string& path, std::uint64_t max_bytes) {
  auto file = std::make_unique<std::ifstream>(path, std::ios::binary);
  std::array<char, kGzipMagic.size()> beginning{};
  const bool readable = static_cast<bool>(*file) && !fs::is_directory(path);
  if (!readable) return fail(ErrorCode::kNotFound, "no_file", {}, path + ": cannot be read");
  file->read(beginning.data(), beginning.size());
  const bool is_packed = std::string_view(beginning.data(), beginning.size()) == kGzipMagic;
  file->clear();
  file->seekg(0);
  OpenedDocument out;
  if (!is_packed) {
    out.text = std::move(file);
    return out;
  }
  std::string packed(std::istreambuf_iterator<char>(*file), {});
  auto text = unpack_gzip(std::move(packed), max_bytes);
  if (!text) return fail(ErrorCode::kInvalid, text.error().reason, {}, path + ": " + text.error().detail);
  out.text = std::make_unique<std::istringstream>(std::move(*text));
  return out;
}

std::optional<SourceFormat> detect(std::istream& in) {
  std::string beginning(kDetectedBytes, 0);
  in.read(beginning.data(), static_cast<std::streamsize>(beginning.size()));
  beginning.resize(static_cast<std::size_t>(in.gcount()));
  in.clear();
  in.seekg(0);
  return detect_format(beginning);
}

// Where the source is, as it may be shown.
std::string place_of(const SourceChoice& source) {
  return is_web_url(source.location) ? without_credentials(source.location) : source.location;
}

class SourceImport {
 public:
  // `oldest`: entries before it are left out. `state`: of earlier runs; without a target if none is
  // kept. `http`: null for a dry run.
  SourceImport(const SourceChoice& source, const ImportOptions& options, IdRule rule, UnixSeconds oldest,
               SourceState state, HttpClient* http)
      : options_(options),
        rule_(std::move(rule)),
        earlier_(std::move(state)),
        http_(http),
        fetcher_({source.location, options.public_only, options.hosts, options.max_bytes,
                  seconds(options.timeout_s)}),
        oldest_(oldest),
        progress_(stderr, options.quiet) {
    const std::string items_depend_on = rule_.text() + '\n' + options.base_url + '\n' + options.limit_age;
    can_be_unchanged_ = earlier_.rule == items_depend_on;
    next_.source = earlier_.source;
    next_.target = earlier_.target;
    next_.rule = items_depend_on;
  }

  Result<void> read(const SourceChoice& source) {
    auto ok = source.format == SourceFormat::kMarkdown ? read_folder(source.location)
                                                       : read_document(place_of(source), source.format, 0);
    if (fatal_) return tl::unexpected(*fatal_);
    if (!ok && total_ == 0) return ok;
    if (!ok) note_problem(ok.error());
    if (auto sent = flush(); !sent) return sent;
    return {};
  }

  // `elsewhere`: items of other sources, which are not deleted.
  Result<void> prune(const Result<std::set<std::string>>& elsewhere) {
    std::map<std::string, UnixSeconds> own = earlier_.ids;
    if (is_complete() && elsewhere)
      std::erase_if(own, [&](const auto& each) {
        return elsewhere->contains(each.first) && !present_.contains(each.first);
      });
    const PruneDecision decision = decide_prune(own, present_, oldest_);
    // Items that are not deleted now may be later.
    for (const auto& [id, published] : own) next_.ids.try_emplace(id, published);
    if (!options_.prune || decision.gone.empty()) return {};
    if (!is_complete()) {
      prune_refusal_ = "nothing was deleted, because a part of the source could not be read";
    } else if (!elsewhere) {
      prune_refusal_ = "nothing was deleted, because the items of another source are not known: " +
                       printable(elsewhere.error().detail);
    } else if (decision.is_too_much && !options_.force) {
      prune_refusal_ = fmt::format(
          "nothing was deleted: {} of {} items are gone from the source, more than a third; --force deletes "
          "them",
          format_number(static_cast<std::int64_t>(decision.gone.size())),
          format_number(static_cast<std::int64_t>(decision.considered)));
    } else {
      for (const std::string& id : decision.gone) {
        if (auto ok = remove(id); !ok) return ok;
        next_.ids.erase(id);
        ++deleted_;
      }
    }
    return {};
  }

  // To be stored. If an entry was refused, the next import reads all documents, to report it again.
  const SourceState& state() {
    if (skipped_ + rejected_ > 0) next_.documents.clear();
    return next_;
  }

  int finish() {
    progress_.clear();
    if (skipped_ + rejected_ > kMaxListedEntries)
      ctl::print(stderr, "… and {} more\n", format_number(skipped_ + rejected_ - kMaxListedEntries));
    for (const std::string& each : problems_) ctl::print(stderr, "{}\n", each);
    if (unlisted_problems_ > 0)
      ctl::print(stderr, "… and {} more documents that cannot be read\n", format_number(unlisted_problems_));
    if (!prune_refusal_.empty()) ctl::print(stderr, "{}\n", prune_refusal_);
    options_.json ? report() : print_summary(options_.dry_run ? stderr : stdout);
    return skipped_ + rejected_ > 0 || !problems_.empty() || !prune_refusal_.empty() ? 1 : 0;
  }

 private:
  struct Pending {
    std::string id, position, line;
  };
  struct Reason {
    std::int64_t entries = 0;
    std::string first;
  };

  SourceSink sink(std::vector<std::string>& ids) {
    return {[this, &ids](SourceItem item) { return take(std::move(item), ids); },
            [this](std::string_view position, std::string_view reason) { skip(position, reason); }};
  }

  Result<void> read_folder(const std::string& folder) {
    format_ = name_of(SourceFormat::kMarkdown);
    if (!rule_.column().empty())
      return fail(ErrorCode::kInvalid, "bad_option", {}, no_column(SourceFormat::kMarkdown));
    std::vector<std::string> ids;
    return read_markdown(folder, options_.base_url, sink(ids));
  }

  std::string no_column(SourceFormat format) const {
    return fmt::format(
        "--id {} names a column, and only tables (CSV) have columns, not a source of the format {}",
        rule_.column(), name_of(format));
  }

  Result<OpenedDocument> open(const std::string& location) {
    if (location == "-") return OpenedDocument{std::make_unique<std::istream>(std::cin.rdbuf())};
    if (!is_web_url(location)) return open_file(location, options_.max_bytes);
    const auto earlier = earlier_.documents.find(location);
    const bool is_conditional = can_be_unchanged_ && earlier != earlier_.documents.end();
    FRESHET_TRY(fetched,
                fetcher_.fetch(location, is_conditional ? earlier->second.validators : Validators()));
    OpenedDocument out;
    out.url = std::move(fetched->url);
    out.validators = std::move(fetched->validators);
    out.unchanged = fetched->unchanged;
    out.text = std::make_unique<std::istringstream>(std::move(fetched->body));
    return out;
  }

  Result<void> read_document(const std::string& location, std::optional<SourceFormat> format, int depth) {
    if (visited_.contains(location)) return {};
    if (visited_.size() == kMaxDocuments)
      return stop(fmt::format("reading ended after {} documents", format_number(kMaxDocuments)));
    visited_.insert(location);
    FRESHET_TRY(opened, open(location));
    SourceState::DocumentState document;
    if (opened->unchanged) {
      ++unchanged_;
      document = earlier_.documents.at(location);
      for (const std::string& id : document.ids) present_.try_emplace(id, known_time(id));
    } else {
      if (!format) {
        format = detect(*opened->text);
        if (format == SourceFormat::kNdjson) format.reset();  // any JSON, such as an error
      }
      if (!format)
        return fail(ErrorCode::kInvalid, "bad_format", {},
                    location +
                        ": the format is not clear; name it, for example with --feed. To import "
                        "NDJSON, download it and import the file");
      if (depth == 0) format_ = name_of(*format);
      document.validators = opened->validators;
      auto ok = parse(*opened, *format, document);
      // At an error, a file's buffer throws, which sets badbit; stdin's only ends.
      if (ok && (opened->text->bad() || (location == "-" && std::ferror(stdin) != 0)))
        ok = fail(ErrorCode::kUnavailable, "no_file", {}, "cannot be read to its end");
      if (!ok) return fail(ok.error().code, ok.error().reason, {}, location + ": " + ok.error().detail);
    }
    failures_ = 0;
    for (const std::string& each : document.sitemaps) read_nested(each, depth + 1);
    // Part of one may be unread.
    if (is_web_url(location) && !is_over_) next_.documents.emplace(location, std::move(document));
    return {};
  }

  void read_nested(const std::string& sitemap, int depth) {
    if (fatal_ || is_over_ || visited_.contains(sitemap)) return;
    auto ok =
        depth > kMaxSitemapDepth ? Result<void>(fail(ErrorCode::kInvalid, "too_deep", {},
                                                     fmt::format("{}: sitemaps are nested more than {} deep",
                                                                 sitemap, kMaxSitemapDepth)))
        : !is_web_url(sitemap)
            ? Result<void>(fail(ErrorCode::kInvalid, "bad_url", {}, sitemap + ": not an http or https URL"))
            : read_document(sitemap, SourceFormat::kSitemap, depth);
    if (ok) return;
    note_problem(ok.error());
    if (++failures_ == kMaxFailures && !is_over_)
      note_problem(
          stop(fmt::format("reading ended after {} documents in a row that cannot be read", kMaxFailures))
              .value());
  }

  // Reads no more. The source is then not complete.
  tl::unexpected<Error> stop(std::string why) {
    is_over_ = true;
    return fail(ErrorCode::kTooLarge, "source_too_large", {}, std::move(why));
  }

  Result<void> parse(OpenedDocument& opened, SourceFormat format, SourceState::DocumentState& document) {
    const std::string& base = options_.base_url.empty() ? opened.url : options_.base_url;
    const SourceSink entries = sink(document.ids);
    if (!rule_.column().empty() && format != SourceFormat::kCsv)
      return fail(ErrorCode::kInvalid, "bad_option", {}, no_column(format));
    switch (format) {
      case SourceFormat::kFeed:
        return read_feed(*opened.text, base, entries);
      case SourceFormat::kSitemap: {
        FRESHET_TRY(links, read_sitemap(*opened.text, base, entries));
        document.sitemaps = std::move(links->sitemaps);
        return {};
      }
      case SourceFormat::kWxr:
        return read_wxr(*opened.text, entries);
      case SourceFormat::kGhost:
        return read_ghost(*opened.text, entries);
      case SourceFormat::kCsv:
        return read_csv_items(*opened.text, entries, rule_.column());
      case SourceFormat::kOutbox:
        return read_outbox(*opened.text, entries);
      case SourceFormat::kNdjson:
        return read_lines(*opened.text, document.ids);
      case SourceFormat::kMarkdown:
        break;
    }
    return fail(ErrorCode::kInternal, "bad_format");
  }

  // NDJSON, whose lines are items already. The service checks them.
  Result<void> read_lines(std::istream& in, std::vector<std::string>& document_ids) {
    std::string line;
    json::Document document;
    for (std::size_t number = 1; std::getline(in, line); ++number) {
      if (number == 1 && line.starts_with("\xEF\xBB\xBF")) line.erase(0, 3);
      if (line.find_first_not_of(" \t\r") == std::string::npos) continue;
      ++total_;
      const std::string position = fmt::format("line {}", number);
      std::string text = line;
      const auto parsed = document.parse(text);
      if (!parsed || !document.root().is_object()) {
        skip(position, "is not a JSON object");
        continue;
      }
      const auto id_text = json::id_text(document.root()["id"], "id");
      const auto id = id_text ? parse_id(*id_text, position) : std::nullopt;
      if (!id_text) skip(position, "has no id");
      if (!id) continue;
      const auto published = json::optional_time(document.root(), "published_at");
      const UnixSeconds at = published && *published ? **published : known_time(id->str());
      if (!put({id->str(), position, line}, at, UnixSeconds::max(), document_ids)) break;
    }
    return {};
  }

  UnixSeconds known_time(const std::string& id) const {
    const auto known = earlier_.ids.find(id);
    return known == earlier_.ids.end() ? began_at_ : known->second;
  }

  // False ends reading.
  bool take(SourceItem item, std::vector<std::string>& document_ids) {
    ++total_;
    const auto text = rule_.id_of(item);
    if (!text) {
      skip(item.position, text.error().detail);
      return true;
    }
    const auto id = parse_id(*text, item.position);
    if (!id) return true;
    // An entry without a date keeps the time of its first import.
    if (!item.published_at && !item.updated_at) ++undated_;
    const UnixSeconds published = item.published_at ? *item.published_at
                                  : item.updated_at ? *item.updated_at
                                                    : known_time(id->str());
    return put({id->str(), item.position, to_line(item, *id, published)}, published,
               item.updated_at.value_or(published), document_ids);
  }

  // nullopt: the entry was skipped.
  std::optional<ItemId> parse_id(const std::string& text, const std::string& position) {
    auto id = ItemId::parse(text, "id");
    if (id) return std::move(*id);
    skip(position, "its id " + (id.error().detail.empty() ? "is not valid" : id.error().detail));
    return std::nullopt;
  }

  // Takes the entry that changed last of those with the same id, or the last one if `changed` is
  // max(). False ends reading.
  bool put(Pending entry, UnixSeconds published, UnixSeconds changed,
           std::vector<std::string>& document_ids) {
    if (present_.size() >= kMaxItems && !present_.contains(entry.id)) {
      note_problem(stop(fmt::format("reading ended after {} items", format_number(kMaxItems))).value());
      return false;
    }
    document_ids.push_back(entry.id);
    const auto [seen, is_first] = present_.try_emplace(entry.id, changed);
    if (!is_first) {
      ++duplicates_;
      if (changed <= seen->second && changed != UnixSeconds::max()) return true;
      seen->second = changed;
    }
    if (published < oldest_) {
      ++too_old_;
      return true;
    }
    next_.ids[entry.id] = published;
    return add(std::move(entry));
  }

  bool add(Pending entry) {
    if (entry.line.size() >= kMaxChunkBytes) {
      reject(entry, "is too large");
      return true;
    }
    auto known = pending_index_.find(entry.id);
    const bool is_new = known == pending_index_.end();
    const std::size_t replaced = is_new ? 0 : pending_[known->second].line.size() + 1;
    const std::size_t bytes = entry.line.size() + 1;
    if ((is_new && pending_.size() == kMaxChunkLines) || pending_bytes_ - replaced + bytes > kMaxChunkBytes) {
      if (auto ok = flush(); !ok) {
        fatal_ = ok.error();
        return false;
      }
    } else if (!is_new) {
      pending_[known->second] = std::move(entry);
      pending_bytes_ += bytes - replaced;
      return true;
    }
    pending_bytes_ += bytes;
    pending_index_.emplace(entry.id, pending_.size());
    pending_.push_back(std::move(entry));
    return true;
  }

  Result<void> flush() {
    if (pending_.empty()) return {};
    std::string body;
    for (const Pending& each : pending_) body += each.line + '\n';
    if (http_ == nullptr) {
      ctl::print("{}", escape_json(body));
      accepted_ += static_cast<std::int64_t>(pending_.size());
    } else {
      FRESHET_TRY(reply, post_lines(*http_, "/api/items", std::move(body)));
      accepted_ += reply->accepted;
      for (const RejectedLine& each : reply->rejected) {
        const bool known = each.line >= 1 && each.line <= pending_.size();
        const std::string why =
            (each.member.empty() ? "" : each.member + ": ") + (each.detail.empty() ? each.code : each.detail);
        reject(known ? pending_[each.line - 1] : Pending(), why);
      }
    }
    pending_.clear();
    pending_index_.clear();
    pending_bytes_ = 0;
    if (!options_.dry_run) progress_.update({accepted_ + rejected_, 0, Clock::now() - began_, {}, 0});
    return {};
  }

  void reject(const Pending& entry, const std::string& why) {
    ++rejected_;
    list_entry(entry.position + ", item " + entry.id, why, "rejected", entry.position);
  }
  // False if an entry or a part of the source could not be read. Any item may be there.
  bool is_complete() const { return problems_.empty() && skipped_ == 0; }
  void skip(std::string_view position, std::string_view why) {
    ++skipped_;
    list_entry(std::string(position), std::string(why), "skipped", std::string(position));
  }
  void list_entry(const std::string& what, const std::string& why, const char* outcome,
                  const std::string& position) {
    Reason& reason = reasons_.try_emplace({outcome, why}, Reason{0, position}).first->second;
    ++reason.entries;
    if (skipped_ + rejected_ > kMaxListedEntries) return;
    progress_.clear();
    ctl::print(stderr, "{}: {}\n", printable(what), printable(why));
  }
  void note_problem(const Error& error) {
    if (static_cast<std::int64_t>(problems_.size()) >= kMaxListedEntries && !is_over_) {
      ++unlisted_problems_;
      return;
    }
    problems_.push_back(printable(error.detail.empty() ? std::string(error.reason) : error.detail));
  }

  Result<void> remove(const std::string& id) {
    if (http_ == nullptr) return {};
    const std::unique_ptr<char, decltype(&curl_free)> escaped(
        curl_easy_escape(nullptr, id.data(), static_cast<int>(id.size())), curl_free);
    HttpRequest request;
    request.method = "DELETE";
    request.path = std::string("/api/items/") + escaped.get();
    request.user_agent = "freshetctl/" FRESHET_VERSION;
    FRESHET_TRY(reply, http_->exchange(request));
    if (reply->status == 200 || reply->status == 404) return {};
    return fail(ErrorCode::kUnavailable, "refused", {},
                fmt::format("deleting the item {} returned {}: {:.300}", id, reply->status, reply->body));
  }

  void print_summary(std::FILE* out) const {
    const auto line = [&](std::int64_t count, std::string_view before, std::string_view after) {
      if (count > 0) ctl::print(out, "{} {} {}\n", before, format_number(count), after);
    };
    ctl::print(out, "{} {} items of {}{} in {}\n", options_.dry_run ? "would import" : "imported",
               format_number(accepted_), printable(next_.source),
               format_.empty() ? "" : fmt::format(" (read as: {})", format_),
               format_duration(Clock::now() - began_));
    for (const auto& [what, reason] : reasons_)
      ctl::print(out, "{} {}: {}, first {}\n", what.first, format_number(reason.entries),
                 printable(what.second), printable(reason.first));
    line(duplicates_, "found", "entries with the id of another one; the newer one was taken");
    line(too_old_, "left out", "entries that are older than --limit-age");
    if (earlier_.target.empty())
      line(undated_, "found",
           "entries without a date; they get the time of each import, unless --cache DIR keeps their first");
    line(unchanged_, "found", "documents unchanged since the last import");
    line(deleted_, options_.dry_run ? "would delete" : "deleted", "items that are gone from the source");
  }
  void report() const {
    report_json([&](json::Writer& out) {
      out.key("source").string(next_.source).key("format").string(format_);
      out.key("accepted").integer(accepted_).key("rejected").integer(rejected_);
      out.key("skipped").integer(skipped_).key("duplicates").integer(duplicates_);
      out.key("too_old").integer(too_old_).key("unchanged").integer(unchanged_);
      out.key("deleted").integer(deleted_).key("complete").boolean(is_complete());
      out.key("seconds").number(to_seconds(Clock::now() - began_)).key("reasons").begin_array();
      for (const auto& [what, reason] : reasons_) {
        out.begin_object().key("outcome").string(what.first).key("reason").string(what.second);
        out.key("entries").integer(reason.entries).key("first").string(reason.first).end_object();
      }
      out.end_array();
    });
  }

  const ImportOptions& options_;
  const IdRule rule_;
  const SourceState earlier_;
  HttpClient* const http_;
  Fetcher fetcher_;
  const UnixSeconds oldest_;
  const UnixSeconds began_at_ = wall_now();
  const Clock::time_point began_ = Clock::now();
  ProgressLine progress_;
  bool can_be_unchanged_ = false;

  SourceState next_;
  std::string format_;
  std::set<std::string> visited_;
  std::map<std::string, UnixSeconds> present_;  // ids in the source → time of the newest entry
  std::vector<Pending> pending_;
  std::unordered_map<std::string, std::size_t> pending_index_;  // id → its place in pending_
  std::size_t pending_bytes_ = 0;
  std::optional<Error> fatal_;  // ended reading
  std::int64_t total_ = 0, accepted_ = 0, rejected_ = 0, skipped_ = 0, duplicates_ = 0, too_old_ = 0,
               unchanged_ = 0, deleted_ = 0, undated_ = 0, unlisted_problems_ = 0;
  int failures_ = 0;      // documents in a row that could not be read
  bool is_over_ = false;  // a limit ended reading
  std::map<std::pair<std::string, std::string>, Reason> reasons_;  // (outcome, reason)
  std::vector<std::string> problems_;                              // why the source is not complete
  std::string prune_refusal_;
};

// Folder of the state files; empty: nothing is remembered.
std::string state_folder(const ImportOptions& options, const Target& target) {
  if (!options.cache.empty()) return options.cache;
  if (!target.state.empty()) return (fs::path(target.state) / "import").string();
  const char* const of_unit = std::getenv("STATE_DIRECTORY");
  return of_unit == nullptr ? std::string() : (fs::path(of_unit) / "import").string();
}

}  // namespace

Result<SourceChoice> choose_source(const ImportOptions& options) {
  const std::array<std::pair<const std::string*, SourceFormat>, 7> named{{
      {&options.feed, SourceFormat::kFeed},
      {&options.sitemap, SourceFormat::kSitemap},
      {&options.wxr, SourceFormat::kWxr},
      {&options.ghost, SourceFormat::kGhost},
      {&options.markdown, SourceFormat::kMarkdown},
      {&options.csv, SourceFormat::kCsv},
      {&options.outbox, SourceFormat::kOutbox},
  }};
  std::vector<SourceChoice> found;
  for (const auto& [location, format] : named)
    if (!location->empty()) found.push_back({*location, format});
  if (!options.file.empty()) {
    SourceChoice file{options.file, std::nullopt};
    std::error_code ignored;
    if (options.file == "-") {
      file.format = SourceFormat::kNdjson;
    } else if (fs::is_directory(options.file, ignored)) {
      file.format = SourceFormat::kMarkdown;
    } else if (!is_web_url(options.file)) {
      FRESHET_TRY(opened, open_file(options.file, options.max_bytes));
      file.format = detect(*opened->text).value_or(SourceFormat::kNdjson);
    }
    found.push_back(std::move(file));
  }
  if (found.size() != 1)
    return fail(ErrorCode::kInvalid, "bad_option", {},
                "give one source: FILE, --feed, --sitemap, --wxr, --ghost, --markdown, --csv or --outbox");
  return found.front();
}

Result<int> import_source(const SourceChoice& source, const ImportOptions& options, const Target& target) {
  if (options.shift_to_now || !options.resume.empty())
    return fail(ErrorCode::kInvalid, "bad_option", {},
                "--shift-to-now and --resume are for NDJSON without --prune, --dry-run and --limit-age");
  if (source.location == "-" && options.prune && options.source.empty())
    return fail(ErrorCode::kInvalid, "bad_option", {}, "--prune of stdin needs --source NAME");
  FRESHET_TRY(rule, IdRule::parse(options.id));
  FRESHET_TRY(age, options.limit_age.empty() ? Result<seconds>(seconds(0)) : parse_age(options.limit_age));
  const UnixSeconds oldest = options.limit_age.empty() ? UnixSeconds::min() : wall_now() - *age;
  FRESHET_TRY(settings, load_settings(target));
  FRESHET_TRY(address, signed_http_address(target, *settings));
  const std::string folder = state_folder(options, target);
  if (options.prune && folder.empty())
    return fail(ErrorCode::kInvalid, "bad_option", {},
                "--prune needs --cache DIR, where the ids of the last import are kept");
  std::error_code ignored;
  const std::string name = !options.source.empty() ? options.source
                           : is_web_url(source.location)
                               ? place_of(source)
                               : fs::absolute(source.location, ignored).lexically_normal().string();
  // All pipes would share the state of "-".
  const bool has_state = !folder.empty() && (source.location != "-" || !options.source.empty());
  const std::string state_file = has_state ? state_path(folder, name, address->display_url) : std::string();
  std::optional<StateLock> lock;
  if (!state_file.empty() && !options.dry_run) {
    auto taken = StateLock::take(folder, kLockPatience);
    if (!taken && (options.prune || taken.error().reason != "state_file"))
      return tl::unexpected(taken.error());
    if (taken) lock.emplace(std::move(*taken));
  }
  SourceState state;
  state.source = name;
  if (!state_file.empty()) state = read_state(state_file, name, address->display_url);

  std::optional<HttpClient> http;
  if (!options.dry_run) http.emplace(*address, kBulkTimeout);
  SourceImport import(source, options, std::move(*rule), oldest, std::move(state), http ? &*http : nullptr);
  if (auto ok = import.read(source); !ok) return tl::unexpected(ok.error());
  Result<std::set<std::string>> elsewhere;
  if (options.prune) elsewhere = ids_of_other_sources(state_file, address->display_url);
  if (auto ok = import.prune(elsewhere); !ok) return tl::unexpected(ok.error());
  const int status = import.finish();
  if (options.dry_run || state_file.empty()) return status;
  const auto written = write_state(state_file, import.state());
  if (written) return status;
  if (options.prune) return tl::unexpected(written.error());
  ctl::print(stderr, "the next import reads everything again ({}); choose another folder with --cache\n",
             written.error().detail);
  return status;
}

}  // namespace freshet::ctl
