// libFuzzer: no NDJSON body crashes the parsers of items and interactions, each line is reported
// once, and accepted items are within bounds.
#include <set>
#include <string>

#include "core/base/json.h"
#include "core/base/utf8.h"
#include "fcgi/handlers/ndjson.h"
#include "fcgi/handlers/parse_hot.h"
#include "fcgi/handlers/parse_readers.h"
#include "tests/fuzz/fuzz.h"

namespace {

using namespace freshet;
using fuzz::require;

const UnixSeconds kNow{seconds{1'700'000'000}};

void check(const items::Item& item) {
  require(ItemId::parse(item.id.view(), "id").has_value());
  for (const std::string* text : {&item.title, &item.text, &item.url, &item.author})
    require(utf8::is_valid(*text));
  require(std::set(item.tags.begin(), item.tags.end()).size() == item.tags.size());
  require(!item.update_time || *item.update_time <= kNow);
  require(!item.expires_at || *item.expires_at > item.published_at);
  require(!item.weight || (*item.weight >= 0 && *item.weight <= items::kMaxWeight));
  require(utf8::is_valid(item.section) && utf8::length(item.section) <= 64);
  // Reads the URL as browsers do: without leading spaces, tabs and line ends.
  std::string read;
  for (const char c : item.url) {
    const bool is_excluded_from_backup =
        c == '\t' || c == '\n' || c == '\r' || (read.empty() && c > '\0' && c <= ' ');
    if (!is_excluded_from_backup) read += static_cast<char>(c >= 'A' && c <= 'Z' ? c + 32 : c);
  }
  require(!read.starts_with("javascript:") && !read.starts_with("data:"));
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* bytes, std::size_t size) {
  const std::string_view body(reinterpret_cast<const char*>(bytes), size);
  handlers::NdjsonReader lines(body);
  json::Document document;
  std::vector<handlers::RejectedLine> rejected;
  std::size_t accepted = 0, before = 0;
  while (auto line = lines.next()) {
    require(line->number > before);
    before = line->number;
    std::string again = line->text;
    const auto root = document.parse(line->text).and_then([&] { return json::root_object(document); });
    auto id = root.and_then([](json::Value object) { return json::required_id<ItemId>(object, "id"); });
    auto item = id.and_then([&](const ItemId& known) { return handlers::parse_item(*root, known, kNow); });
    if (item) {
      check(*item);
      ++accepted;
    } else {
      rejected.push_back({line->number, item.error()});
    }
    json::Document other;
    const auto event = other.parse(again).and_then([&] { return json::root_object(other); });
    if (!event) continue;
    static_cast<void>(handlers::parse_interaction(*event, kNow));
    static_cast<void>(handlers::parse_dismissal(*event));
    static_cast<void>(handlers::parse_history(*event));
  }
  require(before <= static_cast<std::size_t>(std::count(body.begin(), body.end(), '\n')) + 1);
  std::string reply = handlers::ndjson_reply(accepted, rejected, {});
  require(document.parse(reply).has_value());
  return 0;
}
