#include "fcgi/http/client_list.h"

#include <re2/re2.h>

#include "core/base/secret.h"

namespace freshet::http {
namespace {

constexpr std::string_view kAgent = "agent:";
constexpr std::size_t kMaxFileBytes = 64 << 20;
constexpr std::int64_t kMaxMemory = 4 << 20;  // budget of the compiled patterns

std::string_view trimmed(std::string_view text) {
  constexpr std::string_view kBlanks = " \t\r";
  const std::size_t from = text.find_first_not_of(kBlanks);
  return from == text.npos ? std::string_view()
                           : text.substr(from, text.find_last_not_of(kBlanks) + 1 - from);
}

tl::unexpected<Error> invalid_list(std::string detail) {
  return fail(ErrorCode::kInvalid, "bad_clients", {}, std::move(detail));
}

RE2::Options agent_options() {
  RE2::Options agent_options;
  agent_options.set_encoding(RE2::Options::EncodingLatin1);  // User-Agents may contain any bytes
  agent_options.set_log_errors(false);
  agent_options.set_never_capture(true);
  agent_options.set_max_mem(kMaxMemory);
  return agent_options;
}

}  // namespace

ClientList::ClientList() = default;
ClientList::ClientList(ClientList&&) noexcept = default;
ClientList& ClientList::operator=(ClientList&&) noexcept = default;
ClientList::~ClientList() = default;

Result<ClientList> ClientList::parse(std::string_view text, std::string_view name) {
  ClientList list;
  std::string agents;
  for (std::size_t line_number = 1; !text.empty(); ++line_number) {
    const std::size_t end = text.find('\n');
    std::string_view line = trimmed(text.substr(0, end));
    text.remove_prefix(end == text.npos ? text.size() : end + 1);
    Result<void> read;
    if (line.starts_with(kAgent)) {
      const std::string pattern(trimmed(line.substr(kAgent.size())));
      const RE2 compiled(pattern, agent_options());
      if (pattern.empty() || !compiled.ok())
        read = invalid_list("not a valid RE2 pattern: " + pattern + " " + compiled.error());
      agents.append(agents.empty() ? "(?:" : "|(?:").append(pattern).append(")");
    } else if (line = trimmed(line.substr(0, line.find('#'))); !line.empty()) {
      read = list.networks_.add(line);
    }
    if (!read)
      return invalid_list(std::string(name) + ":" + std::to_string(line_number) + ": " + read.error().detail);
  }
  list.networks_.sort_and_merge();
  if (agents.empty()) return list;
  list.agent_patterns_ = std::make_unique<RE2>(agents, agent_options());
  if (!list.agent_patterns_->ok())
    return invalid_list(std::string(name) + ": " + list.agent_patterns_->error());
  return list;
}

Result<ClientList> ClientList::read(const std::string& path) {
  if (path.empty()) return ClientList();
  const auto text = read_whole_file(path, kMaxFileBytes);
  if (!text) return fail(text.error().code, "bad_clients", {}, text.error().detail);
  return parse(*text, path);
}

bool ClientList::matches(std::string_view address, std::string_view agent) const {
  if (networks_.contains(address)) return true;
  const std::string_view head = agent.substr(0, kMaxAgentBytes);
  return agent_patterns_ && RE2::PartialMatch(re2::StringPiece(head.data(), head.size()), *agent_patterns_);
}

AccessDecision decide_access(const ClientLists& lists, std::string_view address, std::string_view agent) {
  if (lists.allowed.matches(address, agent)) return AccessDecision::kAllowed;
  return lists.denied.matches(address, agent) ? AccessDecision::kDenied : AccessDecision::kUnlisted;
}

}  // namespace freshet::http
