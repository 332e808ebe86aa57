#include "scripts/ctl/import/csv_reader.h"

#include <algorithm>
#include <array>
#include <optional>
#include <string>
#include <vector>

#include "core/base/utf8.h"
#include "scripts/ctl/import/source_dates.h"
#include "scripts/ctl/import/source_text.h"
#include "scripts/ctl/replay/csv.h"

namespace freshet::ctl {
namespace {

constexpr std::size_t kMaxRowBytes = 4UL * 1024 * 1024;
constexpr std::string_view kByteOrderMark = "\xEF\xBB\xBF";

enum class Column : std::uint8_t {
  kIgnored,
  kId,
  kTitle,
  kText,
  kHtml,
  kMarkdown,
  kSummary,
  kFormat,
  kUrl,
  kSlug,
  kTags,
  kCategories,
  kSection,
  kAuthor,
  kAuthorId,
  kLanguage,
  kPublished,
  kUpdated,
  kExpires,
  kHidden,
  kStatus
};

struct Name {
  std::string_view name;  // in lower case, letters and digits only
  Column column;
};
constexpr std::array kNames{Name{"id", Column::kId},
                            Name{"guid", Column::kId},
                            Name{"itemid", Column::kId},
                            Name{"postid", Column::kId},
                            Name{"articleid", Column::kId},
                            Name{"uuid", Column::kId},
                            Name{"title", Column::kTitle},
                            Name{"headline", Column::kTitle},
                            Name{"name", Column::kTitle},
                            Name{"posttitle", Column::kTitle},
                            Name{"text", Column::kText},
                            Name{"content", Column::kText},
                            Name{"body", Column::kText},
                            Name{"postcontent", Column::kText},
                            Name{"html", Column::kHtml},
                            Name{"contenthtml", Column::kHtml},
                            Name{"bodyhtml", Column::kHtml},
                            Name{"markdown", Column::kMarkdown},
                            Name{"description", Column::kSummary},
                            Name{"summary", Column::kSummary},
                            Name{"excerpt", Column::kSummary},
                            Name{"textformat", Column::kFormat},
                            Name{"format", Column::kFormat},
                            Name{"url", Column::kUrl},
                            Name{"link", Column::kUrl},
                            Name{"permalink", Column::kUrl},
                            Name{"loc", Column::kUrl},
                            Name{"slug", Column::kSlug},
                            Name{"postname", Column::kSlug},
                            Name{"tags", Column::kTags},
                            Name{"tag", Column::kTags},
                            Name{"keywords", Column::kTags},
                            Name{"labels", Column::kTags},
                            Name{"categories", Column::kCategories},
                            Name{"category", Column::kCategories},
                            Name{"section", Column::kSection},
                            Name{"department", Column::kSection},
                            Name{"author", Column::kAuthor},
                            Name{"authorname", Column::kAuthor},
                            Name{"byline", Column::kAuthor},
                            Name{"creator", Column::kAuthor},
                            Name{"authorid", Column::kAuthorId},
                            Name{"language", Column::kLanguage},
                            Name{"lang", Column::kLanguage},
                            Name{"locale", Column::kLanguage},
                            Name{"publishedat", Column::kPublished},
                            Name{"published", Column::kPublished},
                            Name{"publishdate", Column::kPublished},
                            Name{"publicationdate", Column::kPublished},
                            Name{"pubdate", Column::kPublished},
                            Name{"datepublished", Column::kPublished},
                            Name{"date", Column::kPublished},
                            Name{"postdate", Column::kPublished},
                            Name{"createdat", Column::kPublished},
                            Name{"created", Column::kPublished},
                            Name{"timestamp", Column::kPublished},
                            Name{"updatetime", Column::kUpdated},
                            Name{"updatedat", Column::kUpdated},
                            Name{"updated", Column::kUpdated},
                            Name{"modified", Column::kUpdated},
                            Name{"modifiedat", Column::kUpdated},
                            Name{"datemodified", Column::kUpdated},
                            Name{"lastmod", Column::kUpdated},
                            Name{"expiresat", Column::kExpires},
                            Name{"expires", Column::kExpires},
                            Name{"hidden", Column::kHidden},
                            Name{"draft", Column::kHidden},
                            Name{"private", Column::kHidden},
                            Name{"status", Column::kStatus},
                            Name{"poststatus", Column::kStatus}};

// In the form of kNames; other letters stay.
std::string plain_name(std::string_view header) {
  std::string name = to_lower(header);
  std::erase_if(name, [](char c) {
    const bool is_plain = (c >= 'a' && c <= 'z') || (c >= '0' && c <= '9');
    return !is_plain && static_cast<unsigned char>(c) < 0x80;
  });
  return name;
}

Column column_of(std::string_view header) {
  const std::string name = plain_name(header);
  const auto* const known = std::ranges::find(kNames, name, &Name::name);
  return known == kNames.end() ? Column::kIgnored : known->column;
}

// The most frequent of those that separate columns.
char separator_of(std::string_view header) {
  constexpr std::array kSeparators{',', ';', '\t'};
  return *std::ranges::max_element(kSeparators, {}, [&](char c) { return std::ranges::count(header, c); });
}

std::vector<std::string> split_tags(std::string_view text) {
  const char separator = text.find('|') != std::string_view::npos   ? '|'
                         : text.find(';') != std::string_view::npos ? ';'
                                                                    : ',';
  return split_list(text, {&separator, 1});
}

bool is_true(std::string_view text) {
  constexpr std::array<std::string_view, 5> kFalse{"", "0", "false", "no", "n"};
  return std::ranges::find(kFalse, to_lower(text)) == kFalse.end();
}

bool is_hidden_status(std::string_view status) {
  constexpr std::array<std::string_view, 8> kHidden{"draft",       "pending",  "private", "hidden",
                                                    "unpublished", "archived", "deleted", "trash"};
  return std::ranges::find(kHidden, to_lower(status)) != kHidden.end();
}

void set_text(SourceItem& item, std::string_view text, items::TextFormat format) {
  if (text.empty() || !item.text.empty()) return;
  item.text = text;
  item.text_format =
      format == items::TextFormat::kPlain && looks_like_html(text) ? items::TextFormat::kHtml : format;
}

void append(std::vector<std::string>& to, std::vector<std::string> from) {
  std::ranges::move(from, std::back_inserter(to));
}

// The fields of a row in the order of the columns; those that the row lacks are empty.
class Row {
 public:
  Row(const std::vector<Column>& columns, const std::vector<std::string>& fields)
      : columns_(columns), fields_(fields) {}

