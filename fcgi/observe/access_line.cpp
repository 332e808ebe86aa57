#include "fcgi/observe/access_line.h"

#include <arpa/inet.h>
#include <strings.h>

#include <algorithm>
#include <array>
#include <cstdio>
#include <ctime>

#include "core/base/hex.h"

namespace freshet::observe {
namespace {

void append_escaped(std::string& line, std::string_view text) {
  if (text.empty()) line.push_back('-');
  for (const char c : text) {
    const auto byte = static_cast<unsigned char>(c);
    if (byte < 0x20 || byte >= 0x7F || c == '"' || c == '\\')
      append_hex(line.append("\\x"), byte, kUpperHex);
    else
      line.push_back(c);
  }
}

template <class Number>
void append_number(std::string& line, const char* format, Number number) {
  std::array<char, 48> text{};
  const int size = std::snprintf(text.data(), text.size(), format, number);
  line.append(text.data(), static_cast<std::size_t>(std::max(0, size)));
}

void append_time(std::string& line, const std::string& format, std::chrono::system_clock::time_point at) {
  const std::time_t seconds = std::chrono::system_clock::to_time_t(at);
  std::tm parts{};
  localtime_r(&seconds, &parts);
  std::array<char, 128> text{};
  append_escaped(line, {text.data(), std::strftime(text.data(), text.size(), format.c_str(), &parts)});
}

void append_duration(std::string& line, std::string_view unit, std::chrono::microseconds duration) {
  const auto micro = static_cast<double>(duration.count());
  if (unit.starts_with("micro")) return append_number(line, "%lld", static_cast<long long>(duration.count()));
  append_number(line, "%.3f", unit.starts_with("milli") ? micro / 1e3 : micro / 1e6);
}

void append_memory(std::string& line, std::string_view unit, std::size_t bytes) {
  const std::size_t divisor = unit == "bytes" ? 1 : unit.starts_with("kilo") ? 1024 : 1024 * 1024;
  line.append(std::to_string(bytes / divisor));
}

struct Variable {
  std::string_view name;
  std::string_view Request::*member;
};
// FastCGI parameters available to formats. Excludes secrets and those that identify readers.
constexpr std::array kVariables{
    Variable{"REQUEST_URI", &Request::uri},
    Variable{"CONTENT_TYPE", &Request::content_type},
    Variable{"HTTP_USER_AGENT", &Request::user_agent},
    Variable{"HTTP_ORIGIN", &Request::origin},
    Variable{"HTTP_IF_NONE_MATCH", &Request::if_none_match},
    Variable{"FRESHET_SITE", &Request::site},
    Variable{"FRESHET_REQUEST_ID", &Request::request_id},
};

void append_variable(std::string& line, const std::string& name, const Request& request) {
  if (name == "REQUEST_METHOD") return append_escaped(line, method_name(request.method));
  if (name == "REMOTE_ADDR") return append_escaped(line, truncate_address(request.remote_addr));
  if (name == "QUERY_STRING") return append_escaped(line, query_of(request.uri));
  const auto row = std::ranges::find(kVariables, name, &Variable::name);
  append_escaped(line, row == kVariables.end() ? std::string_view() : request.*row->member);
}

void append_header(std::string& line, std::string_view name, const Response& response) {
  const auto is_named = [&](std::string_view other) {
    return other.size() == name.size() && strncasecmp(other.data(), name.data(), name.size()) == 0;
  };
  if (is_named("Content-Type")) return append_escaped(line, response.content_type);
  if (is_named("Content-Length")) return append_escaped(line, std::to_string(response.body.size()));
  for (std::string_view remaining = response.headers; !remaining.empty();) {
    const auto end = std::min(remaining.find("\r\n"), remaining.size());
    const std::string_view header = remaining.substr(0, end);
    const auto colon = std::min(header.find(": "), header.size());
    if (is_named(header.substr(0, colon)) && !is_named("Set-Cookie"))
      return append_escaped(line, header.substr(std::min(colon + 2, header.size())));
    remaining.remove_prefix(std::min(end + 2, remaining.size()));
  }
  line.push_back('-');
}

void append_extension(std::string& line, const std::string& name, const AccessEntry& entry) {
  const Request& request = entry.request;
  if (name == "redis_ms") {
    append_number(line, "%.3f", static_cast<double>(request.trace.redis_time.count()) / 1e3);
  } else if (name == "round_trips") {
    line.append(std::to_string(request.trace.round_trips));
  } else if (name == "route") {
    append_escaped(line, entry.route);
  } else if (name == "request_id") {
    append_escaped(line, request.request_id);
  } else {
    line.append(request.zone == Zone::kInternal ? "internal" : "public");
  }
}

void append_piece(std::string& line, const AccessFormatPart& piece, const AccessEntry& entry) {
  const Request& request = entry.request;
  switch (piece.specifier) {
    case 0:
      line.append(piece.text);
      return;
    case 'd':
      return append_duration(line, piece.text, entry.duration);
    case 'e':
      return append_variable(line, piece.text, request);
    case 'l':
      line.append(std::to_string(request.body_bytes));
      return;
    case 'm':
      return append_escaped(line, method_name(request.method));
    case 'M':
      return append_memory(line, piece.text, entry.peak_memory);
    case 'n':
      line.append("freshet");
      return;
    case 'o':
      return append_header(line, piece.text, entry.response);
    case 'p':
      line.append(std::to_string(entry.pid));
      return;
    case 'P':
      line.append(std::to_string(entry.parent));
      return;
    case 'q':
      if (!query_of(request.uri).empty()) append_escaped(line, query_of(request.uri));
      return;
    case 'Q':
      if (request.uri.find('?') != std::string_view::npos) line.push_back('?');
      return;
    case 'r':
      return append_escaped(line, path_of(request.uri));
    case 'R':
      return append_escaped(line, truncate_address(request.remote_addr));
    case 's':
      line.append(std::to_string(entry.response.status));
      return;
    case 't':
      return append_time(line, piece.text, entry.received);
    case 'T':
      return append_time(line, piece.text, entry.written);
    case 'u':
      return append_escaped(line, piece.text == "id" ? request.verified_user : std::string_view());
    case 'x':
      return append_extension(line, piece.text, entry);
    default:
      line.push_back('-');
      return;  // %C and %f: a request has no CPU time or script of its own
  }
}

}  // namespace

std::string_view path_of(std::string_view uri) { return uri.substr(0, uri.find('?')); }

std::string_view query_of(std::string_view uri) {
  const auto mark = uri.find('?');
  return mark == std::string_view::npos ? std::string_view() : uri.substr(mark + 1);
}

std::string truncate_address(std::string_view address) {
  const std::string text(address);
  std::array<char, INET6_ADDRSTRLEN> text_buffer{};
  in_addr v4{};
  if (inet_pton(AF_INET, text.c_str(), &v4) == 1) {
    v4.s_addr &= htonl(0xFFFFFF00U);
    return inet_ntop(AF_INET, &v4, text_buffer.data(), text_buffer.size());
  }
  in6_addr v6{};
  if (inet_pton(AF_INET6, text.c_str(), &v6) != 1) return "-";
  if (IN6_IS_ADDR_V4MAPPED(&v6)) {
    v6.s6_addr[15] = 0;
  } else {
    std::fill(std::begin(v6.s6_addr) + 6, std::end(v6.s6_addr), std::uint8_t{0});
  }
  return inet_ntop(AF_INET6, &v6, text_buffer.data(), text_buffer.size());
}

void append_access_line(std::string& line, const std::vector<AccessFormatPart>& format,
                        const AccessEntry& entry) {
  for (const AccessFormatPart& piece : format) append_piece(line, piece, entry);
}

}  // namespace freshet::observe
