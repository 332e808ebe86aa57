// A square matrix of floats with aligned, padded rows for SIMD.
#pragma once

#include <cstddef>
#include <memory>

namespace freshet::training {

// Zero-initialized; aligned to 64 bytes.
class AlignedFloats {
 public:
  explicit AlignedFloats(std::size_t count);
  float* data() { return cells_.get(); }
  const float* data() const { return cells_.get(); }
  std::size_t size() const { return count_; }

 private:
  struct Deleter {
    void operator()(float* cells) const;
  };
  std::size_t count_;
  std::unique_ptr<float[], Deleter> cells_;
};

// Rows and columns from `items` to `side` are padding. Uses 4 · side² bytes.
class SquareMatrix {
 public:
  explicit SquareMatrix(std::size_t items);
  std::size_t items() const { return items_; }
  std::size_t side() const { return side_; }  // items rounded up to a multiple of kPanel
  float* row(std::size_t i) { return cells_.data() + i * side_; }
  const float* row(std::size_t i) const { return cells_.data() + i * side_; }
  SquareMatrix copy() const;

 private:
  std::size_t items_, side_;
  AlignedFloats cells_;
};

// Copies the lower triangle to the upper one.
void mirror_lower(SquareMatrix& a);

// Replaces A by −A⁻¹, and its padding by the negative identity. REQUIRES: symmetric and positive
// definite; only the lower triangle is read. Takes side³/2 multiply-adds, in parallel. The result
// is identical for any number of threads and any instruction set.
void invert_negated(SquareMatrix& a);

}  // namespace freshet::training
