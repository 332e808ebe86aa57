#include "core/training/content_neighbours.h"

#include <algorithm>
#include <cmath>

namespace freshet::training {
namespace {

constexpr std::size_t kMostTerms = 100;
constexpr std::size_t kMostHolders = 3000;

struct Holder {
  std::uint32_t item = 0;
  float weight = 0;
};

// Which items have a term.
std::vector<std::vector<Holder>> holders_of(const Content& content, const std::vector<bool>* only) {
  std::vector<std::vector<Holder>> holders(content.vocabulary.size());
  for (std::uint32_t item = 0; item < content.terms.size(); ++item) {
    if (only != nullptr && !(*only)[item]) continue;
    for (const model::TermWeight& term : content.terms[item])
      holders[term.term].push_back({item, term.weight});
  }
  for (auto& of_term : holders) {
    if (of_term.size() > kMostHolders) of_term.clear();
  }
  return holders;
}

Column nearest(const Content& content, const std::vector<std::vector<Holder>>& holders, std::uint32_t item,
               std::size_t most, ColumnSum& sum) {
  for (const model::TermWeight& term : content.terms[item]) {
    for (const Holder& holder : holders[term.term]) {
      if (holder.item != item) sum.add(holder.item, term.weight * holder.weight);
    }
  }
  return sum.take(most);
}

void keep_heaviest(std::vector<model::TermWeight>& vector) {
  if (vector.size() <= kMostTerms) return;
  std::stable_sort(vector.begin(), vector.end(), [](const model::TermWeight& a, const model::TermWeight& b) {
    return a.weight > b.weight;
  });
  vector.resize(kMostTerms);
  std::sort(vector.begin(), vector.end(),
            [](const model::TermWeight& a, const model::TermWeight& b) { return a.term < b.term; });
}

}  // namespace

Content content_of(std::span<const std::vector<model::TermCount>> items) {
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
      const auto known = std::lower_bound(content.vocabulary.begin(), content.vocabulary.end(), term.hash);
      if (known == content.vocabulary.end() || *known != term.hash) continue;
      const auto index = static_cast<std::uint32_t>(known - content.vocabulary.begin());
      vector.push_back({index, model::term_weight(term.count, content.idf[index])});
    }
    keep_heaviest(vector);
    model::normalise(vector);
    content.terms.push_back(std::move(vector));
  }
  return content;
}

Columns content_columns(const Content& content, std::size_t most) {
  const auto holders = holders_of(content, nullptr);
  return each_column(content.terms.size(), [&](std::uint32_t item, ColumnSum& sum) {
    return nearest(content, holders, item, most, sum);
  });
}

Columns borrowed_columns(const Content& content, const Columns& columns, const std::vector<bool>& lends,
                         const std::vector<bool>& borrows, std::size_t neighbours) {
  const auto holders = holders_of(content, &lends);
  return each_column(content.terms.size(), [&](std::uint32_t item, ColumnSum& sum) -> Column {
    if (!borrows[item]) return {};
    const Column lenders = nearest(content, holders, item, kLenders, sum);
    float all = 0;
    for (const model::Neighbour& lender : lenders) all += lender.weight;
    for (const model::Neighbour& lender : lenders) {
      for (const model::Neighbour& lent : columns[lender.item]) {
        if (lent.item != item) sum.add(lent.item, lent.weight * lender.weight / all);
      }
    }
    return sum.take(neighbours);
  });
}

}  // namespace freshet::training