  // The first field of the column that is not empty.
  std::string_view operator[](Column column) const {
    for (std::size_t i = 0; i < columns_.size() && i < fields_.size(); ++i) {
      if (columns_[i] != column) continue;
      if (const auto text = trimmed(fields_[i]); !text.empty()) return text;
    }
    return {};
  }
  std::optional<UnixSeconds> date(Column column) const { return parse_source_date((*this)[column]); }
  // Returns whether one of the fields of the column is true.
  bool any(Column column) const {
    for (std::size_t i = 0; i < columns_.size() && i < fields_.size(); ++i) {
      if (columns_[i] == column && is_true(trimmed(fields_[i]))) return true;
    }
    return false;
  }

 private:
  const std::vector<Column>& columns_;
  const std::vector<std::string>& fields_;
};

SourceItem item_of(const Row& row, std::string position) {
  SourceItem item;
  item.position = std::move(position);
  item.guid = row[Column::kId];
  item.title = row[Column::kTitle];
  item.url = resolve_url({}, row[Column::kUrl]);
  item.slug = row[Column::kSlug];
  set_text(item, row[Column::kHtml], items::TextFormat::kHtml);
  set_text(item, row[Column::kMarkdown], items::TextFormat::kMarkdown);
  set_text(item, row[Column::kText], items::TextFormat::kPlain);
  set_text(item, row[Column::kSummary], items::TextFormat::kPlain);
  if (const auto format = items::text_format_of(to_lower(row[Column::kFormat]))) item.text_format = *format;
  item.author = row[Column::kAuthor];
  item.author_id = row[Column::kAuthorId];
  item.language = row[Column::kLanguage];
  item.section = row[Column::kSection];
  append(item.tags, split_tags(row[Column::kTags]));
  std::vector<std::string> categories = split_tags(row[Column::kCategories]);
  if (item.section.empty() && !categories.empty()) item.section = categories.front();
  append(item.tags, std::move(categories));
  item.published_at = row.date(Column::kPublished);
  item.updated_at = row.date(Column::kUpdated);
  item.expires_at = row.date(Column::kExpires);
  item.hidden = row.any(Column::kHidden) || is_hidden_status(row[Column::kStatus]);
  return item;
}

tl::unexpected<Error> bad_csv(std::string detail) {
  return fail(ErrorCode::kInvalid, "bad_csv", {}, std::move(detail));
}

// Reads the text of one row: lines until the quotes are balanced.
class RowReader {
 public:
  explicit RowReader(std::istream& in) : in_(in) {}

