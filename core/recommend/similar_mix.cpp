#include "core/recommend/similar_mix.h"

#include <algorithm>
#include <functional>
#include <numeric>
#include <string_view>
#include <unordered_map>

namespace freshet::recommend {
namespace {

using Source = SimilarItem::Source;

double sum_of(const std::vector<SimilarItem>& items) {
  return std::accumulate(items.begin(), items.end(), 0.0,
                         [](double sum, const SimilarItem& each) { return sum + each.score; });
}

}  // namespace

std::vector<SimilarItem> mix_similar(const SimilarSources& sources, const ItemId& item, std::size_t limit) {
  const double reads = sum_of(sources.covisits);
  const double alpha = sources.content.empty() ? 1 : reads / (reads + kCovisitPrior);
  std::vector<SimilarItem> out;
  std::unordered_map<std::string_view, std::size_t> positions;
  // The trend comes last, in order: of the items that it adds, at most the first `limit` are
  // returned.
  const auto add = [&](const std::vector<SimilarItem>& items, Source source, double factor) {
    const std::size_t max_size = out.size() + limit;
    for (const SimilarItem& each : items) {
      const double term = factor * each.score;
      if (each.item == item || !(term > 0)) continue;
      if (const auto at = positions.find(each.item.view()); at != positions.end()) {
        out[at->second].score += term;
      } else if (source != Source::kTrend || out.size() < max_size) {
        positions.emplace(each.item.view(), out.size());
        out.push_back({each.item, term, source});
      }
    }
  };
  if (reads == 0 && !sources.content.empty()) {
    add(sources.content, Source::kContent, 1);
  } else {
    add(sources.covisits, Source::kCovisits, alpha / (reads + kCovisitPrior));
    if (!sources.content.empty())
      add(sources.content, Source::kContent, (1 - alpha) / sum_of(sources.content));
    if (sources.trend && !sources.trend->empty())
      add(*sources.trend, Source::kTrend,
          alpha * kCovisitPrior / (reads + kCovisitPrior) / sum_of(*sources.trend));
  }
  std::ranges::stable_sort(out, std::ranges::greater(), &SimilarItem::score);
  if (out.size() > limit) out.erase(out.begin() + static_cast<std::ptrdiff_t>(limit), out.end());
  return out;
}

}  // namespace freshet::recommend
