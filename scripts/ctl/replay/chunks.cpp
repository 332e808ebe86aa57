#include "scripts/ctl/replay/chunks.h"

#include <fmt/format.h>

#include <algorithm>

#include "core/base/json.h"

namespace freshet::ctl {
namespace {

void copy_value(json::Value value, json::Writer& out) {
  switch (value.type()) {
    case json::Type::kObject:
      out.begin_object();
      for (const auto& [name, member] : value.members()) {
        out.key(name);
        copy_value(member, out);
      }
      out.end_object();
      break;
    case json::Type::kArray:
      out.begin_array();
      for (const json::Value& each : value.elements()) copy_value(each, out);
      out.end_array();
      break;
    case json::Type::kString:
      out.string(value.text());
      break;
    case json::Type::kBool:
      out.boolean(value.boolean());
      break;
    case json::Type::kInteger:
      out.integer(*value.integer());
      break;
    case json::Type::kUnsigned:
    case json::Type::kDouble:
      out.number(*value.number());
      break;
    case json::Type::kNull:
    case json::Type::kMissing:
      out.null();
  }
}

}  // namespace

Chunks split_into_chunks(std::string_view ndjson, std::size_t max_lines, std::size_t max_bytes) {
  Chunks out;
  const std::size_t bytes = ndjson.size();
  for (std::size_t number = 1; !ndjson.empty(); ++number) {
    const std::size_t end = std::min(ndjson.find('\n'), ndjson.size());
    std::string_view line = ndjson.substr(0, end);
    ndjson.remove_prefix(std::min(end + 1, ndjson.size()));
    if (number == 1 && line.starts_with("\xEF\xBB\xBF")) line.remove_prefix(3);
    if (line.find_first_not_of(" \t\r") == std::string_view::npos) continue;
    if (line.size() + 1 > max_bytes) {
      out.too_long.push_back(number);
      continue;
    }
    if (out.chunks.empty() || out.chunks.back().lines.size() == max_lines ||
        out.chunks.back().body.size() + line.size() + 1 > max_bytes) {
      out.chunks.emplace_back();
    }
    out.chunks.back().body.append(line).append("\n");
    out.chunks.back().lines.push_back(number);
    out.chunks.back().end_offset = bytes - ndjson.size();
  }
  return out;
}

Result<std::string> shift_item(std::string_view line, seconds shift) {
  std::string text(line);
  json::Document document;
  if (auto ok = document.parse(text); !ok) return tl::unexpected(ok.error());
  const json::Value item = document.root();
  if (!item.is_object()) return fail(ErrorCode::kInvalid, "bad_json", {}, "not an object");
  std::string out;
  json::Writer writer(out);
  writer.begin_object();
  for (const auto& [name, value] : item.members()) {
    writer.key(name);
    if (name == "id") {
      auto id = json::id_text(value, name);  // an integer above 2^63 must not pass through a double
      if (!id) return tl::unexpected(id.error());
      writer.string(*id);
    } else if (name == "published_at" || name == "update_time" || name == "expires_at") {
      FRESHET_TRY(at, json::optional_time(item, name));
      if (!*at) {
        writer.null();
        continue;
      }
      FRESHET_TRY(moved, from_unix((**at + shift).time_since_epoch().count(), name));
      writer.integer(moved->time_since_epoch().count());
    } else {
      copy_value(value, writer);
    }
  }
  writer.end_object();
  return out;
}

Result<void> shift_chunks(std::vector<Chunk>& chunks, seconds shift) {
  for (Chunk& chunk : chunks) {
    std::string moved;
    moved.reserve(chunk.body.size());
    std::string_view rest = chunk.body;
    for (const std::size_t number : chunk.lines) {
      const std::size_t end = rest.find('\n');
      auto item = shift_item(rest.substr(0, end), shift);
      if (!item) {
        return fail(ErrorCode::kInvalid, "bad_item", {},
                    fmt::format("line {}: {} {}", number, item.error().member, item.error().detail));
      }
      moved.append(*item).append("\n");
      rest.remove_prefix(end + 1);
    }
    chunk.body = std::move(moved);
  }
  return {};
}

}  // namespace freshet::ctl
