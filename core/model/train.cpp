#include "core/model/train.h"

#include <algorithm>

#include "core/model/collaborative.h"
#include "core/model/content_neighbours.h"
#include "core/model/item_table.h"
#include "core/model/mixing.h"

namespace freshet::model {
namespace {

std::vector<bool> touched(const Interactions& interactions) {
  std::vector<bool> made(interactions.items);
  for (std::uint32_t item = 0; item < interactions.items; ++item) {
    made[item] = !interactions.of_item(item).empty();
  }
  return made;
}

std::vector<bool> inverted(std::vector<bool> flags) {
  flags.flip();
  return flags;
}

// Items whose coldness can be tried: touched, and not without content.
std::vector<bool> cold_candidates(const Interactions& interactions, const Content& content) {
  std::vector<bool> made = touched(interactions);
  for (std::size_t item = 0; item < made.size(); ++item)
    made[item] = made[item] && !content.terms[item].empty();
  return made;
}

// The columns of untouched items are lent by touched ones.
Columns borrowed(const Content& content, const Columns& columns, const Interactions& interactions,
                 const TrainSettings& settings) {
  const auto lends = touched(interactions);
  return borrowed_columns(content, columns, lends, inverted(lends),
                          static_cast<std::size_t>(settings.neighbours));
}

// Which algorithm, with what parameters and what mix; `near` are the content neighbours.
struct Choice {
  Collaborative collaborative;
  MixChoice mix;
};

Choice validated(const ItemTable& table, const Content& content, const Columns& near,
                 const TrainSettings& settings, const Progress& progress) {
  const Validation validation =
      validation_of(table.interactions, cold_candidates(table.interactions, content));
  Choice choice;
  choice.collaborative = choose(validation, settings, progress);
  if (content.vocabulary.empty() || validation.cases.empty()) return choice;
  progress("validating the mix", 0);
  PartColumns parts{fit(validation.training, choice.collaborative, settings), near, {}};
  parts[2] = borrowed(content, parts[0], validation.training, settings);
  choice.mix = choose_mix(validation, parts);
  return choice;
}

}  // namespace

Result<Trained> train(const TrainingData& data, const TrainSettings& settings, const Progress& progress) {
  progress("reading items", 0);
  ItemTable table = item_table(data, settings);
  const auto with_events = touched(table.interactions);
  if (std::count(with_events.begin(), with_events.end(), true) < 2) {
    return fail(ErrorCode::kInvalid, "no_events", {},
                "nothing to learn from: fewer than two items have interactions");
  }
  progress("comparing content", 0);
  Content content = content_of(table.terms);
  Columns near = content_columns(content, static_cast<std::size_t>(settings.content_neighbours));
  const Choice choice = validated(table, content, near, settings, progress);

  progress("fitting", 0);
  PartColumns parts{fit(table.interactions, choice.collaborative, settings), std::move(near), {}};
  parts[2] = borrowed(content, parts[0], table.interactions, settings);

  Trained trained;
  for (std::size_t p = 0; p < kParts; ++p) trained.parts[p] = rows_of(parts[p]);
  trained.items = std::move(table.items);
  trained.counts = std::move(table.counts);
  trained.decayed_counts = std::move(table.decayed_counts);
  trained.mix = choice.mix.mix;
  trained.vocabulary = std::move(content.vocabulary);
  trained.idf = std::move(content.idf);
  trained.terms = std::move(content.terms);
  trained.trained_at = data.now;
  trained.algorithm = choice.collaborative.ease ? "ease" : "rp3beta";
  trained.report = choice.collaborative.report;
  if (!choice.mix.report.empty()) trained.report += "; " + choice.mix.report;
  progress("fitting", 1);
  return trained;
}

}  // namespace freshet::model
