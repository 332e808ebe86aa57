// The id of an entry of a source. The tag has the same rule for paths;
// tests/ctl/import/item_paths.json has vectors for the importer, the tag and the list script.
#pragma once

#include <memory>
#include <optional>
#include <string>

#include "scripts/ctl/import/source_item.h"

namespace re2 {
class RE2;
}

namespace freshet::ctl {

// The path of an http or https URL: percent-decoded, in Normalization Form C, without trailing
// slashes except for "/". Stays encoded if it is not UTF-8 or has a broken escape, as in the
// JavaScript `try { decodeURIComponent(new URL(url).pathname) }`. nullopt for another URL.
std::optional<std::string> path_id(const std::string& url);

class IdRule {
 public:
  // "guid", "url", "path", "slug", a table's column, or a regular expression (RE2), whose first
  // group is the id; it is searched for in the URL. A column is a name of letters, digits, spaces,
  // "-" and "_". Empty: the column "id" if the entry has it, else "path". Errors: kInvalid
  // "bad_option".
  static Result<IdRule> parse(const std::string& text);

  // Errors: kInvalid "no_id" if the entry has none under this rule, with a sentence without a full
  // stop in the detail.
  Result<std::string> id_of(const SourceItem& item) const;
  const std::string& text() const { return text_; }
  // The table's column that has the ids; empty for another rule.
  const std::string& column() const { return column_; }

 private:
  std::string text_, column_;
  bool is_default_ = false;
  std::shared_ptr<const re2::RE2> pattern_;  // null for a named rule
};

}  // namespace freshet::ctl
