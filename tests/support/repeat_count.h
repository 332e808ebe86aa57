// What a test repeats: few times with every change, often in the night (./scripts/test --long).
#pragma once

#include <cstdlib>

namespace freshet::test {

// Of a case tagged [long].
inline int repeat_count(int quick, int thorough) { return std::getenv("FRESHET_LONG") ? thorough : quick; }

}  // namespace freshet::test
