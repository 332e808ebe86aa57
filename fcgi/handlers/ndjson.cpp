#include "fcgi/handlers/ndjson.h"

#include "core/base/json.h"
#include "fcgi/http/problem.h"

namespace freshet::handlers {

std::optional<NdjsonLine> NdjsonReader::next() {
  while (!rest_.empty()) {
    const std::size_t end = rest_.find('\n');
    const std::string_view line = rest_.substr(0, end);
    rest_.remove_prefix(end == std::string_view::npos ? rest_.size() : end + 1);
    ++number_;
    if (line.find_first_not_of(" \t\r") != std::string_view::npos)
      return NdjsonLine{number_, std::string(line)};
  }
  return std::nullopt;
}

std::string ndjson_reply(std::size_t accepted, const std::vector<RejectedLine>& rejected,
                         const http::IgnoredMembers& ignored, bool queued) {
  std::string out;
  json::Writer writer(out);
  writer.begin_object().key("accepted").unsigned_integer(accepted).key("rejected").begin_array();
  for (const RejectedLine& line : rejected) {
    const http::PublicError error = http::public_error(line.error);
    writer.begin_object().key("line").unsigned_integer(line.line);
    if (!line.id.empty()) writer.key("id").string(line.id);
    writer.key("code").string(error.type.code);
    if (!error.member.empty()) writer.key("member").string(error.member);
    writer.key("detail").string(error.detail).end_object();
  }
  writer.end_array();
  if (!ignored.empty()) {
    writer.key("ignored").begin_object();
    for (const auto& [name, lines] : ignored) writer.key(name).unsigned_integer(lines);
    writer.end_object();
  }
  if (queued) writer.key("queued").boolean(true);
  writer.end_object();
  return out;
}

}  // namespace freshet::handlers
