#include "core/training/content_neighbours.h"

#include <algorithm>
#include <cmath>

namespace freshet::training {
namespace {

constexpr std::size_t kMaxTerms = 100;
constexpr std::size_t kMaxPostings = 3000;

struct Posting {
  std::uint32_t item = 0;
  float weight = 0;
};

// Inverted index: the items that have a term.
std::vector<std::vector<Posting>> build_postings(const Content& content, const std::vector<bool>* donors) {
  std::vector<std::vector<Posting>> postings(content.vocabulary.size());
  for (std::uint32_t item = 0; item < content.terms.size(); ++item) {
    if (donors != nullptr && !(*donors)[item]) continue;
    for (const model::TermWeight& term : content.terms[item])
      postings[term.term].push_back({item, term.weight});
  }
  for (auto& of_term : postings) {
    if (of_term.size() > kMaxPostings) of_term.clear();
  }
  return postings;
}

Column find_nearest(const Content& content, const std::vector<std::vector<Posting>>& postings,
                    std::uint32_t item, std::size_t limit, ColumnAccumulator& sum) {
  for (const model::TermWeight& term : content.terms[item]) {
    for (const Posting& posting : postings[term.term]) {
      if (posting.item != item) sum.add(posting.item, term.weight * posting.weight);
    }
  }
  return sum.extract_top(limit);
}

void prune_terms(std::vector<model::TermWeight>& vector) {
  if (vector.size() <= kMaxTerms) return;
  std::stable_sort(vector.begin(), vector.end(), [](const model::TermWeight& a, const model::TermWeight& b) {
    return a.weight > b.weight;
  });
  vector.resize(kMaxTerms);
  std::sort(vector.begin(), vector.end(),
            [](const model::TermWeight& a, const model::TermWeight& b) { return a.term < b.term; });
}

}  // namespace

Content build_content(std::span<const std::vector<model::TermCount>> items) {
  std::vector<std::uint64_t> hashes;
  for (const auto& terms : items) {
    for (const model::TermCount& term : terms) hashes.push_back(term.hash);
  }
  std::sort(hashes.begin(), hashes.end());
  Content content;
  for (std::size_t from = 0, to = 0; from < hashes.size(); from = to) {
    while (to < hashes.size() && hashes[to] == hashes[from]) ++to;
    if (to - from < 2) continue;
    content.vocabulary.push_back(hashes[from]);
    content.idf.push_back(std::log(static_cast<float>(items.size()) / static_cast<float>(to - from)));
  }
  for (const auto& terms : items) {
    std::vector<model::TermWeight> vector;
    for (const model::TermCount& term : terms) {
      const auto entry = std::lower_bound(content.vocabulary.begin(), content.vocabulary.end(), term.hash);
      if (entry == content.vocabulary.end() || *entry != term.hash) continue;
      const auto index = static_cast<std::uint32_t>(entry - content.vocabulary.begin());
      vector.push_back({index, model::term_weight(term.count, content.idf[index])});
    }
    prune_terms(vector);
    model::normalise(vector);
    content.terms.push_back(std::move(vector));
  }
  return content;
}

Columns content_columns(const Content& content, std::size_t limit) {
  const auto postings = build_postings(content, nullptr);
  return build_columns(content.terms.size(), [&](std::uint32_t item, ColumnAccumulator& sum) {
    return find_nearest(content, postings, item, limit, sum);
  });
}

Columns cold_start_columns(const Content& content, const Columns& columns, const std::vector<bool>& is_donor,
                           const std::vector<bool>& is_cold, std::size_t neighbours) {
  const auto postings = build_postings(content, &is_donor);
  return build_columns(content.terms.size(), [&](std::uint32_t item, ColumnAccumulator& sum) -> Column {
    if (!is_cold[item]) return {};
    const Column donors = find_nearest(content, postings, item, kMaxDonors, sum);
    float total = 0;
    for (const model::Neighbour& donor : donors) total += donor.weight;
    for (const model::Neighbour& donor : donors) {
      for (const model::Neighbour& neighbour : columns[donor.item]) {
        if (neighbour.item != item) sum.add(neighbour.item, neighbour.weight * donor.weight / total);
      }
    }
    return sum.extract_top(neighbours);
  });
}

}  // namespace freshet::training
