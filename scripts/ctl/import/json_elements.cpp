#include "scripts/ctl/import/json_elements.h"

#include <algorithm>
#include <map>
#include <string>
#include <vector>

namespace freshet::ctl {
namespace {

constexpr std::size_t kMaxElementBytes = 16UL * 1024 * 1024;
constexpr std::size_t kMaxDepth = 64;
constexpr json::Limits kLimits{.max_depth = kMaxDepth, .max_nodes = 1'000'000};
constexpr std::size_t kMaxNameBytes = 256;  // longer names are not those that are searched

bool is_blank(int c) { return c == ' ' || c == '\t' || c == '\n' || c == '\r'; }

class Elements {
 public:
  Elements(std::istream& in, std::span<const std::string_view> members,
           const std::function<bool(const JsonElement&)>& visit)
      : in_(*in.rdbuf()), members_(members), visit_(visit) {}

  Result<void> read() {
    skip_byte_order_mark();
    skip_blanks();
    if (in_.sgetc() != '{') return bad("does not start with {");
    std::vector<char> open;  // { or [ of each open container
    do {
      const int c = in_.sbumpc();
      if (c == kEnd) return bad("ends early");
      if (c == '{' || c == '[') {
        open.push_back(static_cast<char>(c));
        if (open.size() > kMaxDepth) return bad("is nested too deeply");
      } else if (c == '}' || c == ']') {
        open.pop_back();
      } else if (c == '"') {
        const std::string name = read_name();
        skip_blanks();
        if (open.back() != '{' || in_.sgetc() != ':') continue;
        in_.sbumpc();
        if (auto more = visit_member(name); !more || !*more) return more.map([](bool) {});
      }
    } while (!open.empty());
    return {};
  }

 private:
  static constexpr int kEnd = std::char_traits<char>::eof();

  static tl::unexpected<Error> bad(std::string detail) {
    return fail(ErrorCode::kInvalid, "bad_json", {}, std::move(detail));
  }

  void skip_byte_order_mark() {
    for (const char c : {'\xEF', '\xBB', '\xBF'}) {
      if (in_.sgetc() == static_cast<unsigned char>(c)) in_.sbumpc();
    }
  }
  void skip_blanks() {
    while (is_blank(in_.sgetc())) in_.sbumpc();
  }

  // The string after its opening quote, not unescaped.
  std::string read_name() {
    std::string name;
    for (int c = in_.sbumpc(); c != '"' && c != kEnd; c = in_.sbumpc()) {
      if (name.size() < kMaxNameBytes) name += static_cast<char>(c);
      if (c == '\\') in_.sbumpc();
    }
    return name;
  }

  Result<bool> visit_member(const std::string& name) {
    const auto member = std::ranges::find(members_, name);
    if (member == members_.end()) return true;
    skip_blanks();
    if (in_.sgetc() != '[') return visit_value(*member);
    in_.sbumpc();
    while (true) {
      while (is_blank(in_.sgetc()) || in_.sgetc() == ',') in_.sbumpc();
      if (in_.sgetc() == ']') break;
      auto more = visit_value(*member);
      if (!more || !*more) return more;
    }
    in_.sbumpc();
    return true;
  }

  Result<bool> visit_value(std::string_view member) {
    JsonElement element{.member = member, .number = ++numbers_[member]};
    std::string text;
    bool complete = false;
    copy_value(text, complete);
    if (!complete)
      return bad("ends early, in entry " + std::to_string(element.number) + " of \"" + std::string(member) +
                 "\"");
    json::Document document;
    std::string error;
    if (text.size() > kMaxElementBytes) {
      element.error = "is larger than 16 MiB";
    } else if (auto ok = document.parse(text, kLimits); !ok) {
      error = "is not valid JSON: " + ok.error().detail;
      element.error = error;
    } else {
      element.value = document.root();
    }
    return visit_(element);
  }

  // Copies a value up to the limit, and skips the rest of it.
  void copy_value(std::string& text, bool& complete) {
    std::size_t depth = 0;
    bool in_string = false;
    for (int c = in_.sgetc(); c != kEnd; c = in_.snextc()) {
      if (!in_string && depth == 0 && !text.empty() && (c == ',' || c == '}' || c == ']')) {
        complete = true;  // the end of a number or a literal
        return;
      }
      if (text.size() <= kMaxElementBytes) text += static_cast<char>(c);
      if (in_string && c == '\\') {
        c = in_.snextc();
        if (c == kEnd) return;
        if (text.size() <= kMaxElementBytes) text += static_cast<char>(c);
      } else if (c == '"') {
        in_string = !in_string;
      } else if (!in_string && (c == '{' || c == '[')) {
        ++depth;
      } else if (!in_string && (c == '}' || c == ']')) {
        complete = depth <= 1;
        if (complete) {
          in_.sbumpc();
          return;
        }
        --depth;
      }
    }
  }

  std::streambuf& in_;
  std::span<const std::string_view> members_;
  const std::function<bool(const JsonElement&)>& visit_;
  std::map<std::string_view, std::size_t> numbers_;
};

}  // namespace

Result<void> read_json_elements(std::istream& in, std::span<const std::string_view> members,
                                const std::function<bool(const JsonElement&)>& visit) {
  return Elements(in, members, visit).read();
}

std::string json_text(json::Value object, std::string_view member) {
  const json::Value value = object[member];
  if (value.is_string()) return std::string(value.text());
  const auto number = value.integer();
  return number ? std::to_string(*number) : "";
}

}  // namespace freshet::ctl
