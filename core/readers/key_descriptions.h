// What the keys of an export hold, in words for the reader whom it is about.
#pragma once

#include <string_view>

#include "core/redis/keys.h"

namespace freshet::readers {

// "" for keys that are about nobody.
std::string_view description_for(const redis::KeyPattern& key);

}  // namespace freshet::readers
