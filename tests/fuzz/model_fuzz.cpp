// libFuzzer: no model file causes a read outside it. The input is a file, or a list of changes to a
// small valid one whose checksum is then corrected, because a checksum is no defense against
// someone who can write the file.
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

// Three items, each with a tag, a term and a neighbor.
std::string valid_file() {
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
  for (auto& relation : trained.relations) {
    relation.starts = {0, 1, 2, 3};
    relation.neighbours = {{1, 1}, {2, .5F}, {0, .25F}};
  }
  const std::filesystem::path path = "/dev/shm/freshet-model-fuzz-" + std::to_string(getpid());
  require(training::write_model(trained, path).has_value());
  std::ifstream in(path, std::ios::binary);
  std::string bytes((std::istreambuf_iterator<char>(in)), {});
  std::filesystem::remove(path);
  return bytes;
}

std::string mutated(Input& input) {
  static const std::string original = valid_file();
  std::string bytes = original;
  while (!input.empty()) {
    const std::size_t at = input.number<std::uint16_t>() % bytes.size();
    const std::string_view replacement = input.text(1U << input.number<std::uint8_t>() % 4U);
    bytes.replace(at, std::min(replacement.size(), bytes.size() - at),
                  replacement.substr(0, bytes.size() - at));
  }
  const std::uint64_t sum =
      XXH3_64bits(bytes.data() + model::layout::kChecksumStart, bytes.size() - model::layout::kChecksumStart);
  std::memcpy(bytes.data() + offsetof(model::layout::Header, checksum), &sum, sizeof sum);
  return bytes;
}

// Copies the file to memory that ends where the file does, so that reads past it are caught.
bool is_valid(std::string_view bytes) {
  const std::unique_ptr<std::byte, decltype(&std::free)> memory(
      static_cast<std::byte*>(std::aligned_alloc(64, (bytes.size() + 63) / 64 * 64)), &std::free);
  std::memcpy(memory.get(), bytes.data(), bytes.size());
  return model::checked_view({memory.get(), bytes.size()}).has_value();
}

void read_everything(const model::Model& model) {
  std::vector<float> scores(model.items());
  std::vector<std::uint8_t> touched_blocks(model::block_count(model.items()));
  std::vector<double> sums(1);
  std::vector<std::string_view> tags;
  for (std::uint32_t item = 0; item < model.items(); ++item) {
    require(model.find(model.id(item)) == item);
    model.prefetch(item);
    const std::array ids{model.id(item), std::string_view("none")};
    std::array<std::uint32_t, 2> found{};
    model.find_all(ids, found);
    require(found[0] == item && model.find(ids[1]).value_or(model::kNoIndex) == found[1]);
    std::size_t read = model.title(item).size() + model.author(item).size() + model.terms(item).size();
    model.tags(item, tags);
    for (const std::string_view tag : tags) read += std::string(tag).size();
    require(read < (1U << 20U));
    require(std::string(model.title(item)).size() == model.title(item).size());
    for (const model::TermWeight& term : model.terms(item)) require(term.weight == term.weight);
    for (const auto relation :
         {model::Relation::kCf, model::Relation::kContent, model::Relation::kColdStart}) {
      for (const model::Neighbour& each : model.row(relation, item)) require(each.item < model.items());
      model.prefetch(relation, item);
      model.accumulate(relation, item, 1, scores, touched_blocks);
      model.accumulate_selected(relation, item, 1, model::SparseIndexSet({&item, 1}), sums);
    }
  }
  require(!model.find("unknown") || model.id(*model.find("unknown")) == "unknown");
  static_cast<void>(model.idf(7));
  require(std::string(model.algorithm()).size() < 20);
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  Input input(data, size);
  const std::string bytes =
      input.number<std::uint8_t>() % 8 == 0 ? std::string(input.rest()) : mutated(input);
  if (bytes.empty()) return 0;
  const bool valid = is_valid(bytes);
  const int fd = memfd_create("model", MFD_CLOEXEC);
  require(fd >= 0 && write(fd, bytes.data(), bytes.size()) == static_cast<ssize_t>(bytes.size()));
  const auto opened = model::Model::open(fd);
  close(fd);
  require(opened.has_value() == valid);
  if (opened) read_everything(**opened);
  return 0;
}
