#include "core/training/train.h"

#include <algorithm>

#include "core/training/collaborative.h"
#include "core/training/content_neighbours.h"
#include "core/training/item_table.h"
#include "core/training/learn_rerank.h"
#include "core/training/mixing.h"
#include "core/training/trained_model.h"

namespace freshet::training {
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

// What both ways of training begin with.
struct Material {
  ItemTable table;
  Content content;
  Columns near;  // content neighbours
};

Result<Material> material(const TrainingData& data, const TrainSettings& settings, const Progress& progress) {
  progress("reading items", 0);
  Material made{item_table(data, settings), {}, {}};
  const auto with_events = touched(made.table.interactions);
  if (std::count(with_events.begin(), with_events.end(), true) < 2) {
    return fail(ErrorCode::kInvalid, "no_events", {},
                "nothing to learn from: fewer than two items have interactions");
  }
  progress("comparing content", 0);
  made.content = content_of(made.table.terms);
  made.near = content_columns(made.content, static_cast<std::size_t>(settings.content_neighbours));
  return made;
}

// For a site that is too small to validate on: about what citeulike-a's validation chose.
constexpr model::Mix kUnvalidated{{1, 0.3F, 3}};

MethodChoice validated(const Material& from, const TrainSettings& settings, const Progress& progress) {
  const Interactions& all = from.table.interactions;
  const Validation validation = validation_of(all, cold_candidates(all, from.content));
  MethodChoice choice = choose(validation, settings, progress);
  if (from.content.vocabulary.empty()) return choice;
  if (validation.cases.empty()) {
    choice.parameters.mix = kUnvalidated;
    return choice;
  }
  progress("validating the mix", 0);
  PartColumns parts{fit(validation.training, choice.parameters, settings), from.near, {}};
  parts[2] = borrowed(from.content, parts[0], validation.training, settings);
  const MixChoice mixed = choose_mix(validation, parts);
  choice.parameters.mix = mixed.mix;
  choice.report += "; " + mixed.report;
  return choice;
}

Trained fitted(Material from, MethodChoice choice, const TrainSettings& settings, UnixSeconds now) {
  PartColumns parts{fit(from.table.interactions, choice.parameters, settings), std::move(from.near), {}};
  parts[2] = borrowed(from.content, parts[0], from.table.interactions, settings);
  Trained trained;
  for (std::size_t p = 0; p < model::kParts; ++p) trained.parts[p] = rows_of(parts[p]);
  trained.items = std::move(from.table.items);
  trained.counts = std::move(from.table.counts);
  trained.decayed_counts = std::move(from.table.decayed_counts);
  trained.mix = choice.parameters.mix;
  trained.vocabulary = std::move(from.content.vocabulary);
  trained.idf = std::move(from.content.idf);
  trained.terms = std::move(from.content.terms);
  trained.trained_at = now;
  trained.algorithm = choice.parameters.ease ? "ease" : "rp3beta";
  trained.parameters = choice.parameters;
  trained.report = std::move(choice.report);
  return trained;
}

}  // namespace

Result<Trained> train(const TrainingData& data, const TrainSettings& settings, const Progress& progress,
                      const recommend::RankingSettings& ranking) {
  auto trained = train_relations(data, settings, progress);
  if (!trained) return trained;
  progress("learning to rank", 0);
  trained->reranker =
      learn_rerank(data, ranking, [&](const TrainingData& past) -> std::shared_ptr<const model::Model> {
        auto earlier = train_as(past, settings, trained->parameters);
        return earlier ? as_model(std::move(*earlier)) : nullptr;
      });
  return trained;
}

Result<Trained> train_relations(const TrainingData& data, const TrainSettings& settings,
                                const Progress& progress) {
  FRESHET_TRY(from, material(data, settings, progress));
  MethodChoice choice = validated(*from, settings, progress);
  progress("fitting", 0);
  return fitted(std::move(*from), std::move(choice), settings, data.now);
}

Result<Trained> train_as(const TrainingData& data, const TrainSettings& settings, const Parameters& chosen) {
  FRESHET_TRY(from, material(data, settings, [](std::string_view, double) {}));
  return fitted(std::move(*from), {chosen, "parameters chosen before"}, settings, data.now);
}

}  // namespace freshet::training
