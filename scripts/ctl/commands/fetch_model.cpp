#include "scripts/ctl/commands/fetch_model.h"

#include <fmt/format.h>

#include <charconv>
#include <fstream>
#include <optional>
#include <utility>

#include "core/model/model_copy.h"
#include "core/model/model_layout.h"
#include "core/model/replace_model.h"
#include "scripts/ctl/commands/json_report.h"
#include "scripts/ctl/commands/owner.h"
#include "scripts/ctl/commands/print.h"
#include "scripts/ctl/commands/progress.h"

namespace freshet::ctl {
namespace {

constexpr milliseconds kTimeout{300'000};
constexpr std::uint64_t kMaxModelBytes = 4ULL << 30;

Result<HttpAddress> source_address(const FetchModelOptions& options, const Settings& settings,
                                   Target target) {
  target.base = options.url.empty() ? settings.recommend.model_source : options.url;
  if (target.base.empty())
    return fail(ErrorCode::kInvalid, "no_url", {},
                "give the URL of the training host's internal server, or set recommend.model_from");
  return signed_http_address(std::move(target), settings);
}

// A file next to the model: the checksum of the model file and the ETag it was served with.
std::string etag_path(const std::string& model) { return model + ".etag"; }

// ETag of the current model; empty if it was not fetched or has changed since.
std::string stored_etag(const std::string& model) {
  std::ifstream file(etag_path(model));
  std::string checksum, etag;
  if (!(file >> checksum) || !std::getline(file >> std::ws, etag)) return {};
  const auto actual = model::read_checksum(model);
  return actual && checksum == fmt::format("{:016x}", *actual) ? etag : std::string();
}

// Best effort: without it, the next call downloads the same model again.
void store_etag(const std::string& model, const std::string& etag) {
  const auto actual = model::read_checksum(model);
  if (etag.empty() || !actual) return;
  std::ofstream(etag_path(model), std::ios::trunc) << fmt::format("{:016x} {}\n", *actual, etag);
}

tl::unexpected<Error> refusal_error(const HttpAddress& from, const HttpReply& reply) {
  const std::string_view why =
      reply.status == 404   ? "it has no model: set train.publish and run `freshetctl train` there"
      : reply.status == 401 ? "it requires signed requests: use --key, or set identity.internal_keys here"
                            : "";
  if (!why.empty())
    return fail(ErrorCode::kNotFound, "no_model", {}, fmt::format("{}: {}", from.display_url, why));
  return fail(ErrorCode::kUnavailable, "no_model", {},
              fmt::format("{}: GET /api/model returned {}", from.display_url, reply.status));
}

}  // namespace

Result<int> run_fetch_model(const FetchModelOptions& options, const Target& target) {
  FRESHET_TRY(settings, load_settings(target));
  const std::string& file = settings->recommend.model;
  FRESHET_TRY(from, source_address(options, *settings, target));
  if (auto ok = switch_to_owner(file); !ok) return tl::unexpected(ok.error());

  std::optional<model::ModelReplacement> replacement;
  Result<void> written;
  const auto create_file = [&] {
    auto created = model::ModelReplacement::create(file);
    if (created) replacement.emplace(std::move(*created));
    return created ? Result<void>() : tl::unexpected(created.error());
  };
  HttpClient http(*from, kTimeout);
  HttpRequest request;
  request.path = "/api/model";
  request.user_agent = "freshetctl";
  request.if_none_match = stored_etag(file);
  request.max_reply_bytes = kMaxModelBytes;
  request.expected_prefix = {model::layout::kMagic.data(), model::layout::kMagic.size()};
  request.receive_body = [&](std::string_view bytes) {
    if (!replacement) written = create_file();
    if (written) written = replacement->append(bytes);
    return written.has_value();
  };
  const auto reply = http.exchange(request);
  if (!written) return tl::unexpected(written.error());
  if (!reply) return tl::unexpected(reply.error());
  const bool unchanged = reply->status == 304 && !request.if_none_match.empty();
  if (!unchanged && reply->status != 200) return refusal_error(*from, *reply);
  if (!unchanged) {
    if (!replacement) written = create_file();  // for an empty model's error
    if (!written) return tl::unexpected(written.error());
    if (const auto ok = replacement->commit(); !ok)
      return fail(ok.error().code, ok.error().reason, {},
                  fmt::format("invalid model from {}: {}; {} is unchanged", from->display_url,
                              ok.error().detail, file));
    store_etag(file, reply->etag);
  }
  FRESHET_TRY(copy, model::copy_model(file));
  const model::Model& fetched = *copy->model;
  if (options.json) {
    report_json([&](json::Writer& out) {
      out.key("model").string(file).key("changed").boolean(!unchanged).key("items").integer(fetched.items());
      out.key("trained_at").string(to_rfc3339(fetched.trained_at()));
      out.key("bytes").integer(static_cast<std::int64_t>(fetched.bytes()));
    });
    return 0;
  }
  ctl::print("{}: {}{} items, {:.1f} MB, trained {}\n", file, unchanged ? "unchanged, " : "",
             format_number(fetched.items()), static_cast<double>(fetched.bytes()) / 1e6,
             to_rfc3339(fetched.trained_at()));
  return 0;
}

}  // namespace freshet::ctl
