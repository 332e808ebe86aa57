#include "scripts/ctl/backup/manifest.h"
#include "core/base/json.h"

namespace freshet::ctl {
namespace {

constexpr std::size_t kMaxTextBytes = 4096;
constexpr std::int64_t kMaxInteger = std::int64_t{1} << 53;

tl::unexpected<Error> bad_backup(const Error& error) {
  const std::string what = error.member.empty() ? error.detail : error.member + ": " + error.detail;
  return fail(ErrorCode::kInvalid, "bad_backup", {}, std::string(kManifestName) + ": " + what);
}

// Stops at the first invalid member and leaves later outputs unchanged.
class MemberReader {
 public:
  explicit MemberReader(json::Value object) : object_(object) {}
  void number(const char* name, std::int64_t& out) {
    store(json::required_integer(object_, name, 0, kMaxInteger), out);
  }
  void text(const char* name, std::string& out) {
    store(json::required_string(object_, name, kMaxTextBytes), out);
  }
  void optional_text(const char* name, std::optional<std::string>& out) {
    store(json::optional_string(object_, name, kMaxTextBytes), out);
  }
  void time(const char* name, UnixSeconds& out) {
    std::optional<UnixSeconds> at;
    store(json::optional_time(object_, name), at);
    out = at.value_or(UnixSeconds{});
  }
  const Result<void>& status() const { return status_; }

 private:
  template <class T>
  void store(Result<T> read, T& out) {
    if (!status_) return;
    if (read)
      out = std::move(*read);
    else
      status_ = tl::unexpected(read.error());
  }
  json::Value object_;
  Result<void> status_;
};

}  // namespace

std::string manifest_json(const Manifest& manifest) {
  std::string out;
  json::Writer json(out);
  json.begin_object();
  json.key("format").integer(manifest.format);
  json.key("freshet").string(manifest.version);
  if (manifest.id) json.key("id").string(*manifest.id);
  json.key("began").string(to_rfc3339(manifest.began));
  json.key("ended").string(to_rfc3339(manifest.ended));
  json.key("schema").integer(manifest.schema);
  json.key("items").integer(manifest.items);
  json.key("server").string(manifest.server);
  json.key("key_prefix").string(manifest.key_prefix);
  json.key("keys").integer(manifest.keys);
  json.key("files").begin_array();
  for (const BackupFile& each : manifest.files) {
    json.begin_object();
    json.key("name").string(each.name);
    json.key("bytes").integer(each.bytes);
    json.key("sha256").string(each.sha256);
    json.end_object();
  }
  json.end_array();
  json.end_object();
  return out + "\n";
}

Result<Manifest> parse_manifest(std::string text) {
  json::Document document;
  if (auto ok = document.parse(text); !ok) return bad_backup(ok.error());
  const auto root = json::root_object(document);
  if (!root) return bad_backup(root.error());
  Manifest out;
  MemberReader read(*root);
  read.number("format", out.format);
  read.text("freshet", out.version);
  if (read.status() && out.format > kBackupFormat)
    return bad_backup({ErrorCode::kInvalid, {}, {}, "made by a later version of Freshet: " + out.version});
  if (read.status() && out.format < kConvertibleBackupFormat)
    return bad_backup(
        {ErrorCode::kInvalid,
         {},
         {},
         "made by Freshet " + out.version +
             ", whose backups of Redis cannot be converted: restore it with that version, make a "
             "backup with the last version before this one, and restore that"});
  read.optional_text("id", out.id);
  read.time("began", out.began);
  read.time("ended", out.ended);
  read.number("schema", out.schema);
  read.number("items", out.items);
  read.text("server", out.server);
  read.text("key_prefix", out.key_prefix);
  read.number("keys", out.keys);
  if (!read.status()) return bad_backup(read.status().error());
  for (const json::Value& each : (*root)["files"].elements()) {
    BackupFile& file = out.files.emplace_back();
    MemberReader member(each);
    member.text("name", file.name);
    member.number("bytes", file.bytes);
    member.text("sha256", file.sha256);
    if (!member.status()) return bad_backup(member.status().error());
  }
  return out;
}

bool Manifest::has(std::string_view name) const {
  for (const BackupFile& each : files) {
    if (each.name == name) return true;
  }
  return false;
}

}  // namespace freshet::ctl
