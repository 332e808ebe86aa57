// The table of queries in fourteen languages, emoji and mixtures: one row per query, each with an
// index of its own. Rows are data: add one for each query that misses an item.
#pragma once

#include <string>
#include <vector>

#include "core/items/ports.h"

namespace freshet::test {

struct TableItem {
  const char* id;
  const char* title;
  const char* tag = "";
  const char* author = "";
  const char* text = "";
  items::TextFormat format = items::TextFormat::kPlain;
};

struct TableRow {
  const char* language;
  const char* query;
  // The ids that the query finds, and no others: "a b" in any order, "a>b" best first, "" none.
  const char* found;
  std::vector<TableItem> items;
};

const std::vector<TableRow>& language_table();

}  // namespace freshet::test
