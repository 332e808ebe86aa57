// Encodes a part of a key name, so that any id can stand in it: "%XX" for '%', ':', '{', '}' and
// bytes up to 0x20. Only key names encode; members, fields and stream entries hold ids as they are.
#pragma once

#include <cstddef>
#include <string>
#include <string_view>

namespace freshet::redis {

// The number of bytes of `part` in a key name: part.size() if it has nothing to encode.
std::size_t encoded_size(std::string_view part);
// Appends the part encoded. Injective; at most three times as long.
void append_encoded(std::string& out, std::string_view part);
// The inverse. Text that append_encoded() never writes, such as "%zz", is returned as it is.
std::string decode_key_part(std::string_view encoded);

}  // namespace freshet::redis
