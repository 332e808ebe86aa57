// Tables of items: CSV with a header row.
#pragma once

#include <istream>
#include <string_view>

#include "core/base/result.h"
#include "scripts/ctl/import/source_item.h"

namespace freshet::ctl {

// Returns whether a line names at least two columns that read_csv_items() knows, among them a
// title, a text, a link or an id.
bool is_csv_header(std::string_view line);

// Reads comma-separated values (RFC 4180), or values separated by semicolons or tabs if the header
// is. The header names the columns, in any order and spelling of "published_at", "Published At" or
// "publishedAt"; synonyms are known and other columns ignored. Several tags in a field are
// separated by "|", ";" or ",". A row that cannot be read is skipped. Needs memory for one row, at
// most 4 MiB. Errors: kInvalid "bad_csv"; rows before the error have been delivered.
//
// `id_column`: the column of the ids (SourceItem::table_id), which must exist, in any spelling of
// its name. Empty: the column "id" if there is one.
Result<void> read_csv_items(std::istream& in, const SourceSink& sink, std::string_view id_column = {});

}  // namespace freshet::ctl