  // False at the end. Skips empty lines.
  Result<bool> next(std::string& row) {
    row.clear();
    first_line_ = line_ + 1;
    std::string line;
    std::ptrdiff_t quotes = 0;
    while (read_line(line)) {
      ++line_;
      if (line.ends_with('\r')) line.pop_back();
      quotes += std::ranges::count(line, '"');
      row += line;
      if (row.size() > kMaxRowBytes)
        return bad_csv(position() + " is longer than 4 MiB; is a quote missing?");
      if (quotes % 2 != 0) {
        row += '\n';
      } else if (trimmed(row).empty()) {
        row.clear();
        first_line_ = line_ + 1;
      } else {
        return true;
      }
    }
    if (row.empty()) return false;
    return bad_csv(position() + ": a quoted field does not end");
  }
  std::string position() const { return "line " + std::to_string(first_line_); }

 private:
  // Up to the limit of a row.
  bool read_line(std::string& line) {
    line.clear();
    int c = in_.get();
    const bool is_end = c == std::char_traits<char>::eof();
    for (; c != '\n' && c != std::char_traits<char>::eof() && line.size() <= kMaxRowBytes; c = in_.get())
      line += static_cast<char>(c);
    return !is_end;
  }

  std::istream& in_;
  std::size_t line_ = 0, first_line_ = 1;
};

Result<std::vector<std::string>> fields_of(std::string_view row, char separator) {
  std::vector<std::string> fields;
  CsvReader reader(row, separator);
  auto more = reader.next(fields);
  if (more) return fields;
  // Its own position is within this row.
  const std::string& detail = more.error().detail;
  return bad_csv(detail.substr(detail.find(": ") + 2));
}

std::vector<std::string> names_of(std::string_view header) {
  return fields_of(header, separator_of(header)).value_or(std::vector<std::string>());
}

std::vector<Column> columns_of(const std::vector<std::string>& names) {
  std::vector<Column> columns;
  std::ranges::transform(names, std::back_inserter(columns), column_of);
  return columns;
}

struct Header {
  std::vector<Column> columns;
  char separator;
  std::size_t id_column;  // columns.size() if there is none
};

bool are_usable(const std::vector<Column>& columns) {
  return std::ranges::any_of(columns, [](Column column) {
    return column == Column::kTitle || column == Column::kText || column == Column::kHtml ||
           column == Column::kUrl;
  });
}

// Reports why a row is not read, or delivers its item. False if the sink wants no more.
bool read_row(std::string_view text, const Header& header, std::string position, const SourceSink& sink) {
  const auto skip = [&](std::string_view reason) {
    sink.skipped(position, reason);
    return true;
  };
  if (!utf8::is_valid(text)) return skip("is not UTF-8");
  const auto fields = fields_of(text, header.separator);
  if (!fields) return skip(fields.error().detail);
  if (fields->size() > header.columns.size())
    return skip("has " + std::to_string(fields->size()) + " fields, the header has " +
                std::to_string(header.columns.size()));
  SourceItem item = item_of(Row(header.columns, *fields), std::move(position));
  if (header.id_column < fields->size()) item.table_id = trimmed((*fields)[header.id_column]);
  return deliver(std::move(item), sink);
}

}  // namespace

bool is_csv_header(std::string_view line) {
  const std::vector<Column> columns = columns_of(names_of(line));
  const auto known = std::ranges::count_if(columns, [](Column column) { return column != Column::kIgnored; });
  return known >= 2 && (are_usable(columns) || std::ranges::find(columns, Column::kId) != columns.end());
}

Result<void> read_csv_items(std::istream& in, const SourceSink& sink, std::string_view id_column) {
  RowReader rows(in);
  std::string row;
  FRESHET_TRY(has_header, rows.next(row));
  if (!*has_header) return bad_csv("is empty");
  if (!utf8::is_valid(row)) return bad_csv("is not text in UTF-8");
  if (row.starts_with(kByteOrderMark)) row.erase(0, kByteOrderMark.size());
  const std::vector<std::string> names = names_of(row);
  const auto id = std::ranges::find(names, plain_name(id_column.empty() ? "id" : id_column), plain_name);
  const Header header{columns_of(names), separator_of(row), static_cast<std::size_t>(id - names.begin())};
  if (!are_usable(header.columns))
    return bad_csv("has no header row that names a column \"title\", \"text\" or \"url\"");
  if (!id_column.empty() && id == names.end())
    return bad_csv("has no column \"" + std::string(id_column) + "\", which --id names");
  while (true) {
    FRESHET_TRY(more, rows.next(row));
    if (!*more || !read_row(row, header, rows.position(), sink)) return {};
  }
}

}  // namespace freshet::ctl
