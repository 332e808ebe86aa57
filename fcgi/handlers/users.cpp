#include "fcgi/handlers/users.h"

#include "core/base/json.h"
#include "fcgi/handlers/json_reply.h"

namespace freshet::handlers {

namespace {

void write_key(json::Writer& writer, const readers::ExportedKey& key) {
  writer.begin_object()
      .key("what")
      .string(key.description)
      .key("key")
      .string(key.name)
      .key("type")
      .string(key.type)
      .key("value");
  if (key.type == "string") {
    writer.string(key.values.front());
  } else if (key.type == "hash" || key.type == "zset") {
    writer.begin_object();
    for (std::size_t i = 0; i + 1 < key.values.size(); i += 2)
      writer.key(key.values[i]).string(key.values[i + 1]);
    writer.end_object();
  } else {
    writer.begin_array();
    for (const std::string& each : key.values) writer.string(each);
    writer.end_array();
  }
  writer.end_object();
}

void write_rows(json::Writer& writer, const readers::Export& exported) {
  writer.begin_object().key("interactions").begin_array();
  for (const readers::ReaderEvent& each : exported.interactions) {
    writer.begin_object().key("topicId").string(each.item.view());
    writer.key("kind").string(readers::kind_of(each.kind).name);
    writer.key("at").integer(each.at.time_since_epoch().count()).end_object();
  }
  writer.end_array().key("not_interested").begin_array();
  for (const readers::DismissalRecord& each : exported.dismissals) {
    writer.begin_object().key("topicId").string(each.dismissal.item.view());
    writer.key("at").integer(each.at.time_since_epoch().count());
    if (!each.dismissal.reason.empty()) writer.key("reason").string(each.dismissal.reason);
    writer.end_object();
  }
  writer.end_array().key("follows").begin_array();
  for (const readers::Follow& each : exported.follows) {
    writer.begin_object().key("author").string(each.author.view());
    writer.key("at").integer(each.at.time_since_epoch().count()).end_object();
  }
  writer.end_array();
  if (exported.next_interaction) writer.key("next").integer(*exported.next_interaction);
  writer.end_object();
}

void write_keys(json::Writer& writer, const readers::Export& exported) {
  writer.key("redis").begin_array();
  for (const readers::ExportedKey& key : exported.keys) write_key(writer, key);
  writer.end_array();
}

std::string render(const ReaderId& reader, const readers::Export& exported) {
  std::string out;
  json::Writer writer(out);
  writer.begin_object().key("userId").string(reader.view());
  write_keys(writer, exported);
  writer.key("database");
  if (exported.rows_missing_reason.empty()) {
    write_rows(writer, exported);
  } else {
    writer.null().key("no_database").string(exported.rows_missing_reason);
  }
  writer.end_object();
  return out;
}

// The visitor that the cookie names.
Result<VisitorId> visitor_of(const Call& call) {
  if (!call.auth_result) return tl::unexpected(call.auth_result.error());
  if (!call.auth_result->cookie)
    return fail(ErrorCode::kInvalid, "no_visitor", {}, "the request has no valid visitor cookie");
  return *call.auth_result->cookie;
}

}  // namespace

Task<Result<Response>> get_visitor_export(Call& call) {
  FRESHET_CO_TRY(visitor, visitor_of(call));
  const ReaderId reader = anonymous_reader(*visitor);
  FRESHET_CO_TRY(exported, co_await call.services.users.collect(reader, 0));
  std::string out;
  json::Writer writer(out);
  writer.begin_object().key("visitor").string(visitor->view());
  write_keys(writer, *exported);
  writer.end_object();
  co_return private_json(std::move(out));
}

Task<Result<Response>> delete_visitor(Call& call) {
  FRESHET_CO_TRY(visitor, visitor_of(call));
  const ReaderId reader = anonymous_reader(*visitor);
  const bool may_be_stored = call.services.settings.readers.anonymous && call.may_store(reader);
  FRESHET_CO_TRY(erased, co_await call.services.users.erase_anonymous(reader, may_be_stored));
  Response response = private_json({}, 204);
  response.add_header(
      "Set-Cookie", http::Identity::expired_visitor_cookie(call.services.identity.is_over_tls(call.request)));
  co_return response;
}

Task<Result<Response>> get_user(Call& call) {
  FRESHET_CO_TRY(reader, ReaderId::parse(call.match.parameters[0], "id"));
  FRESHET_CO_TRY(from, http::integer_parameter(call.target, "from", 0, 0, 1'000'000'000));
  FRESHET_CO_TRY(exported, co_await call.services.users.collect(*reader, *from));
  co_return private_json(render(*reader, *exported));
}

Task<Result<Response>> delete_user(Call& call) {
  FRESHET_CO_TRY(reader, ReaderId::parse(call.match.parameters[0], "id"));
  FRESHET_CO_TRY(job, co_await call.services.users.request_erasure(*reader));
  std::string out;
  json::Writer(out).begin_object().key("job").string(*job).end_object();
  co_return private_json(std::move(out), 202);
}

Task<Result<Response>> get_job(Call& call) {
  FRESHET_CO_TRY(id, EventId::parse(call.match.parameters[0], "id"));
  FRESHET_CO_TRY(job, co_await call.services.users.job(*id));
  std::string out;
  json::Writer writer(out);
  writer.begin_object().key("state").string(job->state).key("done").integer(job->done);
  writer.key("total").integer(job->total).key("failed").integer(job->failed);
  if (!job->moved.empty()) {
    writer.key("moved").begin_object();
    for (std::size_t i = 0; i < job->moved.size(); ++i)
      writer.key(readers::kMovedKinds[i]).integer(job->moved[i]);
    writer.end_object();
  }
  if (!job->pending_hosts.empty()) {
    writer.key("hosts").begin_array();
    for (const std::string& each : job->pending_hosts) writer.string(each);
    writer.end_array();
  }
  writer.end_object();
  co_return private_json(std::move(out));
}

}  // namespace freshet::handlers
