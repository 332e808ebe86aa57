// libFuzzer: no bytes of a model file lead outside it. The input is a file, or says what is changed
// in a small one that is right, whose checksum is then made right again: a checksum is no defence
// against who can write.
#include <sys/mman.h>
#include <unistd.h>
#include <xxhash.h>

#include <array>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <memory>
#include <string>
#include <vector>

#include "core/model/model_layout.h"
#include "core/model/model_view.h"
#include "core/training/train.h"
#include "tests/fuzz/fuzz.h"

namespace {

using namespace freshet;
using fuzz::Input;
using fuzz::require;

// Three items, each with a tag, a term and a neighbour.
std::string good_file() {
  training::TrainedModel trained;
  trained.algorithm = "rp3beta";
  trained.trained_at = UnixSeconds{seconds{1'700'000'000}};
  trained.vocabulary = {7, 9};
  trained.idf = {1, 2};
  trained.reranker = {1, 2, 3};
  for (std::uint32_t i = 0; i < 3; ++i) {
    const std::string name(1, static_cast<char>('a' + i));
    trained.items.push_back({name, "title " + name, {}, "author", {"tag"}, trained.trained_at, false});
    trained.counts.push_back(1);
    trained.decayed_counts.push_back(1);
    trained.terms.push_back({{i % 2, 1}});
  }
  for (auto& part : trained.parts) {
    part.starts = {0, 1, 2, 3};
    part.neighbours = {{1, 1}, {2, .5F}, {0, .25F}};
  }
  const std::filesystem::path path = "/dev/shm/freshet-model-fuzz-" + std::to_string(getpid());
  require(training::write_model(trained, path).has_value());
  std::ifstream in(path, std::ios::binary);
  std::string bytes((std::istreambuf_iterator<char>(in)), {});
  std::filesystem::remove(path);
  return bytes;
}

std::string changed(Input& input) {
  static const std::string good = good_file();
  std::string bytes = good;
  while (!input.empty()) {
    const std::size_t at = input.number<std::uint16_t>() % bytes.size();
    const std::string_view put = input.text(1U << input.number<std::uint8_t>() % 4U);
    bytes.replace(at, std::min(put.size(), bytes.size() - at), put.substr(0, bytes.size() - at));
  }
  const std::uint64_t sum =
      XXH3_64bits(bytes.data() + model::layout::kChecksumStart, bytes.size() - model::layout::kChecksumStart);
  std::memcpy(bytes.data() + offsetof(model::layout::Header, checksum), &sum, sizeof sum);
  return bytes;
}

// In memory that ends where the file does, so that a look beyond it is seen.
bool is_good(std::string_view bytes) {
  const std::unique_ptr<std::byte, decltype(&std::free)> memory(
      static_cast<std::byte*>(std::aligned_alloc(64, (bytes.size() + 63) / 64 * 64)), &std::free);
  std::memcpy(memory.get(), bytes.data(), bytes.size());
  return model::checked_view({memory.get(), bytes.size()}).has_value();
}

void use(const model::Model& model) {
  std::vector<float> scores(model.items());
  std::vector<std::uint8_t> lines(model::lines_of(model.items()));
  std::vector<double> sums(1);
  std::vector<std::string_view> tags;
  for (std::uint32_t item = 0; item < model.items(); ++item) {
    require(model.find(model.id(item)) == item);
    model.fetch(item);
    const std::array ids{model.id(item), std::string_view("none")};
    std::array<std::uint32_t, 2> found{};
    model.find_all(ids, found);
    require(found[0] == item && model.find(ids[1]).value_or(model::kNone) == found[1]);
    std::size_t read = model.title(item).size() + model.author(item).size() + model.terms(item).size();
    model.tags(item, tags);
    for (const std::string_view tag : tags) read += std::string(tag).size();
    require(read < (1U << 20U));
    require(std::string(model.title(item)).size() == model.title(item).size());
    for (const model::TermWeight& term : model.terms(item)) require(term.weight == term.weight);
    for (const auto part : {model::Part::kCf, model::Part::kContent, model::Part::kColdStart}) {
      for (const model::Neighbour& each : model.row(part, item)) require(each.item < model.items());
      model.fetch(part, item);
      model.accumulate(part, item, 1, scores, lines);
      model.relate(part, item, 1, model::SparseIndexSet({&item, 1}), sums);
    }
  }
  require(!model.find("nobody") || model.id(*model.find("nobody")) == "nobody");
  static_cast<void>(model.idf(7));
  require(std::string(model.algorithm()).size() < 20);
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  Input input(data, size);
  const std::string bytes =
      input.number<std::uint8_t>() % 8 == 0 ? std::string(input.rest()) : changed(input);
  if (bytes.empty()) return 0;
  const bool good = is_good(bytes);
  const int fd = memfd_create("model", MFD_CLOEXEC);
  require(fd >= 0 && write(fd, bytes.data(), bytes.size()) == static_cast<ssize_t>(bytes.size()));
  const auto opened = model::Model::open(fd);
  close(fd);
  require(opened.has_value() == good);
  if (opened) use(**opened);
  return 0;
}
