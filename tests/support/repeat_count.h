// Number of repetitions of a randomized test: few for each change, many in the nightly run
// (./scripts/test --long).
#pragma once

#include <cstdlib>

namespace freshet::test {

// For test cases tagged [long].
inline int repeat_count(int quick, int thorough) { return std::getenv("FRESHET_LONG") ? thorough : quick; }

}  // namespace freshet::test
