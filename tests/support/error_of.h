// The error of a Result that should have failed.
#pragma once

#include "core/base/result.h"

namespace freshet::test {

// Returns the error or, if the result has a value, an error that equals no other: its reason and
// detail are "(a value)". Calling error() on such a result is undefined behavior.
template <class T>
Error error_of(const Result<T>& result) {
  if (!result) return result.error();
  return {static_cast<ErrorCode>(-1), "(a value)", "(a value)", "(a value)"};
}

}  // namespace freshet::test
