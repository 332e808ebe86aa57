#include "core/training/train.h"

#include <algorithm>

#include "core/training/blending.h"
#include "core/training/collaborative.h"
#include "core/training/content_neighbours.h"
#include "core/training/in_memory_model.h"
#include "core/training/item_table.h"
#include "core/training/learn_rerank.h"

namespace freshet::training {
namespace {

std::vector<bool> find_touched(const Interactions& interactions) {
  std::vector<bool> result(interactions.items);
  for (std::uint32_t item = 0; item < interactions.items; ++item) {
    result[item] = !interactions.readers_of(item).empty();
  }
  return result;
}

std::vector<bool> inverted(std::vector<bool> flags) {
  flags.flip();
  return flags;
}

// Items that can be treated as cold in the validation: they have interactions and content.
std::vector<bool> cold_candidates(const Interactions& interactions, const Content& content) {
  std::vector<bool> candidates = find_touched(interactions);
  for (std::size_t item = 0; item < candidates.size(); ++item)
    candidates[item] = candidates[item] && !content.terms[item].empty();
  return candidates;
}

// Computes the columns of items without interactions; the others are donors.
Columns cold_start(const Content& content, const Columns& columns, const Interactions& interactions,
                   const TrainSettings& settings) {
  const auto is_donor = find_touched(interactions);
  return cold_start_columns(content, columns, is_donor, inverted(is_donor),
                            static_cast<std::size_t>(settings.neighbours));
}

// The common first step of all ways of training.
struct TrainingInputs {
  ItemTable table;
  Content content;
  Columns content_columns;
};

Result<TrainingInputs> prepare_inputs(const TrainingData& data, const TrainSettings& settings,
                                      const Progress& progress) {
  progress("reading items", 0);
  TrainingInputs inputs{build_item_table(data, settings), {}, {}};
  const auto with_events = find_touched(inputs.table.interactions);
  if (std::count(with_events.begin(), with_events.end(), true) < 2) {
    return fail(ErrorCode::kInvalid, "no_events", {},
                "nothing to learn from: fewer than two items have interactions");
  }
  progress("comparing content", 0);
  inputs.content = build_content(inputs.table.terms);
  inputs.content_columns =
      content_columns(inputs.content, static_cast<std::size_t>(settings.content_neighbours));
  return inputs;
}

// For a site too small to validate on; close to what validation chose for citeulike-a.
constexpr model::BlendWeights kDefaultBlend{{1, 0.3F, 3}};

MethodChoice choose_parameters(const TrainingInputs& inputs, const TrainSettings& settings,
                               const Progress& progress) {
  const Interactions& all = inputs.table.interactions;
  const Validation validation = split_validation(all, cold_candidates(all, inputs.content));
  MethodChoice choice = choose_method(validation, settings, progress);
  if (inputs.content.vocabulary.empty()) return choice;
  if (validation.cases.empty()) {
    choice.parameters.blend_weights = kDefaultBlend;
    return choice;
  }
  progress("validating the blend", 0);
  RelationColumns columns{
      fit_columns(validation.training, choice.parameters, settings), inputs.content_columns, {}};
  columns[2] = cold_start(inputs.content, columns[0], validation.training, settings);
  const BlendChoice blend = choose_blend(validation, columns);
  choice.parameters.blend_weights = blend.blend;
  choice.report += "; " + blend.report;
  return choice;
}

TrainedModel fit_model(TrainingInputs inputs, MethodChoice choice, const TrainSettings& settings,
                       UnixSeconds now) {
  RelationColumns columns{fit_columns(inputs.table.interactions, choice.parameters, settings),
                          std::move(inputs.content_columns),
                          {}};
  columns[2] = cold_start(inputs.content, columns[0], inputs.table.interactions, settings);
  TrainedModel trained;
  for (std::size_t p = 0; p < model::kRelations; ++p) trained.relations[p] = to_rows(columns[p]);
  trained.items = std::move(inputs.table.items);
  trained.counts = std::move(inputs.table.counts);
  trained.decayed_counts = std::move(inputs.table.decayed_counts);
  trained.blend_weights = choice.parameters.blend_weights;
  trained.vocabulary = std::move(inputs.content.vocabulary);
  trained.idf = std::move(inputs.content.idf);
  trained.terms = std::move(inputs.content.terms);
  trained.trained_at = now;
  trained.algorithm = choice.parameters.ease ? "ease" : "rp3beta";
  trained.parameters = choice.parameters;
  trained.report = std::move(choice.report);
  return trained;
}

}  // namespace

Result<TrainedModel> train(const TrainingData& data, const TrainSettings& settings, const Progress& progress,
                           const recommend::RankingSettings& ranking) {
  auto trained = train_relations(data, settings, progress);
  if (!trained) return trained;
  progress("learning to rank", 0);
  LearnedRanking learned = learn_ranking(
      data, ranking,
      [&](const TrainingData& past, std::vector<float> reranker) -> std::shared_ptr<const model::Model> {
        auto earlier = train_with_parameters(past, settings, trained->parameters);
        if (!earlier) return nullptr;
        earlier->reranker = std::move(reranker);
        return to_model(std::move(*earlier));
      });
  trained->reranker = std::move(learned.reranker);
  trained->ranking = learned.choice.ranking;
  trained->ranking_choice = std::move(learned.choice);
  return trained;
}

Result<TrainedModel> train_relations(const TrainingData& data, const TrainSettings& settings,
                                     const Progress& progress) {
  FRESHET_TRY(inputs, prepare_inputs(data, settings, progress));
  MethodChoice choice = choose_parameters(*inputs, settings, progress);
  progress("fitting", 0);
  return fit_model(std::move(*inputs), std::move(choice), settings, data.now);
}

Result<TrainedModel> train_with_parameters(const TrainingData& data, const TrainSettings& settings,
                                           const Parameters& chosen) {
  FRESHET_TRY(inputs, prepare_inputs(data, settings, [](std::string_view, double) {}));
  return fit_model(std::move(*inputs), {chosen, "given parameters"}, settings, data.now);
}

}  // namespace freshet::training
