#include "core/training/square_matrix.h"

#include <Eigen/Dense>
#include <catch2/catch.hpp>
#include <cstring>
#include <random>

#include "core/training/rank_update.h"

using namespace freshet::training;

namespace freshet::training {
void rank_update_generic(float* a, const float* b, const float* c, std::size_t stride);
}

TEST_CASE("sweeping inverts matrices of any size", "[model]") {
  for (const int size : {1, 5, 95, 96, 97, 200}) {
    std::mt19937 random(static_cast<unsigned>(size));
    std::normal_distribution<double> normal;
    Eigen::MatrixXd root(size, size);
    for (int r = 0; r < size; ++r) {
      for (int c = 0; c < size; ++c) root(r, c) = normal(random);
    }
    const Eigen::MatrixXd wanted = root * root.transpose() / size + Eigen::MatrixXd::Identity(size, size);
    SquareMatrix a(static_cast<std::size_t>(size));
    for (int r = 0; r < size; ++r) {
      for (int c = 0; c <= r; ++c) {
        a.row(static_cast<std::size_t>(r))[c] = static_cast<float>(wanted(r, c));
      }
    }
    invert_negated(a);
    const Eigen::MatrixXd inverse = wanted.inverse();
    for (int r = 0; r < size; ++r) {
      for (int c = 0; c < size; ++c) {
        CHECK(-a.row(static_cast<std::size_t>(r))[c] == Approx(inverse(r, c)).margin(1e-5));
      }
    }
  }
}

TEST_CASE("every instruction set gives the same bytes", "[model]") {
  std::mt19937 random(1);
  std::uniform_real_distribution<float> even(-1, 1);
  AlignedFloats a(kTileRows * kLane);
  AlignedFloats b(kTileRows * kPanel);
  AlignedFloats c(kPanel * kLane);
  for (AlignedFloats* each : {&a, &b, &c}) {
    for (std::size_t i = 0; i < each->size(); ++i) each->data()[i] = even(random);
  }
  AlignedFloats other(a.size());
  std::memcpy(other.data(), a.data(), a.size() * sizeof(float));
  rank_update_generic(a.data(), b.data(), c.data(), kLane);
  best_rank_update()(other.data(), b.data(), c.data(), kLane);
  CHECK(std::memcmp(a.data(), other.data(), a.size() * sizeof(float)) == 0);
}
