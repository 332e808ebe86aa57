#include "scripts/ctl/import/outbox_reader.h"

#include <algorithm>
#include <array>
#include <string>

#include "scripts/ctl/import/json_elements.h"
#include "scripts/ctl/import/source_dates.h"
#include "scripts/ctl/import/source_text.h"

namespace freshet::ctl {
namespace {

// Returns whether the member addresses everybody: a string or an array of strings.
bool addresses_public(json::Value post, std::string_view member) {
  const auto is_public = [](json::Value to) {
    return to.is_string() && (to.text().ends_with("ActivityStreams#Public") ||
                              to.text().ends_with("activitystreams#Public") || to.text() == "as:Public");
  };
  return is_public(post[member]) || std::ranges::any_of(post[member].elements(), is_public);
}

bool is_imported(json::Value activity) {
  const json::Value post = activity["object"];
  if (json_text(activity, "type") != "Create" || !post.is_object()) return false;
  const std::string answered = json_text(post, "inReplyTo"), actor = json_text(activity, "actor");
  const bool is_reply = !answered.empty() && (actor.empty() || !answered.starts_with(actor + "/"));
  return !is_reply && (addresses_public(post, "to") || addresses_public(post, "cc"));
}

SourceItem item_of(const JsonElement& entry) {
  const json::Value post = entry.value["object"];
  SourceItem item;
  item.position = "entry " + std::to_string(entry.number);
  item.guid = json_text(post, "id");
  std::string link = json_text(post, "url");
  item.url = resolve_url({}, link.empty() ? item.guid : link);
  item.title = plain_line(json_text(post, "name"));
  if (item.title.empty()) item.title = plain_line(json_text(post, "summary"));
  item.text = json_text(post, "content");
  item.text_format = items::TextFormat::kHtml;
  const auto languages = post["contentMap"].members();
  if (languages.size() == 1) item.language = languages.front().first;
  item.author_id = json_text(post, "attributedTo");
  item.published_at = parse_source_date(json_text(post, "published"));
  item.updated_at = parse_source_date(json_text(post, "updated"));
  for (const json::Value tag : post["tag"].elements()) {
    std::string name = json_text(tag, "name");
    if (json_text(tag, "type") == "Hashtag")
      item.tags.push_back(name.starts_with('#') ? name.substr(1) : name);
  }
  return item;
}

}  // namespace

Result<void> read_outbox(std::istream& in, const SourceSink& sink) {
  constexpr std::array<std::string_view, 2> kMembers{"orderedItems", "totalItems"};
  bool is_outbox = false;
  FRESHET_TRY(done, read_json_elements(in, kMembers, [&](const JsonElement& entry) {
                is_outbox = true;
                if (entry.member != "orderedItems") return true;
                if (entry.value.is_object())
                  return !is_imported(entry.value) || deliver(item_of(entry), sink);
                sink.skipped("entry " + std::to_string(entry.number),
                             entry.error.empty() ? "is not an object" : entry.error);
                return true;
              }));
  if (is_outbox) return {};
  return fail(ErrorCode::kInvalid, "bad_outbox", {}, "is not an outbox: it has no \"orderedItems\"");
}

}  // namespace freshet::ctl
