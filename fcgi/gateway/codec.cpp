#include "fcgi/gateway/codec.h"

#include <algorithm>
#include <array>
#include <charconv>
#include <cstring>

#include "fcgi/gateway/os_layer.h"

namespace freshet::gateway {

namespace {

// libfcgi wants a descriptor; the OS layer never looks at it.
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

Method method_of(std::string_view name) {
  const auto known = std::ranges::find(kMethodNames, name);
  return known == kMethodNames.end() ? Method::kOther
                                     : static_cast<Method>(std::distance(kMethodNames.begin(), known));
}

struct ParamTarget {
  std::string_view name;
  std::string_view Request::*member;
};
constexpr std::array kParams{
    ParamTarget{"REQUEST_URI", &Request::uri},
    ParamTarget{"CONTENT_TYPE", &Request::content_type},
    ParamTarget{"REMOTE_ADDR", &Request::remote_addr},
    ParamTarget{"HTTP_USER_AGENT", &Request::user_agent},
    ParamTarget{"HTTP_ORIGIN", &Request::origin},
    ParamTarget{"HTTP_COOKIE", &Request::cookie},
    ParamTarget{"HTTP_AUTHORIZATION", &Request::authorization},
    ParamTarget{"HTTP_IF_NONE_MATCH", &Request::if_none_match},
    ParamTarget{"HTTP_SEC_FETCH_SITE", &Request::sec_fetch_site},
    ParamTarget{"HTTP_X_FORWARDED_PROTO", &Request::forwarded_proto},
    ParamTarget{"FRESHET_USER", &Request::verified_user},
    ParamTarget{"FRESHET_SITE", &Request::site},
    ParamTarget{"FRESHET_REQUEST_ID", &Request::request_id},
};

}  // namespace

Codec::Codec() {
  static const int initialised = FCGX_Init();
  (void)initialised;
  FCGX_InitRequest(&fcgx_, -1, 0);
}

Codec::~Codec() { abandon(); }

void Codec::abandon() {
  if (fcgx_.in == nullptr && fcgx_.paramsPtr == nullptr) return;
  fcgx_.keepConnection = 1;  // whether to close is the gateway's business
  FCGX_Free(&fcgx_, 0);
  fcgx_.ipcFd = -1;
}

Result<void> Codec::decode(std::string_view bytes, Request& request, std::string& wire) {
  const OsScope scope(bytes, wire);
  fcgx_.ipcFd = kNoDescriptor;
  fcgx_.keepConnection = 1;  // or libfcgi closes the connection before it reads
  if (FCGX_Accept_r(&fcgx_) != 0) {
    fcgx_.ipcFd = -1;
    return fail(ErrorCode::kInvalid, "bad_fastcgi", {}, "libfcgi refused the request");
  }
  std::string_view content_length;
  read_params(request, content_length);

  // STDIN is read to its end before anything happens: an early end, an error or a wrong length must
  // have no effect.
  request.body.clear();
  std::array<char, 8192> chunk;
  for (;;) {
    const int taken = FCGX_GetStr(chunk.data(), static_cast<int>(chunk.size()), fcgx_.in);
    if (taken <= 0) break;
    request.body.append(chunk.data(), static_cast<std::size_t>(taken));
  }
  request.body_bytes = request.body.size();
  std::size_t announced = request.body.size();
  if (!content_length.empty()) {
    const auto [end, error] =
        std::from_chars(content_length.data(), content_length.data() + content_length.size(), announced);
    if (error != std::errc() || end != content_length.data() + content_length.size()) announced = SIZE_MAX;
  }
  if (FCGX_GetError(fcgx_.in) != 0 || announced != request.body.size()) {
    abandon();
    return fail(ErrorCode::kInvalid, "bad_fastcgi", {}, "the body is not what CONTENT_LENGTH says");
  }
  // Not needed while the request is under way, and several kilobytes of each.
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
      request.method = method_of(value);
    } else if (name == "CONTENT_LENGTH") {
      content_length = value;
    } else if (name == "FRESHET_ZONE") {
      request.zone = value == "internal" ? Zone::kInternal : Zone::kPublic;
    } else {
      for (const ParamTarget& target : kParams) {
        if (target.name != name) continue;
        request.*target.member = value;
        break;
      }
    }
  }
}

void Codec::encode(const Request& request, const Response& response, std::string& wire) {
  answer(request, response, wire);
  abandon();
}

void Codec::answer(const Request& request, const Response& response, std::string& wire) {
  const OsScope scope({}, wire);
  std::string& head = head_;
  head.assign("Status: ")
      .append(std::to_string(response.status))
      .append(" ")
      .append(reason_phrase(response.status));
  head.append("\r\n");
  const bool bodiless = response.status == 204 || response.status == 304;
  if (!bodiless) {
    head.append("Content-Type: ").append(response.content_type).append("\r\n");
    head.append("Content-Length: ").append(std::to_string(response.body.size())).append("\r\n");
  }
  head.append(response.headers).append("\r\n");
  FCGX_PutStr(head.data(), static_cast<int>(head.size()), fcgx_.out);
  if (!bodiless && request.method != Method::kHead) {
    FCGX_PutStr(response.body.data(), static_cast<int>(response.body.size()), fcgx_.out);
  }
  // With what decode() did, the first half of FCGX_Finish_r; abandon() is the other.
  FCGX_FClose(fcgx_.out);
}

}  // namespace freshet::gateway
