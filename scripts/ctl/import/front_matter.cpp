#include "scripts/ctl/import/front_matter.h"

#include <yaml-cpp/yaml.h>

#include <toml++/toml.h>
#include <algorithm>
#include <optional>
#include <sstream>

#include "core/base/json.h"
#include "scripts/ctl/import/source_text.h"

namespace freshet::ctl {
namespace {

constexpr std::size_t kMaxBytes = 64UL * 1024;
constexpr std::size_t kMaxValues = 200;      // of a name; items have at most 100 tags
constexpr std::size_t kMaxVisited = 20'000;  // values and members, repetitions by aliases included
constexpr int kMaxTableDepth = 3;            // permalinks.page

tl::unexpected<Error> bad(std::string detail) {
  return fail(ErrorCode::kInvalid, "bad_front_matter", {}, std::move(detail));
}

struct TooManyValues {};

// Bounds the work for a text: aliases can repeat values, also within themselves.
class Budget {
 public:
  // Throws TooManyValues.
  void spend(std::size_t values) {
    if (values > left_) throw TooManyValues();
    left_ -= values;
  }

 private:
  std::size_t left_ = kMaxVisited;
};

std::string scalar(const YAML::Node& node) { return node.IsScalar() ? node.Scalar() : ""; }

// A value, or the name of a value with members.
std::string name_of(const YAML::Node& node, Budget& budget) {
  budget.spend(1);
  if (!node.IsMap()) return scalar(node);
  budget.spend(node.size());
  for (const char* const name : {"name", "title"}) {
    if (const YAML::Node named = node[name]) return scalar(named);
  }
  return {};
}

void add_yaml(FrontMatter& out, const std::string& name, const YAML::Node& value, Budget& budget) {
  if (!value.IsSequence()) return out.add(name, name_of(value, budget), false);
  for (const YAML::Node& each : value) {
    if (!each.IsSequence()) {
      out.add(name, name_of(each, budget), true);
      continue;
    }
    budget.spend(1 + each.size());
    for (const YAML::Node& nested : each) out.add(name, scalar(nested), true);
  }
}

// The prefix of the names in a table that is read like the root: Zola's tags and Hugo's permalinks,
// whose table `page` is one too. nullopt for another name.
std::optional<std::string_view> prefix_in(std::string_view table) {
  if (table == "taxonomies") return "";
  if (table == "permalinks" || table == "permalinks.page") return "permalinks.";
  return std::nullopt;
}

void add_members(FrontMatter& out, std::string_view prefix, const YAML::Node& map, int depth,
                 Budget& budget) {
  for (const auto& pair : map) {
    budget.spend(1);
    const std::string name = std::string(prefix) + scalar(pair.first);
    const auto nested = prefix_in(name);
    if (nested && pair.second.IsMap() && depth < kMaxTableDepth)
      add_members(out, *nested, pair.second, depth + 1, budget);
    else
      add_yaml(out, name, pair.second, budget);
  }
}

std::string scalar(const toml::node& node) {
  if (const auto* text = node.as_string()) return text->get();
  if (node.is_array() || node.is_table()) return {};
  std::ostringstream out;
  node.visit([&](const auto& value) { out << value; });
  return std::move(out).str();
}

void add_toml(FrontMatter& out, std::string_view name, const toml::node& value) {
  if (const auto* table = value.as_table()) {
    const toml::node* const named = table->get("name");
    if (named != nullptr) out.add(name, scalar(*named), false);
  } else if (const auto* values = value.as_array()) {
    for (const toml::node& each : *values) out.add(name, scalar(each), true);
  } else {
    out.add(name, scalar(value), false);
  }
}

void add_members(FrontMatter& out, std::string_view prefix, const toml::table& table) {
  for (const auto& [key, value] : table) {
    const std::string name = std::string(prefix) + std::string(key.str());
    const auto nested = prefix_in(name);
    if (nested && value.is_table())
      add_members(out, *nested, *value.as_table());
    else
      add_toml(out, name, value);
  }
}

std::string scalar(json::Value value) {
  if (value.is_string()) return std::string(value.text());
  if (value.type() == json::Type::kBool) return value.boolean() ? "true" : "false";
  const auto number = value.integer();
  return number ? std::to_string(*number) : "";
}

Result<FrontMatter> parse_json(std::string_view front) {
  std::string text(front);
  json::Document document;
  if (auto ok = document.parse(text); !ok)
    return bad("has front matter that is not valid JSON: " + ok.error().detail);
  FrontMatter out;
  for (const auto& [name, value] : document.root().members()) {
    if (value.is_object()) out.add(name, scalar(value["name"]), false);
    for (const json::Value each : value.elements())
      out.add(name, scalar(each.is_object() ? each["name"] : each), true);
    if (!value.is_array()) out.add(name, scalar(value), false);
  }
  return out;
}

std::string_view take_line(std::string_view& text) {
  const std::size_t end = std::min(text.find('\n'), text.size());
  const std::string_view line = text.substr(0, end);
  text.remove_prefix(std::min(end + 1, text.size()));
  return line;
}

// The size of the object at the beginning; npos if it does not end.
std::size_t object_size(std::string_view text) {
  int depth = 0;
  bool in_string = false;
  for (std::size_t i = 0; i < text.size(); ++i) {
    const char c = text[i];
    if (in_string && c == '\\') {
      ++i;
    } else if (c == '"') {
      in_string = !in_string;
    } else if (!in_string && c == '{') {
      ++depth;
    } else if (!in_string && c == '}' && --depth == 0) {
      return i + 1;
    }
  }
  return std::string_view::npos;
}

constexpr std::string_view kUnended = "has front matter that does not end within 64 KiB";

// The text up to a line that is `end`, which `rest` then follows.
Result<std::string_view> take_block(std::string_view& rest, std::string_view end) {
  const std::string_view text = rest;
  while (!rest.empty() && text.size() - rest.size() <= kMaxBytes) {
    const std::string_view line = take_line(rest);
    if (trimmed(line) == end || (end == "---" && trimmed(line) == "..."))
      return text.substr(0, static_cast<std::size_t>(line.data() - text.data()));
  }
  return bad(std::string(kUnended));
}

}  // namespace

std::string_view FrontMatter::first(std::initializer_list<std::string_view> names) const {
  const auto& values = all(names);
  return values.empty() ? std::string_view() : values.front();
}

const std::vector<std::string>& FrontMatter::all(std::initializer_list<std::string_view> names) const {
  return find(names).values;
}

bool FrontMatter::is_list(std::initializer_list<std::string_view> names) const { return find(names).is_list; }

const FrontMatter::Values& FrontMatter::find(std::initializer_list<std::string_view> names) const {
  static const Values kNone;
  for (const std::string_view name : names) {
    if (const auto found = values_.find(name); found != values_.end()) return found->second;
  }
  return kNone;
}

bool FrontMatter::is_true(std::string_view name) const {
  const std::string value = to_lower(first({name}));
  return value == "true" || value == "yes" || value == "on" || value == "1";
}

bool FrontMatter::is_false(std::string_view name) const {
  const std::string value = to_lower(first({name}));
  return value == "false" || value == "no" || value == "off" || value == "0";
}

void FrontMatter::add(std::string_view name, std::string value, bool in_list) {
  if (value.empty()) return;
  Values& values = values_[to_lower(name)];
  values.is_list |= in_list;
  if (values.values.size() < kMaxValues) values.values.push_back(std::move(value));
}

Result<FrontMatter> parse_yaml(std::string_view text) {
  try {
    const YAML::Node root = YAML::Load(std::string(text));
    FrontMatter out;
    if (root.IsNull()) return out;
    if (!root.IsMap()) return bad("has front matter that is not a list of names and values");
    Budget budget;
    add_members(out, "", root, 1, budget);
    return out;
  } catch (const TooManyValues&) {
    return bad("has front matter with more than " + std::to_string(kMaxVisited) + " values");
  } catch (const YAML::Exception& error) {
    // The line of the file: front matter begins in its second.
    const std::string line = error.mark.is_null() ? "" : "line " + std::to_string(error.mark.line + 2) + ": ";
    return bad("has front matter that is not valid YAML: " + line + one_line(error.msg));
  }
}

Result<FrontMatter> parse_toml(std::string_view text) {
  try {
    const toml::table root = toml::parse(text);
    FrontMatter out;
    add_members(out, "", root);
    return out;
  } catch (const toml::parse_error& error) {
    return bad("has front matter that is not valid TOML: line " +
               std::to_string(error.source().begin.line + 1) + ": " + one_line(error.description()));
  }
}

Result<MarkdownFile> split_front_matter(std::string_view text) {
  if (text.starts_with("\xEF\xBB\xBF")) text.remove_prefix(3);
  MarkdownFile out{.body = text};
  std::string_view rest = text;
  const std::string_view first = trimmed(take_line(rest));
  if (first == "---" || first == "+++") {
    FRESHET_TRY(block, take_block(rest, first));
    FRESHET_TRY(values, first == "---" ? parse_yaml(*block) : parse_toml(*block));
    out = {std::move(*values), rest};
  } else if (first.starts_with('{') && !first.starts_with("{{") && !first.starts_with("{%")) {
    const std::string_view object = text.substr(text.find('{'), kMaxBytes);
    const std::size_t size = object_size(object);
    if (size == std::string_view::npos) return bad(std::string(kUnended));
    FRESHET_TRY(values, parse_json(object.substr(0, size)));
    out = {std::move(*values), text.substr(text.find('{') + size)};
  }
  return out;
}

}  // namespace freshet::ctl
