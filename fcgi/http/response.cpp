#include <algorithm>

#include "fcgi/gateway/request.h"

namespace freshet {

void Response::add_header(std::string_view name, std::string_view value) {
  headers.append(name).append(": ");
  std::ranges::copy_if(value, std::back_inserter(headers), [](char c) {
    const auto byte = static_cast<unsigned char>(c);
    return byte >= 0x20 && byte != 0x7F;
  });
  headers.append("\r\n");
}

}  // namespace freshet
