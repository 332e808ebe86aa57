#include "fcgi/gateway/codec.h"

#include <algorithm>
#include <array>
#include <charconv>
#include <cstring>

#include "fcgi/gateway/os_layer.h"

namespace freshet::gateway {

namespace {

// libfcgi requires a descriptor; the OS layer ignores it.
constexpr int kNoDescriptor = 0x7ffffffe;

struct StatusLine {
  int status;
  std::string_view text;
};
constexpr std::array kStatusLines{
    StatusLine{200, "OK"},
    StatusLine{202, "Accepted"},
    StatusLine{204, "No Content"},
    StatusLine{304, "Not Modified"},
    StatusLine{400, "Bad Request"},
    StatusLine{401, "Unauthorized"},
    StatusLine{403, "Forbidden"},
    StatusLine{404, "Not Found"},
    StatusLine{405, "Method Not Allowed"},
    StatusLine{409, "Conflict"},
    StatusLine{413, "Content Too Large"},
    StatusLine{415, "Unsupported Media Type"},
    StatusLine{429, "Too Many Requests"},
    StatusLine{500, "Internal Server Error"},
    StatusLine{503, "Service Unavailable"},
};

std::string_view reason_phrase(int status) {
  for (const StatusLine& line : kStatusLines) {
    if (line.status == status) return line.text;
  }
  return "Status";
}

Method parse_method(std::string_view name) {
  const auto found = std::ranges::find(kMethodNames, name);
  return found == kMethodNames.end() ? Method::kOther
                                     : static_cast<Method>(std::distance(kMethodNames.begin(), found));
}

struct ParamField {
  std::string_view name;
  std::string_view Request::*member;
};
constexpr std::array kParamFields{
    ParamField{"REQUEST_URI", &Request::uri},
    ParamField{"CONTENT_TYPE", &Request::content_type},
    ParamField{"REMOTE_ADDR", &Request::remote_addr},
    ParamField{"HTTP_USER_AGENT", &Request::user_agent},
    ParamField{"HTTP_ORIGIN", &Request::origin},
    ParamField{"HTTP_COOKIE", &Request::cookie},
    ParamField{"HTTP_AUTHORIZATION", &Request::authorization},
    ParamField{"HTTP_IF_NONE_MATCH", &Request::if_none_match},
    ParamField{"HTTP_PREFER", &Request::prefer},
    ParamField{"HTTP_SEC_FETCH_SITE", &Request::sec_fetch_site},
    ParamField{"HTTP_SEC_PURPOSE", &Request::sec_purpose},
    ParamField{"HTTP_X_FORWARDED_PROTO", &Request::forwarded_proto},
    ParamField{"FRESHET_USER", &Request::verified_user},
    ParamField{"FRESHET_SITE", &Request::site},
    ParamField{"FRESHET_PREFIX", &Request::prefix},
    ParamField{"FRESHET_REQUEST_ID", &Request::request_id},
};

}  // namespace

Codec::Codec() {
  static const int initialised = FCGX_Init();
  (void)initialised;
  FCGX_InitRequest(&fcgx_, -1, 0);
}

Codec::~Codec() { end_request(); }

void Codec::end_request() {
  if (fcgx_.in == nullptr && fcgx_.paramsPtr == nullptr) return;
  fcgx_.keepConnection = 1;  // the gateway decides whether to close
  FCGX_Free(&fcgx_, 0);
  fcgx_.ipcFd = -1;
}

Result<void> Codec::decode(std::string_view bytes, Request& request, std::string& wire) {
  const MemoryIoScope scope(bytes, wire);
  fcgx_.ipcFd = kNoDescriptor;
  fcgx_.keepConnection = 1;  // otherwise libfcgi closes the connection before it reads
  if (FCGX_Accept_r(&fcgx_) != 0) {
    fcgx_.ipcFd = -1;
    return fail(ErrorCode::kInvalid, "bad_fastcgi", {}, "libfcgi rejected the request");
  }
  std::string_view content_length;
  read_params(request, content_length);

  // Read all of STDIN before anything happens: a premature end, an error or a wrong length must
  // have no effect.
  request.body.clear();
  std::array<char, 8192> chunk;
  for (;;) {
    const int bytes_read = FCGX_GetStr(chunk.data(), static_cast<int>(chunk.size()), fcgx_.in);
    if (bytes_read <= 0) break;
    request.body.append(chunk.data(), static_cast<std::size_t>(bytes_read));
  }
  request.body_bytes = request.body.size();
  std::size_t declared_bytes = request.body.size();
  if (!content_length.empty()) {
    const auto [end, error] =
        std::from_chars(content_length.data(), content_length.data() + content_length.size(), declared_bytes);
    if (error != std::errc() || end != content_length.data() + content_length.size())
      declared_bytes = SIZE_MAX;
  }
  if (FCGX_GetError(fcgx_.in) != 0 || declared_bytes != request.body.size()) {
    end_request();
    return fail(ErrorCode::kInvalid, "bad_fastcgi", {}, "the body does not have CONTENT_LENGTH bytes");
  }
  // Not needed while the request is in progress, and several kilobytes each.
  FCGX_FreeStream(&fcgx_.in);
  FCGX_FClose(fcgx_.err);
  FCGX_FreeStream(&fcgx_.err);
  return {};
}

void Codec::read_params(Request& request, std::string_view& content_length) const {
  for (char** entry = fcgx_.envp; entry != nullptr && *entry != nullptr; ++entry) {
    const char* equals = std::strchr(*entry, '=');
    if (equals == nullptr) continue;
    const std::string_view name(*entry, static_cast<std::size_t>(equals - *entry));
    const std::string_view value(equals + 1);
    if (name == "REQUEST_METHOD") {
      request.method = parse_method(value);
    } else if (name == "CONTENT_LENGTH") {
      content_length = value;
    } else if (name == "FRESHET_ZONE") {
      request.zone = value == "internal" ? Zone::kInternal : Zone::kPublic;
    } else {
      for (const ParamField& target : kParamFields) {
        if (target.name != name) continue;
        request.*target.member = value;
        break;
      }
    }
  }
}

void Codec::encode(const Request& request, const Response& response, std::string& wire) {
  encode_reply(request, response, wire);
  end_request();
}

void Codec::encode_reply(const Request& request, const Response& response, std::string& wire) {
  const MemoryIoScope scope({}, wire);
  std::string& head = head_;
  head.assign("Status: ")
      .append(std::to_string(response.status))
      .append(" ")
      .append(reason_phrase(response.status));
  head.append("\r\n");
  const bool has_no_body = response.status == 204 || response.status == 304;
  if (!has_no_body) {
    head.append("Content-Type: ").append(response.content_type).append("\r\n");
    head.append("Content-Length: ").append(std::to_string(response.body.size())).append("\r\n");
  }
  head.append(response.headers).append("\r\n");
  FCGX_PutStr(head.data(), static_cast<int>(head.size()), fcgx_.out);
  if (!has_no_body && request.method != Method::kHead) {
    FCGX_PutStr(response.body.data(), static_cast<int>(response.body.size()), fcgx_.out);
  }
  // decode() and this are the first half of FCGX_Finish_r; end_request() is the second.
  FCGX_FClose(fcgx_.out);
}

}  // namespace freshet::gateway
