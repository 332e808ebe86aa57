// Descriptions of the keys in a data export, addressed to the reader the data is about.
#pragma once

#include <string_view>

#include "core/redis/keys.h"

namespace freshet::readers {

// Empty for keys that an export does not contain.
std::string_view description_for(const redis::KeyPattern& key);

}  // namespace freshet::readers
