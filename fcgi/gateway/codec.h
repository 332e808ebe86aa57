// libfcgi as a pure codec: bytes to a Request, a Response to bytes. No socket is read or written
// here.
//
// The static libfcgi.a asks eight functions of <fcgios.h> for its input and output. os_layer.cpp
// supplies them over memory, so the archive member with libfcgi's own sockets, waits and signal
// handlers is never linked, and nothing in libfcgi can block a worker.
#pragma once

#include <fcgiapp.h>

#include <string>
#include <string_view>

#include "core/base/result.h"
#include "fcgi/gateway/request.h"

namespace freshet::gateway {

// The codec of one connection. decode() and encode() alternate; the views in the Request stay valid
// until encode() or abandon(). Not thread-safe; any number may live on one thread.
class Codec {
 public:
  Codec();
  Codec(const Codec&) = delete;
  Codec& operator=(const Codec&) = delete;
  ~Codec();

  // Decodes the request that framing found whole. What libfcgi answers by itself (GET_VALUES) is
  // appended to `wire`. Errors: kInvalid, "bad_fastcgi" when libfcgi refuses it or its body is not
  // CONTENT_LENGTH bytes; then the connection is to be closed.
  Result<void> decode(std::string_view bytes, Request& request, std::string& wire);
  // Appends the reply's records to `wire` and ends the request. For HEAD and 304 the body is left
  // out.
  void encode(const Request& request, const Response& response, std::string& wire);
  // The same, but the views in the Request stay valid until abandon(): for a request that is
  // answered while its handler still runs.
  void encode_reply(const Request& request, const Response& response, std::string& wire);
  // Ends the request, with no (further) reply.
  void end_request();

 private:
  void read_params(Request& request, std::string_view& content_length) const;

  FCGX_Request fcgx_{};
  std::string head_;  // of a reply; its memory is used again
};

}  // namespace freshet::gateway
