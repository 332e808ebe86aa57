// The front matter of a Markdown file: YAML between lines of ---, TOML between lines of +++, or a
// JSON object at its beginning.
#pragma once

#include <map>
#include <string>
#include <string_view>
#include <vector>

#include "core/base/result.h"

namespace freshet::ctl {

// The values of each name, which is in lower case. A single value is a list of one. Of a nested map
// only `name` or `title` is read; nested lists are flattened. The members of `taxonomies` are read
// like those of the root, those of `permalinks` as "permalinks.posts".
class FrontMatter {
 public:
  // The first value of the first of `names` that has one; empty if none has.
  std::string_view first(std::initializer_list<std::string_view> names) const;
  // The values of the first of `names` that has any.
  const std::vector<std::string>& all(std::initializer_list<std::string_view> names) const;
  // Returns whether the values of the first of `names` that has any were a list.
  bool is_list(std::initializer_list<std::string_view> names) const;
  bool is_true(std::string_view name) const;
  bool is_false(std::string_view name) const;
  bool empty() const { return values_.empty(); }
  void add(std::string_view name, std::string value, bool in_list);

 private:
  struct Values {
    std::vector<std::string> values;
    bool is_list = false;
  };
  const Values& find(std::initializer_list<std::string_view> names) const;

  std::map<std::string, Values, std::less<>> values_;
};

struct MarkdownFile {
  FrontMatter front_matter;
  std::string_view body;  // a view of the text
};

// Front matter is at most 64 KiB. Errors: kInvalid "bad_front_matter".
Result<MarkdownFile> split_front_matter(std::string_view text);

// Parses text that is front matter only. YAML aliases are followed only as deep as FrontMatter
// reads, and what they repeat counts. Errors: kInvalid "bad_front_matter", with the line in the
// detail.
Result<FrontMatter> parse_yaml(std::string_view text);
Result<FrontMatter> parse_toml(std::string_view text);

}  // namespace freshet::ctl
