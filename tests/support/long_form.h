// What a test repeats: few times with every change, often in the night (./scripts/test --long).
#pragma once

#include <cstdlib>

namespace freshet::test {

// Of a case tagged [long].
inline int rounds(int few, int many) { return std::getenv("FRESHET_LONG") ? many : few; }

}  // namespace freshet::test
