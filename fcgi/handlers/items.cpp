#include "fcgi/handlers/items.h"

#include <algorithm>

#include "core/base/json.h"
#include "fcgi/handlers/json_reply.h"
#include "fcgi/handlers/ndjson.h"
#include "fcgi/handlers/parse.h"
#include "fcgi/handlers/parse_hot.h"
#include "fcgi/handlers/read_body.h"

namespace freshet::handlers {

namespace {

Result<ItemId> path_id(const Call& call) { return ItemId::parse(call.match.parameters[0], "id"); }

Response ok() { return private_json("{\"ok\":true}"); }

constexpr std::size_t kChunk = 500;  // items per pipeline; the time budget is checked in between

struct ParsedItems {
  std::vector<items::Item> items;
  std::vector<RejectedLine> rejected;
  http::IgnoredMembers ignored;
};

ParsedItems parse_lines(std::string_view body, std::string_view known_members) {
  ParsedItems parsed;
  json::Document document;
  const UnixSeconds now = wall_now();
  NdjsonReader lines(body);
  while (auto line = lines.next()) {
    const auto root = read_object(document, line->text);
    auto id = root.and_then([](json::Value object) { return json::required_id<ItemId>(object, "id"); });
    auto item = id.and_then([&](const ItemId& item_id) { return parse_item(*root, item_id, now); });
    if (item) {
      http::count_ignored_members(*root, known_members, parsed.ignored);
      parsed.items.push_back(std::move(*item));
    } else {
      parsed.rejected.push_back({line->number, item.error(), id ? id->str() : ""});
    }
  }
  return parsed;
}

std::string render(const items::Item& item) {
  std::string out;
  json::Writer writer(out);
  writer.begin_object().key("id").string(item.id.view()).key("title").string(item.title);
  if (!item.text.empty()) writer.key("text").string(item.text);
  if (!item.url.empty()) writer.key("url").string(item.url);
  if (!item.author.empty()) writer.key("author").string(item.author);
  if (!item.author_id.empty()) writer.key("author_id").string(item.author_id);
  writer.key("tags").begin_array();
  for (const TagName& tag : item.tags) writer.string(tag.view());
  writer.end_array();
  writer.key("published_at").integer(item.published_at.time_since_epoch().count());
  if (item.update_time) writer.key("update_time").integer(item.update_time->time_since_epoch().count());
  writer.key("hidden").boolean(item.hidden);
  if (!item.section.empty()) writer.key("section").string(item.section);
  if (!item.language.empty()) writer.key("language").string(item.language);
  if (!item.story.empty()) writer.key("story").string(item.story.view());
  writer.key("text_format").string(items::name_of(item.text_format));
  if (item.expires_at) writer.key("expires_at").integer(unix_s(*item.expires_at));
  if (item.weight) writer.key("weight").number(*item.weight);
  writer.end_object();
  return out;
}

}  // namespace

Task<Result<Response>> put_item(Call& call) {
  FRESHET_CO_TRY(id, path_id(call));
  json::Document document;
  FRESHET_CO_TRY(body, read_body(call, document));
  FRESHET_CO_TRY(named, json::optional_id<ItemId>(*body, "id"));
  if (!named->empty() && *named != *id)
    co_return fail(ErrorCode::kInvalid, "bad_id", "id", "is not the id in the path");
  FRESHET_CO_TRY(item, parse_item(*body, *id, wall_now()));
  FRESHET_CO_TRY(written, co_await call.services.items.put(*item));
  co_return ok();
}

Task<Result<Response>> get_item(Call& call) {
  FRESHET_CO_TRY(id, path_id(call));
  FRESHET_CO_TRY(item, co_await call.services.items.get(*id));
  co_return private_json(render(*item));
}

Task<Result<Response>> delete_item(Call& call) {
  FRESHET_CO_TRY(id, path_id(call));
  FRESHET_CO_TRY(removed, co_await call.services.items.remove(*id));
  co_return ok();
}

Task<Result<Response>> post_items(Call& call) {
  const ParsedItems parsed = parse_lines(call.request.body, call.known_members);
  const auto deadline = std::chrono::steady_clock::now() + call.services.settings.gateway.bulk_budget;
  for (std::size_t from = 0; from < parsed.items.size(); from += kChunk) {
    if (std::chrono::steady_clock::now() > deadline) co_return fail(ErrorCode::kUnavailable, "budget");
    const auto first = parsed.items.begin() + static_cast<std::ptrdiff_t>(from);
    const auto count = static_cast<std::ptrdiff_t>(std::min(kChunk, parsed.items.size() - from));
    const std::vector<items::Item> chunk(first, first + count);
    FRESHET_CO_TRY(written, co_await call.services.items_bulk.put_many(chunk));
  }
  co_return private_json(ndjson_reply(parsed.items.size(), parsed.rejected, parsed.ignored));
}

}  // namespace freshet::handlers
